package kustomize

import (
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
)

func TestOptionsOfController(t *testing.T) {
	tree := fstest.MapFS{
		"common/map.yaml":           {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared}\n")},
		"app/kustomization.yaml":    {Data: []byte("resources: [../common/map.yaml]\n")},
		"charts/kustomization.yaml": {Data: []byte("helmCharts: [{name: web, repo: https://charts.example.org}]\n")},
	}
	for _, c := range []struct {
		name    string
		path    string
		options *render.Kustomize
		rule    string
	}{
		{"restricted", "app", nil, "outside-root"},
		{"any file", "app", &render.Kustomize{AnyFile: true}, ""},
		{"no charts", "charts", &render.Kustomize{NoHelm: true}, "helm-not-enabled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects, err := New(Options{}).Render(t.Context(), render.Source{FS: tree, Path: c.path, Kind: "kustomize", Kustomize: c.options})
			errs := render.Errors(err)
			switch {
			case c.rule == "" && (err != nil || len(objects) != 1 || objects[0].GetName() != "shared"):
				t.Errorf("got %v, %v", objects, err)
			case c.rule != "" && (len(errs) == 0 || errs[0].Rule != c.rule):
				t.Errorf("got %v, want rule %s", err, c.rule)
			}
		})
	}
}
