package main

import (
	"net/http"
	"slices"
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

// catalogueSchema is widgetCRD's as a catalogue has it.
const catalogueSchema = `{"$schema": "http://json-schema.org/schema#", "type": "object", "additionalProperties": false, "properties": {
	"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
	"spec": {"type": "object", "additionalProperties": false, "properties": {
		"size": {"type": "integer", "maximum": 3},
		"port": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
		"labels": {"type": "object", "additionalProperties": {"type": "string"}},
		"free": {"type": "object"}}}}}`

// TestFetchCatalogue checks custom resources that nothing defines by the schemas of
// a catalogue, at a URL and in a directory, and asks for no others.
func TestFetchCatalogue(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	d.files["/crds/example.org/widget_v1.json"] = []byte(catalogueSchema)
	var asked []string
	d.serve = func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		d.plain(w, r)
	}
	files := map[string]string{
		"widget.yaml": widget + "  sise: 1\n  port: 80\n  labels: {a: b}\n  free: {x: {z: 1}}\n",
		"gadget.yaml": "apiVersion: example.org/v1\nkind: Gadget\nmetadata: {name: unknown}\n",
		"own.yaml":    strings.NewReplacer("widget", "own", "Widget", "Own").Replace(widgetCRD) + "---\napiVersion: example.org/v1\nkind: Own\nmetadata: {name: own}\n",
		"evil.yaml":   "apiVersion: ../v1\nkind: Evil\nmetadata: {name: evil}\n",
		configFile:    allow(d.host()) + "  crds: [" + d.URL + "/crds]\n",
	}
	dir := repositoryOf(t, files)
	if code, out, errs := program(t, dir, nil, "fetch"); code != exitOK || !strings.Contains(out, "2 sources needed, 2 fetched") || !strings.Contains(out, "schema example.org/Gadget v1 of "+d.URL+"/crds is absent") {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	slices.Sort(asked)
	if want := []string{"/crds/example.org/gadget_v1.json", "/crds/example.org/widget_v1.json"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v", asked)
	}
	for _, args := range [][]string{{"fetch"}, {"fetch", "--check"}, {"fetch", "--locked"}} {
		if code, out, errs := program(t, dir, nil, args...); code != exitOK || len(asked) != 2 {
			t.Errorf("%v: exit code %d, asked for %v\n%s%s", args, code, asked, out, errs)
		}
	}
	verdict := func(dir string) {
		t.Helper()
		code, out, errs := program(t, dir, nil, "check")
		for _, want := range []string{"should be less than or equal to 3", "widget.yaml:5:9", "sise", "Gadget.example.org (1)"} {
			if code != exitDenied || !strings.Contains(out, want) {
				t.Errorf("no %q, exit code %d\n%s%s", want, code, out, errs)
			}
		}
		if n := strings.Count(out, "denied: "); n != 2 {
			t.Errorf("%d denied\n%s", n, out)
		}
	}
	verdict(dir)
	files[configFile] = "fetch: {crds: [schemas]}\n"
	files["schemas/example.org/widget_v1.json"] = catalogueSchema
	verdict(repositoryOf(t, files))

	// What is no schema is not kept.
	d.files["/crds/example.org/gadget_v1.json"] = []byte("<html>")
	if code, _, errs := program(t, dir, nil, "fetch", "--update"); code != exitIncomplete || !strings.Contains(errs, "no JSON Schema") {
		t.Errorf("--update: exit code %d\n%s", code, errs)
	}
}

// TestFetchValuesSchemas holds a chart's values against the documents at URLs
// that its schema refers to, once they are fetched.
func TestFetchValuesSchemas(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	d.files["/schemas/image.json"] = []byte(`{"$ref": "` + d.URL + `/schemas/tag.json"}`)
	d.files["/schemas/tag.json"] = []byte(`{"properties": {"tag": {"pattern": "^v[0-9]"}}}`)
	dir := repositoryOf(t, map[string]string{
		"Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "values.yaml": "image:\n  tag: latest\n", "templates/a.yaml": deployment,
		"values.schema.json": `{"properties": {"image": {"$ref": "` + d.URL + `/schemas/image.json#"}}}`,
		configFile:           allow(d.host()),
	})
	code, out, errs := program(t, dir, nil, "check")
	if !strings.Contains(out, "/schemas/image.json, which is not read") || !strings.Contains(out, "run `preadmit fetch`") {
		t.Errorf("before: exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs = program(t, dir, nil, "fetch"); code != exitOK || !strings.Contains(out, "2 fetched") {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	code, out, errs = program(t, dir, nil, "check")
	if code != exitIncomplete || !strings.Contains(out, "image.tag: does not match the pattern") || !strings.Contains(out, "values.yaml:2") || strings.Contains(out, "is not read") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}
