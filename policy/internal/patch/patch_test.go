package patch

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	kjson "sigs.k8s.io/json"
)

// TestSimply compares the two ways to apply operations.
func TestSimply(t *testing.T) {
	t.Parallel()
	const object = `{"metadata": {"name": "web", "labels": {"a/b": "x", "n~": ""}}, "spec": {"replicas": 2, "list": [{"name": "c", "args": ["1"]}, {"name": "d"}], "none": null}}`
	for _, c := range []struct {
		operations string
		simple     bool
	}{
		{`[]`, true},
		{`[{"op": "add", "path": "/metadata/labels/app", "value": "web"}, {"op": "replace", "path": "/spec/replicas", "value": 3.0}]`, true},
		{`[{"op": "add", "path": "/metadata/annotations", "value": {}}, {"op": "add", "path": "/metadata/annotations/x~1y~0z", "value": [1, 2.5, {"k": null}]}]`, true},
		{`[{"op": "replace", "path": "/metadata/labels/a~1b", "value": true}, {"op": "replace", "path": "/metadata/labels/n~0", "value": "é\u2028<"}]`, true},
		{`[{"op": "add", "path": "/spec/list/-", "value": {"name": "e"}}, {"op": "add", "path": "/spec/list/2/args", "value": []}]`, true},
		{`[{"op": "add", "path": "/spec/list/0/args/-", "value": "2"}, {"op": "add", "path": "/spec/list/01/args", "value": ["3"]}]`, true},
		{`[{"op": "add", "path": "/", "value": "empty"}, {"op": "replace", "path": "/spec/none", "value": "x"}]`, true},
		{`[{"op": "replace", "path": "/spec/list/-", "value": "x"}]`, false},
		{`[{"op": "replace", "path": "/spec/missing", "value": "x"}]`, false},
		{`[{"op": "add", "path": "/spec/list/0", "value": {"name": "first"}}]`, false},
		{`[{"op": "add", "path": "/spec/list/-1/args", "value": []}]`, false},
		{`[{"op": "add", "path": "/spec/list/7/args", "value": []}]`, false},
		{`[{"op": "add", "path": "/spec/replicas/x", "value": "x"}]`, false},
		{`[{"op": "add", "path": "/missing/x", "value": "x"}]`, false},
		{`[{"op": "add", "path": "/spec/x", "value": null}]`, false},
		{`[{"op": "add", "path": "/spec/x"}]`, false},
		{`[{"op": "add", "path": "", "value": {"kind": "Other"}}]`, false},
		{`[{"op": "add", "path": "metadata/x", "value": "x"}]`, false},
		{`[{"op": "remove", "path": "/spec/replicas", "value": "x"}]`, false},
		{`[{"op": "test", "path": "/spec/replicas", "value": 3}]`, false},
		{`[{"op": "copy", "from": "/spec", "path": "/spec/copy", "value": 1}]`, false},
	} {
		var operations jsonpatch.Patch
		var before map[string]any
		for text, to := range map[string]any{c.operations: &operations, object: &before} {
			if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), to); err != nil {
				t.Fatal(err)
			}
		}
		after, simple := simply(operations, before)
		if simple != c.simple {
			t.Errorf("%s: simple %v, want %v", c.operations, simple, c.simple)
		}
		want, err := asText(operations, before)
		if simple && (err != nil || !cmp.Equal(after, want)) {
			t.Errorf("%s: error %v, difference %s", c.operations, err, cmp.Diff(want, after))
		}
	}
	for _, value := range []any{1.0, "\xff", json.Number("1"), map[string]any(nil), []any(nil)} {
		if after, simple := simply(nil, map[string]any{"spec": []any{value}}); simple {
			t.Errorf("%#v is not the same after it is written and read: got %v", value, after)
		}
	}
}
