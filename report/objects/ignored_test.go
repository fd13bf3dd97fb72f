package objects

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, annotations: {a.b/c: REPLICAS}, labels: {helm.sh/chart: web-REPLICAS}}
spec:
  replicas: REPLICAS
  template:
    spec: {containers: [{name: web, image: web:1}, {name: side, image: side:REPLICAS}]}
`

func object(t *testing.T, u *render.Unit, text string) *render.Object {
	t.Helper()
	var o map[string]any
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	return &render.Object{Unit: u, Unstructured: &unstructured.Unstructured{Object: o}}
}

// TestIgnored holds which fields a diff leaves out, which entries select an object, and that what the
// diff leaves out stays in the request.
func TestIgnored(t *testing.T) {
	t.Parallel()
	all := []string{"a.b/c", "helm.sh/chart", "replicas", "image: side"}
	for name, c := range map[string]struct {
		configuration []Ignored
		application   string // its ignoreDifferences at the base
		left          []string
		notes         int
	}{
		"nothing":           {nil, "[]", all, 0},
		"kind":              {[]Ignored{{Kind: "Deployment", JSONPointers: []string{"/spec/replicas", "/spec/absent"}}}, "", []string{"a.b/c", "helm.sh/chart", "image: side"}, 0},
		"element of a list": {[]Ignored{{Kind: "Deploy*", JSONPointers: []string{"/spec/template/spec/containers/1"}}}, "", []string{"a.b/c", "helm.sh/chart", "replicas"}, 0},
		"another kind":      {[]Ignored{{Kind: "StatefulSet", JSONPointers: []string{"/spec/replicas"}}}, "", all, 0},
		"another name":      {[]Ignored{{Kind: "Deployment", Name: "db", JSONPointers: []string{"/spec/replicas"}}}, "", all, 0},
		"the whole object":  {[]Ignored{{Kind: "Deployment", JSONPointers: []string{""}}}, "", all, 0},
		"Application":       {nil, `[{group: apps, kind: Deployment, jsonPointers: [/spec/replicas]}]`, []string{"a.b/c", "helm.sh/chart", "image: side"}, 0},
		"another group":     {nil, `[{kind: Deployment, jsonPointers: [/spec/replicas]}]`, all, 0},
		"jq":                {nil, `[{group: "*", kind: "*", jqPathExpressions: ['.metadata.annotations["a.b/c"]', '.spec.template.spec.containers[1].image', '.metadata.labels."helm.sh/chart"']}]`, []string{"replicas"}, 0},
		"jq that selects":   {nil, `[{group: apps, kind: Deployment, jqPathExpressions: ['.spec.template.spec.containers[] | select(.name == "side") | .image']}]`, all, 1},
	} {
		u := &render.Unit{Source: render.Source{Path: "a"}}
		if c.application != "" {
			u.Owner = object(t, nil, "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec: {ignoreDifferences: "+c.application+"}\n")
		}
		was, is := object(t, u, strings.ReplaceAll(deployment, "REPLICAS", "1")), object(t, u, strings.ReplaceAll(deployment, "REPLICAS", "2"))
		before := render.Copy(is.Object)
		file := func(name string) string { return name }
		changes, notes := Changes([]policy.Request{{Operation: policy.Update, OldObject: was, Object: is}},
			Sides{BaseFile: file, HeadFile: file, Half: func(string) bool { return false }, Ignore: c.configuration})
		if len(changes) != 1 || len(notes) != c.notes || !render.Equal(before, is.Object) {
			t.Fatalf("%s: %d changes, notes %q", name, len(changes), notes)
		}
		for _, field := range all {
			found := false
			for line := range strings.Lines(changes[0].Diff) {
				found = found || strings.HasPrefix(line, "+") && strings.Contains(line, field)
			}
			if found != slices.Contains(c.left, field) {
				t.Errorf("%s: %s shown: %v\n%s", name, field, found, changes[0].Diff)
			}
		}
	}
}

// TestRoutineLast holds that hunks with a chart's version alone come behind the others.
func TestRoutineLast(t *testing.T) {
	t.Parallel()
	chart := "@@ -4,7 +4,7 @@\n-    helm.sh/chart: web-1\n+    helm.sh/chart: web-2\n"
	sum := "@@ -14,7 +14,7 @@\n-        checksum/config: \"1\"\n+        checksum/config: \"2\"\n"
	image := "@@ -24,7 +24,7 @@\n-        image: web:1\n+        image: web:2\n"
	mixed := "@@ -4,7 +4,7 @@\n-    helm.sh/chart: web-1\n+    helm.sh/chart: web-2\n-  replicas: 1\n+  replicas: 2\n"
	for given, want := range map[string]string{
		chart + sum + image: image + chart + sum, image + chart: image + chart, chart: chart, mixed + image: mixed + image, "": "",
	} {
		if got := strings.Join(routineLast(strings.SplitAfter(given, "\n")), ""); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
}
