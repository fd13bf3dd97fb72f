package main

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// histories are the ways in which a chart writes an object by the history of its release.
var histories = []struct{ name, template string }{
	{"absent", ""},
	{"always", "{{ template \"o\" dict \"name\" %[1]q \"v\" %[2]q }}"},
	{"install", "{{ if .Release.IsInstall }}{{ template \"o\" dict \"name\" %[1]q \"v\" %[2]q }}{{ end }}"},
	{"upgrade", "{{ if .Release.IsUpgrade }}{{ template \"o\" dict \"name\" %[1]q \"v\" %[2]q }}{{ end }}"},
	{"forms", "{{ template \"o\" dict \"name\" %[1]q \"v\" (ternary \"first\" %[2]q .Release.IsInstall) }}"},
	{"first form", "{{ template \"o\" dict \"name\" %[1]q \"v\" (ternary %[2]q \"later\" .Release.IsInstall) }}"},
	{"twice", "{{ if lt (int .Release.Revision) 3 }}{{ template \"o\" dict \"name\" %[1]q \"v\" %[2]q }}{{ end }}"},
	{"revision", "{{ template \"o\" dict \"name\" (print %[1]q \".r\" .Release.Revision) \"v\" %[2]q }}"},
}

// TestUpgradeAsHelm compares the requests of a change of a chart with what Helm's engine writes for two revisions of
// its release: an object is deleted if Helm deletes it, and otherwise only if first installs no longer write it.
func TestUpgradeAsHelm(t *testing.T) {
	const define = "{{ define \"o\" }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .name }}}\ndata: {v: {{ .v }}}\n{{ end }}\n"
	sides := [2]string{define, define}
	first := make(map[string]bool) // a first install no longer writes it, so that it may be deleted
	for i, was := range histories {
		for k, is := range histories {
			for _, value := range []string{"a", "b"} {
				name := fmt.Sprintf("o%d-%d%s", i, k, value)
				first[name] = slices.Contains([]string{"always", "install", "forms", "first form", "twice"}, was.name) && slices.Contains([]string{"absent", "upgrade", "revision"}, is.name)
				for side, template := range []string{was.template, is.template} {
					if template != "" {
						sides[side] += fmt.Sprintf(template, name, []string{"a", value}[side]) + "\n"
					}
				}
			}
		}
	}
	dir := t.TempDir()
	repo, err := gittest.Init(dir)
	rendertest.OK(t, err)
	files := map[string]string{"c/Chart.yaml": chartFile, "c/templates/o.yaml": sides[0]}
	files["policies/delete.yaml"] = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: delete}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [configmaps]}]}
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: delete}
spec: {policyName: delete, validationActions: [Deny]}
`
	writeFiles(t, dir, files)
	if _, err := repo.CommitAll("base"); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, map[string]string{"c/templates/o.yaml": sides[1]})

	before, after := written(t, sides[0], 5), written(t, sides[1], 6)
	got := make(map[string]bool)
	for _, r := range compared(t, dir, ".").Results {
		got[r.Object.Name] = got[r.Object.Name] || r.Policy == "delete" && r.Operation == policy.Delete && r.Baseline.Counts()
	}
	deleted := 0
	for _, name := range slices.Sorted(maps.Keys(first)) {
		want := before[name] && !after[name]
		if want {
			deleted++
		}
		if got[name] != want && (want || !first[name]) {
			t.Errorf("%s (%s): deleted is %t, want %t", name, describe(name), got[name], want)
		}
	}
	if deleted < 20 {
		t.Errorf("%d objects are deleted", deleted)
	}
}

func describe(name string) string {
	var i, k int
	fmt.Sscanf(name, "o%d-%d", &i, &k)
	return histories[i].name + " to " + histories[k].name
}

// written returns the names of the objects that Helm's engine writes for a revision of a release.
func written(t *testing.T, text string, revision int) map[string]bool {
	t.Helper()
	c := &chart.Chart{Metadata: &chart.Metadata{Name: "c"}, Templates: []*chart.File{{Name: "templates/o.yaml", Data: []byte(text)}}}
	values, err := chartutil.ToRenderValues(c, nil, chartutil.ReleaseOptions{Name: "c", Revision: revision, IsUpgrade: true}, nil)
	rendertest.OK(t, err)
	files, err := engine.Render(c, values)
	rendertest.OK(t, err)
	objects, err := render.Parse("o.yaml", []byte(files["c/templates/o.yaml"]))
	rendertest.OK(t, err)
	all := make(map[string]bool)
	for _, o := range objects {
		all[o.GetName()] = true
	}
	return all
}
