package kustomize

import (
	"context"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

var patchable = []string{
	"apiVersion: v1\nkind: A\nmetadata: {name: a, annotations: {n: '1'}}\nspec:\n  list: [a, b, {c: d}]\n  empty: []\n  n: 12\n  on: yes\n  nil: ~\n  text: |\n    one\n    two\n",
	"kind: B\nmetadata:\n  name: b\nspec: {list: {a: b}, a/b: 1, m~n: 2, hex: 0x1F}\n",
	"kind: B\nmetadata: {name: b}\nspec: {list: {a: b}, date: 2020-01-02}\n",
	"kind: B\nmetadata: {name: b}\nspec: {list: {a: b}, big: 123456789012345678}\n",
	"kind: B\nmetadata: {name: b}\nspec: {list: {a: b}, part: 1.50}\n",
	"kind: C\nmetadata:\n  name: c\nspec:\n  folded: >\n    a\n     b\n    c\n  list:\n",
}

// The operations change nodes as kustomize changes the JSON of an object, so that each
// value of the one has its line in the other.
func TestPatchNodes(t *testing.T) {
	applied := 0
	for _, ops := range []string{
		`{"op": "add", "path": "/spec/list/-", "value": {"x": [1, 2.5, 1e6, null, true, "yes", "5", ""]}}`,
		`{"op": "add", "path": "/spec/list/0", "value": "first"}`,
		`{"op": "add", "path": "/spec/list/3", "value": "last"}`,
		`{"op": "add", "path": "/spec/list/4", "value": "beyond"}`,
		`{"op": "add", "path": "/spec/list/-1", "value": "before"}`,
		`{"op": "add", "path": "/spec/list/01", "value": "odd"}`,
		`{"op": "add", "path": "/spec/list/x", "value": "y"}`,
		`{"op": "add", "path": "/spec/empty/0", "value": 1}`,
		`{"op": "add", "path": "/spec/new", "value": {"a": {}}}, {"op": "add", "path": "/spec/new/a/b", "value": []}`,
		`{"op": "add", "path": "/spec/text", "value": "a\nb"}`,
		`{"op": "add", "path": "/spec/none/a", "value": 1}`,
		`{"op": "add", "path": "/spec/n/a", "value": 1}`,
		`{"op": "add", "path": "", "value": {"kind": "X"}}`,
		`{"op": "add", "path": "/spec/a~1b", "value": 3}, {"op": "replace", "path": "/spec/m~0n", "value": 4}`,
		`{"op": "add", "path": "/spec/v"}`,
		`{"op": "replace", "path": "/spec/list/1", "value": 900719925474099}`,
		`{"op": "replace", "path": "/spec/list/7", "value": 1}`,
		`{"op": "replace", "path": "/spec/list/-", "value": 1}`,
		`{"op": "replace", "path": "/spec/absent", "value": 1}`,
		`{"op": "replace", "path": "/metadata/name", "value": "other"}`,
		`{"op": "replace", "path": "/metadata/annotations", "value": {"o": 2}}`,
		`{"op": "remove", "path": "/spec/list/0"}, {"op": "remove", "path": "/spec/list/0"}`,
		`{"op": "remove", "path": "/spec/list"}`,
		`{"op": "remove", "path": "/spec/absent"}`,
		`{"op": "remove", "path": "/metadata/annotations"}`,
		`{"op": "copy", "from": "/spec", "path": "/copied"}`,
		`{"op": "move", "from": "/spec/list", "path": "/moved"}`,
		`{"op": "test", "path": "/kind", "value": "A"}`,
	} {
		patch, err := jsonpatch.DecodePatch([]byte("[" + ops + "]"))
		rendertest.OK(t, err)
		for _, text := range patchable {
			resource, err := provider.NewDefaultDepProvider().GetResourceFactory().FromBytes([]byte(text))
			rendertest.OK(t, err)
			before := yaml.CopyYNode(resource.YNode())
			n := patchNodes(resource.YNode(), yaml.MustParse("["+ops+"]").YNode().Content)
			if diff := cmp.Diff(before, resource.YNode()); diff != "" {
				t.Errorf("%s of\n%s: the nodes themselves changed: %s", ops, text, diff)
			}
			if n == nil {
				continue
			}
			if patchJSON(resource, patch) != nil {
				continue
			}
			applied++
			want, werr := object(resource.YNode())
			got, gerr := object(n)
			if werr != nil || gerr != nil {
				t.Fatal(werr, gerr)
			}
			shape := func(v any) any { return render.Replace(v, func(any) any { return "" }) }
			if diff := cmp.Diff(shape(want.Object), shape(got.Object)); diff != "" {
				t.Errorf("%s of\n%s: -library +ours:\n%s", ops, text, diff)
			}
		}
	}
	if applied < 20 {
		t.Errorf("only %d patches were applied", applied)
	}
}

// What a JSON patch does not touch keeps its lines, and the document of an object
// that it renames counts as rendered.
func TestLinesAfterJSONPatch(t *testing.T) {
	in := new(render.Inputs)
	src := render.Source{Path: "over", Kind: "kustomize", Inputs: in, FS: fstest.MapFS{
		"over/kustomization.yaml": {Data: []byte("resources: [../base]\npatches:\n- target: {kind: ConfigMap}\n  patch: |\n    - {op: replace, path: /metadata/name, value: renamed}\n    - {op: remove, path: /data/gone}\n    - {op: add, path: /data/new, value: v}\n")},
		"base/kustomization.yaml": {Data: []byte("resources: [map.yaml]\n")},
		"base/map.yaml":           {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata:\n  gone: a\n  kept: b\n")},
	}}
	objects, err := New(Options{}).Render(context.Background(), src)
	if err != nil || len(objects) != 1 {
		t.Fatal(len(objects), err)
	}
	for pointer, want := range map[string]string{
		"/data/kept": "base/map.yaml:6:9", "/data/new": "over/kustomization.yaml:7:41", "/metadata/name": "over/kustomization.yaml:5:50", "/kind": "base/map.yaml:2:7",
	} {
		if got := objects[0].Span(pointer).String(); got != want {
			t.Errorf("%s is at %s, want %s", pointer, got, want)
		}
	}
	want := []render.Input{{File: "base/map.yaml", State: render.DocRendered}}
	rendertest.Equal(t, want, in.All())
}
