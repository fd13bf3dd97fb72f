package main

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
)

// TestStoreCost compares a check of charts that were fetched with one of the same
// charts in the tree.
func TestStoreCost(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	const charts = 40
	stored, vendor := map[string]string{}, map[store.Entry][]byte{}
	inTree := map[string]string{
		"source.yaml": "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: here, namespace: flux-system}\nspec: {url: https://git.example.org/here.git}\n",
		configFile:    "repository: [git.example.org/here]\n",
	}
	for i := range charts {
		name := fmt.Sprintf("web%02d", i)
		files := map[string]string{name + "/Chart.yaml": "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n"}
		var values strings.Builder
		for k := range 100 {
			fmt.Fprintf(&values, "component%d:\n  image: {repository: example.org/%s, tag: v%d}\n  privileged: false\n", k, name, k)
		}
		files[name+"/values.yaml"] = values.String()
		for k := range 20 {
			template := strings.NewReplacer("base", fmt.Sprintf("{{ .Release.Name }}-%d", k), "example.org/{{ .Release.Name }}-"+fmt.Sprint(k)+":1", fmt.Sprintf("{{ .Values.component%d.image.repository }}:{{ .Values.component%d.image.tag }}", k, k))
			files[fmt.Sprintf("%s/templates/a%d.yaml", name, k)] = template.Replace(deployment)
		}
		release := fluxRelease(name, "https://charts.example.org", "1.x")
		stored[name+".yaml"] = release
		vendor[store.Entry{Kind: render.HelmChart, URL: "https://charts.example.org", Name: name, Requested: "1.x", Resolved: "1.0.0"}] = archived(t, files)
		_, release, _ = strings.Cut(release, "---\n")
		inTree[name+".yaml"] = strings.NewReplacer("chart: "+name, "chart: ./charts/"+name, "kind: HelmRepository, name: "+name, "kind: GitRepository, name: here").Replace(release)
		for file, text := range files {
			inTree[path.Join("charts", file)] = text
		}
	}
	for name, text := range vendored(t, vendor) {
		stored[name] = text
	}
	cost := func(files map[string]string) (took time.Duration, findings string) {
		dir := repositoryOf(t, files)
		for range 2 {
			cmd := programCommand(t, dir, nil, "check", "--pack", "pod-security-baseline", "--no-cache", "-o", "json")
			out, _ := cmd.Output()
			if now := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); took == 0 || now < took {
				took = now
			}
			findings = fmt.Sprint(strings.Count(string(out), "hostNamespaces"))
		}
		return took, findings
	}
	tree, inTreeFindings := cost(inTree)
	fetched, storeFindings := cost(stored)
	if inTreeFindings != storeFindings || storeFindings == "0" {
		t.Fatalf("%s findings in the tree, %s in the store", inTreeFindings, storeFindings)
	}
	ratio := float64(fetched) / float64(tree)
	t.Logf("%d charts, %s findings: %s from the store, %s in the tree, ratio %.2f", charts, storeFindings, fetched, tree, ratio)
	if ratio > 2 && os.Getenv("CI") == "" {
		t.Errorf("from the store it takes %.2f times as long", ratio)
	}
}
