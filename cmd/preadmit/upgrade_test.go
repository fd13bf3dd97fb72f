package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// histories are the ways in which a chart writes an object by the history of its release. The arguments are the
// object's name, value and annotations.
var histories = []struct{ name, template string }{
	{"absent", ""},
	{"always", `{{ template "o" list %[1]q %[2]q %[3]q }}`},
	{"install", `{{ if .Release.IsInstall }}{{ template "o" list %[1]q %[2]q %[3]q }}{{ end }}`},
	{"upgrade", `{{ if .Release.IsUpgrade }}{{ template "o" list %[1]q %[2]q %[3]q }}{{ end }}`},
	{"forms", `{{ template "o" list %[1]q (ternary "first" %[2]q .Release.IsInstall) %[3]q }}`},
	{"first form", `{{ template "o" list %[1]q (ternary %[2]q "later" .Release.IsInstall) %[3]q }}`},
	{"twice", `{{ if lt (int .Release.Revision) 3 }}{{ template "o" list %[1]q %[2]q %[3]q }}{{ end }}`},
	{"third", `{{ if gt (int .Release.Revision) 2 }}{{ template "o" list %[1]q %[2]q %[3]q }}{{ end }}`},
	{"second form", `{{ template "o" list %[1]q (ternary "second" %[2]q (eq (int .Release.Revision) 2)) %[3]q }}`},
	{"later form", `{{ template "o" list %[1]q (ternary "early" %[2]q (lt (int .Release.Revision) 3)) %[3]q }}`},
	{"revision", `{{ template "o" list (print %[1]q ".r" .Release.Revision) %[2]q %[3]q }}`},
	{"lookup", `{{ if not (lookup "v1" "ConfigMap" .Release.Namespace %[1]q) }}{{ template "o" list %[1]q %[2]q %[3]q }}{{ end }}`},
}

// annotations are those that change what Helm does with an object.
var annotations = []string{
	"", "", "", "helm.sh/resource-policy: keep", "helm.sh/hook: pre-install", "helm.sh/hook: 'pre-install,pre-upgrade'", "helm.sh/hook: post-upgrade",
}

// A manner is the way in which a side of a change writes an object.
type manner struct {
	history           int
	value, annotation string
}

func (w manner) of(name string) string {
	if histories[w.history].template == "" {
		return ""
	}
	return fmt.Sprintf(histories[w.history].template+"\n", name, w.value, w.annotation)
}

func (w manner) String() string {
	return strings.TrimSuffix(histories[w.history].name+" "+w.value+" "+w.annotation, " ")
}

func (w manner) is(names ...string) bool { return slices.Contains(names, histories[w.history].name) }

func (w manner) hook() bool {
	return strings.HasPrefix(w.annotation, "helm.sh/hook:") && !w.is("absent")
}

const defineObject = `{{ define "o" }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ index . 0 }}, annotations: { {{ index . 2 }} }}
data: {v: {{ index . 1 }}}
{{ end }}
`

// An upgradeCase is a chart with one object before and after a change.
type upgradeCase struct{ was, is manner }

func (c upgradeCase) templates(name string) [2]string {
	return [2]string{defineObject + c.was.of(name), defineObject + c.is.of(name)}
}

// A sending has the requests of a change about an object, as "CREATE name" without the revision in the name.
type sending struct {
	sent   []string // by the upgrade
	judged []string // whose results are reported, also those of other runs of Helm
	warned bool     // that an upgrade may delete the object
}

// chartDeployers are objects that deploy the chart in the directory %[1]s.
var chartDeployers = map[string]string{
	"Helm": "",
	"Flux": `apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: %[1]s, namespace: default}
spec: {interval: 1m, chart: {spec: {chart: ./%[1]s, sourceRef: {kind: GitRepository, name: repo}}}}
`,
	"Argo CD": `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %[1]s, namespace: argocd}
spec:
  project: default
  source: {repoURL: https://github.com/example/repo, path: %[1]s}
  destination: {server: https://kubernetes.default.svc, namespace: default}
`,
}

