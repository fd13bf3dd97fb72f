package render_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// The rows of table 3.2 of the security study that hold for any kind. Every
// object is evaluated all the same.
func TestChecks(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: v1\nkind: ConfigMap\n"
	for name, test := range map[string]struct {
		in   string
		want []string
	}{
		"K6 no metadata":        {head, []string{"2:7 no-name"}},
		"K6 null metadata":      {head + "metadata:\n", []string{"3:1 no-name"}},
		"K6 list as metadata":   {head + "metadata: [a]\n", []string{"3:1 invalid-name"}},
		"K6 no name":            {head + "metadata: {labels: {}}\n", []string{"3:1 no-name"}},
		"K6 number as name":     {head + "metadata: {name: 1}\n", []string{"3:18 invalid-name"}},
		"K6 generateName":       {head + "metadata: {generateName: a-}\n", nil},
		"K6 boolean namespace":  {head + "metadata: {name: a, namespace: true}\n", []string{"3:32 invalid-name"}},
		"K6 question":           {"apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nspec: {}\n", nil},
		"K9 twice":              {head + "metadata: {name: a}\n---\n" + head + "metadata: {name: a, namespace: default}\n", []string{"7:18 duplicate-object (warning)"}},
		"K9 other namespace":    {head + "metadata: {name: a}\n---\n" + head + "metadata: {name: a, namespace: b}\n", nil},
		"K9 other version":      {"apiVersion: apps/v1\nkind: A\nmetadata: {name: a}\n---\napiVersion: apps/v2\nkind: A\nmetadata: {name: a}\n", []string{"7:18 duplicate-object (warning)"}},
		"K12 large":             {head + "metadata: {name: a}\ndata: {a: " + strings.Repeat("x", 3<<20) + "}\n", []string{"3:18 object-too-large"}},
		"K12 large when quoted": {head + "metadata: {name: a}\ndata: {a: " + strings.Repeat("<", 600<<10) + "}\n", []string{"3:18 object-too-large"}},
		"K12 nearly too large":  {head + "metadata: {name: a}\ndata: {a: " + strings.Repeat("x", 3<<20-200) + "}\n", nil},
		"K12 annotations":       {head + "metadata:\n  name: a\n  annotations: {a: " + strings.Repeat("x", 256<<10) + "}\n", []string{"5:3 annotations-too-large"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fsys := fstest.MapFS{"x.yaml": file(test.in)}
			units, err := graph.Render(t.Context(), render.Source{FS: fsys, Path: "x.yaml", Kind: "manifest"})
			rendertest.OK(t, err)
			if len(units[0].Objects) != strings.Count(test.in, "apiVersion") {
				t.Errorf("%d objects", len(units[0].Objects))
			}
			var got []string
			for _, e := range render.Errors(units[0].Err) {
				s := fmt.Sprintf("%d:%d %s", e.Span.Line, e.Span.Column, e.Rule)
				if e.Warning {
					s += " (warning)"
				}
				got = append(got, s)
			}
			rendertest.Equal(t, test.want, got)
		})
	}
}

// K11: what may keep an object from being applied is said, and it is evaluated.
func TestNotes(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{"x.yaml": file(`apiVersion: v1
kind: Pod
metadata:
  name: p
  deletionTimestamp: "2026-01-01T00:00:00Z"
  annotations:
    config.kubernetes.io/local-config: "true"
    argocd.argoproj.io/hook: Skip
    kustomize.toolkit.fluxcd.io/reconcile: disabled
    helm.sh/hook: pre-install
`)}
	units, err := graph.Render(t.Context(), render.Source{FS: fsys, Path: "x.yaml", Kind: "manifest"})
	rendertest.OK(t, err)
	if n := len(units[0].Objects[0].Assumed); n != 4 || units[0].Err != nil {
		t.Errorf("%q, %v", units[0].Objects[0].Assumed, units[0].Err)
	}
}
