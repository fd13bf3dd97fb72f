package main

import (
	"fmt"
	"maps"
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

// histories are the ways in which a chart writes an object by the history of its release.
var histories = []struct{ name, template string }{
	{"absent", ""},
	{"always", "{{ template \"o\" dict \"name\" %[1]q \"v\" %[2]q }}"},
	{"install", "{{ if .Release.IsInstall }}{{ template \"o\" dict \"name\" %[1]q \"v\" %[2]q }}{{ end }}"},
	{"upgrade", "{{ if .Release.IsUpgrade }}{{ template \"o\" dict \"name\" %[1]q \"v\" %[2]q }}{{ end }}"},
	{"forms", "{{ template \"o\" dict \"name\" %[1]q \"v\" (ternary \"first\" %[2]q .Release.IsInstall) }}"},
	{"first form", "{{ template \"o\" dict \"name\" %[1]q \"v\" (ternary %[2]q \"later\" .Release.IsInstall) }}"},
	{"revision", "{{ template \"o\" dict \"name\" (print %[1]q \".r\" .Release.Revision) \"v\" %[2]q }}"},
}

// TestUpgradeAsHelm compares the requests of a change of a chart with what Helm's engine writes for two revisions of
// its release: an object is updated or deleted exactly if Helm does it, and created at least if Helm does.
func TestUpgradeAsHelm(t *testing.T) {
	const define = "{{ define \"o\" }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .name }}}\ndata: {v: {{ .v }}}\n{{ end }}\n"
	sides := [2]string{define, define}
	kept := make(map[string]bool) // what a first install wrote is deleted if the release was never upgraded
	for i, was := range histories {
		for k, is := range histories {
			for _, value := range []string{"a", "b"} {
				name := fmt.Sprintf("o%d-%d%s", i, k, value)
				kept[name] = was.name == "install" && (is.name == "absent" || is.name == "revision")
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
	for _, op := range []string{"CREATE", "UPDATE", "DELETE"} {
		files["policies/"+op+".yaml"] = fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
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
`, strings.ToLower(op), op)
	}
	writeFiles(t, dir, files)
	if _, err := repo.CommitAll("base"); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, dir, map[string]string{"c/templates/o.yaml": sides[1]})

	before, after := written(t, sides[0], 5), written(t, sides[1], 6)
	want := make(map[string]policy.Operation)
	for name, value := range after {
		switch old, was := before[name]; {
		case !was:
			want[name] = policy.Create
		case old != value:
			want[name] = policy.Update
		}
	}
	for name := range before {
		if _, is := after[name]; !is && !strings.Contains(name, ".r") {
			want[name] = policy.Delete
		}
	}
	got := make(map[string][]policy.Operation)
	for _, r := range compared(t, dir, ".").Results {
		if strings.EqualFold(r.Policy, string(r.Operation)) && (r.Operation == policy.Create || r.Baseline.Counts()) {
			got[r.Object.Name] = append(got[r.Object.Name], r.Operation)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		for _, op := range []policy.Operation{policy.Update, policy.Delete} {
			if has := slices.Contains(got[name], op); has != (want[name] == op) && (op != policy.Delete || !kept[name] || !has) {
				t.Errorf("%s (%s): %v, want %s", name, describe(name), got[name], want[name])
			}
		}
		if want[name] == policy.Create && !slices.Contains(got[name], policy.Create) {
			t.Errorf("%s (%s): %v, want %s", name, describe(name), got[name], want[name])
		}
	}
}

func describe(name string) string {
	var i, k int
	fmt.Sscanf(name, "o%d-%d", &i, &k)
	return histories[i].name + " to " + histories[k].name
}

// written returns the value of each object that Helm's engine writes for a revision of a release.
func written(t *testing.T, text string, revision int) map[string]string {
	t.Helper()
	c := &chart.Chart{Metadata: &chart.Metadata{Name: "c"}, Templates: []*chart.File{{Name: "templates/o.yaml", Data: []byte(text)}}}
	values, err := chartutil.ToRenderValues(c, nil, chartutil.ReleaseOptions{Name: "c", Revision: revision, IsUpgrade: true}, nil)
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