// sendings returns the requests that preadmit makes of changes of charts, by the names of their objects. deployer is
// formatted with the name of each chart.
func sendings(t *testing.T, cases []upgradeCase, deployer string) map[string]*sending {
	t.Helper()
	dir := t.TempDir()
	repo, err := gittest.Init(dir)
	rendertest.OK(t, err)
	before, after := make(map[string]string), make(map[string]string)
	for _, op := range []policy.Operation{policy.Create, policy.Update, policy.Delete} {
		before["policies/"+string(op)+".yaml"] = fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [%[2]s], resources: [configmaps]}]}
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, strings.ToLower(string(op)), op)
	}
	if deployer != "" {
		before[".preadmit/config.yaml"] = "repository: [github.com/example/repo]\n"
		before["source.yaml"] = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: repo, namespace: default}\nspec: {interval: 1m, url: https://github.com/example/repo}\n"
	}
	for i, c := range cases {
		name := fmt.Sprintf("o%d", i)
		if deployer != "" {
			before["deployers/"+name+".yaml"] = fmt.Sprintf(deployer, name)
		}
		before[name+"/Chart.yaml"] = "apiVersion: v2\nname: " + name + "\nversion: 0.1.0\n"
		sides := c.templates(name)
		before[name+"/templates/o.yaml"], after[name+"/templates/o.yaml"] = sides[0], sides[1]
	}
	writeFiles(t, dir, before)
	if _, err := repo.CommitAll("base"); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, after)
	all := make(map[string]*sending)
	for i := range cases {
		all[fmt.Sprintf("o%d", i)] = new(sending)
	}
	for _, r := range compared(t, dir, ".").Results {
		if name, ok := strings.CutPrefix(r.Message, "an upgrade of the release may delete ConfigMap "); ok {
			name, _, _ = strings.Cut(name, ":")
			all[name].warned = true
		}
		if !strings.EqualFold(r.Policy, string(r.Operation)) {
			continue
		}
		name, _, _ := strings.Cut(r.Object.Name, ".r")
		s, op := all[name], string(r.Operation)+" "+name
		s.judged = append(s.judged, op)
		if r.Baseline.Counts() && r.Only == "" {
			s.sent = append(s.sent, op)
		}
	}
	for _, s := range all {
		slices.Sort(s.sent)
		s.sent = slices.Compact(s.sent)
	}
	return all
}

// TestUpgradeAsHelm compares the requests of a change of a chart with what Helm's engine writes for two revisions of
// its release: each object is created, updated or deleted as in an upgrade from one to the other. Argo CD makes first
// installs of both.
func TestUpgradeAsHelm(t *testing.T) {
	var cases []upgradeCase
	for was := range histories {
		for is := range histories {
			for _, value := range []string{"a", "b"} {
				c := upgradeCase{manner{was, "a", ""}, manner{is, value, ""}}
				if !c.was.is("lookup") && !c.is.is("lookup") { // the engine finds nothing
					cases = append(cases, c)
				}
			}
		}
	}
	for deployer, text := range chartDeployers {
		got, was, is := sendings(t, cases, text), 5, 6
		if deployer == "Argo CD" {
			was, is = 1, 1
		}
		wanted := make(map[string]int)
		for i, c := range cases {
			name := fmt.Sprintf("o%d", i)
			sides, got := c.templates(name), got[name]
			before, after := written(t, sides[0], was), written(t, sides[1], is)
			var want []string
			for _, n := range []string{name, fmt.Sprintf("%s.r%d", name, was), fmt.Sprintf("%s.r%d", name, is)} {
				switch old, value := before[n], after[n]; {
				case old == "" && value != "":
					want = append(want, "CREATE "+name)
				case old != "" && value == "":
					want = append(want, "DELETE "+name)
				case old != value:
					want = append(want, "UPDATE "+name)
				}
			}
			slices.Sort(want)
			want = slices.Compact(want)
			if !slices.Equal(got.sent, want) && c.meant() == "" {
				t.Errorf("%s, %v to %v: %v, want %v", deployer, c.was, c.is, got.sent, want)
			}
			if first := written(t, sides[1], 1); len(first) > 0 && !strings.Contains(strings.Join(got.judged, " "), "ATE") {
				t.Errorf("%s, %v to %v: what a first install writes is not judged: %v", deployer, c.was, c.is, got.judged)
			}
			for _, w := range want {
				wanted[strings.Fields(w)[0]]++
			}
		}
		for _, op := range []string{"CREATE", "UPDATE", "DELETE"} {
			if wanted[op] < 20 {
				t.Errorf("%s: %d objects have a %s", deployer, wanted[op], op)
			}
		}
	}
}

// written returns the value of each object that Helm's engine writes for a revision of a release.
func written(t *testing.T, text string, revision int) map[string]string {
	t.Helper()
	c := &chart.Chart{Metadata: &chart.Metadata{Name: "c"}, Templates: []*chart.File{{Name: "templates/o.yaml", Data: []byte(text)}}}
	values, err := chartutil.ToRenderValues(c, nil, chartutil.ReleaseOptions{Name: "c", Revision: revision, IsInstall: revision == 1, IsUpgrade: revision > 1}, nil)
	rendertest.OK(t, err)
	files, err := engine.Render(c, values)
	rendertest.OK(t, err)
	objects, err := render.Parse("o.yaml", []byte(files["c/templates/o.yaml"]))
	rendertest.OK(t, err)
	all := make(map[string]string)
	for _, o := range objects {
		v, _ := render.Lookup(o.Object, "/data/v")
		all[o.GetName()] = fmt.Sprint(v)
	}
	return all
}

