package main

import (
	"strings"
	"testing"
)

const widgetCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: integer, maximum: 3}}}
`

const widget = "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: large, namespace: apps}\nspec:\n  size: 7\n"

// TestFetchCRDs checks custom resources by definitions at a URL, and by those
// that a fetched chart brings.
func TestFetchCRDs(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	d.files["/files/crds.yaml"] = []byte(widgetCRD)
	d.chart("widgets", "1.0.0", archived(t, map[string]string{
		"widgets/Chart.yaml": "apiVersion: v2\nname: widgets\nversion: 1.0.0\n", "widgets/crds/widget.yaml": widgetCRD,
	}))
	const want = "should be less than or equal to 3"
	for name, files := range map[string]map[string]string{
		"at a URL":   {configFile: allow(d.host()) + "with: [" + d.URL + "/files/crds.yaml]\n"},
		"of a chart": {configFile: allow(d.host()) + "deployments: [{path: widget.yaml}]\n", "release.yaml": fluxRelease("widgets", d.URL+"/charts", "1.x")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files["widget.yaml"] = widget
			dir := repositoryOf(t, files)
			code, out, errs := program(t, dir, nil, "check")
			if code != exitIncomplete || !strings.Contains(out+errs, "run `preadmit fetch`") || strings.Contains(out, want) {
				t.Errorf("before: exit code %d\n%s%s", code, out, errs)
			}
			if code, out, errs = program(t, dir, nil, "fetch"); code != exitOK || !strings.Contains(out, "1 fetched") {
				t.Fatalf("exit code %d\n%s%s", code, out, errs)
			}
			if code, out, errs = program(t, dir, nil, "check"); code != exitDenied || !strings.Contains(out, want) || !strings.Contains(out, "widget.yaml:5:9") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			if code, out, errs = program(t, dir, nil, "fetch", "--check"); code != exitOK {
				t.Errorf("--check: exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}