// TestUpgradeUpstream compares the requests of random changes with those that Helm's own actions send to an API
// server. `make deployers` builds the program that runs them.
func TestUpgradeUpstream(t *testing.T) {
	program := os.Getenv("PREADMIT_HELM")
	if program == "" {
		t.Skip("make deployers runs it")
	}
	random := rand.New(rand.NewPCG(1, 2))
	any := func() manner {
		return manner{random.IntN(len(histories)), string("ab"[random.IntN(2)]), annotations[random.IntN(len(annotations))]}
	}
	var cases []upgradeCase
	var changes []map[string]string
	for i := range 1500 {
		c := upgradeCase{any(), any()}
		sides := c.templates(fmt.Sprintf("o%d", i))
		cases, changes = append(cases, c), append(changes, map[string]string{"Was": sides[0], "Now": sides[1]})
	}
	data, err := json.Marshal(changes)
	rendertest.OK(t, err)
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(data), os.Stderr
	out, err := cmd.Output()
	rendertest.OK(t, err)
	var answers []struct {
		Upgrade, Install []string
		Error            string
	}
	rendertest.OK(t, json.Unmarshal(out, &answers))
	got, same, refused, meant := sendings(t, cases, chartDeployers["Helm"]), 0, 0, 0
	for i, c := range cases {
		want, first, name := withoutRevisions(answers[i].Upgrade), answers[i].Install, fmt.Sprintf("o%d", i)
		got := got[name]
		if len(first) > 0 && !strings.Contains(strings.Join(got.judged, " "), "ATE") {
			t.Errorf("%v to %v: what a first install writes is not judged: %v", c.was, c.is, got.judged)
		}
		switch {
		case answers[i].Error != "":
			refused++
		case slices.Equal(got.sent, want):
			same++
		case c.meant() != "", got.warned && slices.Contains(want, "DELETE "+name):
			meant++
		default:
			t.Errorf("%v to %v: %v, want %v", c.was, c.is, got.sent, want)
		}
	}
	t.Logf("%d changes: %d as Helm, %d that Helm refuses, %d otherwise for a reason", len(cases), same, refused, meant)
}

func withoutRevisions(requests []string) (all []string) {
	for _, r := range requests {
		name, _, _ := strings.Cut(r, ".r")
		all = append(all, name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// meant returns why preadmit makes other requests than Helm, or "".
func (c upgradeCase) meant() string {
	switch {
	case c.was == c.is && c.was.is("revision"), c.was.hook() && c.was.value == c.is.value && c.was.annotation == c.is.annotation:
		return "what does not change is not sent, though Helm makes the object again on each upgrade"
	case c.was.hook() && (c.is.hook() || c.is.is("lookup")):
		return "a hook that upgrades do not run may be left from the first install"
	case c.was.annotation != c.is.annotation && c.was.annotation == "helm.sh/resource-policy: keep":
		return "what the chart has not written since the first install keeps its annotation"
	case c.was.is("lookup") && c.is.is("lookup"):
		return "every other upgrade deletes it, and not this change"
	case c.is.is("lookup") && c.is.annotation == "helm.sh/resource-policy: keep":
		return "the first upgrade that keeps it deletes it, since the object on the cluster has no such annotation yet"
	}
	return ""
}

// TestArchivedChartRenamed holds that Flux uninstalls a release whose chart gets another name, also in an archive.
func TestArchivedChartRenamed(t *testing.T) {
	dir := t.TempDir()
	repo, err := gittest.Init(dir)
	rendertest.OK(t, err)
	chart := func(name string) map[string]string {
		return map[string]string{"chart.tgz": string(archived(t, map[string]string{
			"c/Chart.yaml":       "apiVersion: v2\nname: " + name + "\nversion: 0.1.0\n",
			"c/templates/o.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: o}\n",
		}))}
	}
	writeFiles(t, dir, chart("c"))
	writeFiles(t, dir, map[string]string{".preadmit/config.yaml": "repository: [github.com/example/repo]\n", "flux.yaml": `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: repo, namespace: flux-system}
spec: {interval: 1m, url: https://github.com/example/repo}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: flux-system}
spec: {interval: 1m, chart: {spec: {chart: ./chart.tgz, sourceRef: {kind: GitRepository, name: repo}}}}
`})
	if _, err := repo.CommitAll("base"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"c": false, "d": true} {
		writeFiles(t, dir, chart(name))
		changes := compared(t, dir, ".").Changes
		if got := len(changes) == 1 && changes[0].Recreated; got != want {
			t.Errorf("a chart named %s: %v, want recreated %t", name, changes, want)
		}
	}
}
