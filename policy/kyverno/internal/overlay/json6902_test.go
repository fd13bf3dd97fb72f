package overlay

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/preadmit/preadmit/render/rendertest"
)

func TestJSON6902(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, object, patch, want, pointers string }{
		{"add a field", "{a: 1}", "[{op: add, path: /b, value: 2}]", "{a: 1, b: 2}", "/b"},
		{"add over a field", "{a: 1}", "[{op: add, path: /a, value: 2}]", "{a: 2}", "/a"},
		{"add null", "{a: 1}", "[{op: add, path: /b, value: null}]", "{a: 1, b: null}", "/b"},
		{"add at the end", "{l: [1]}", "[{op: add, path: /l/-, value: 2}]", "{l: [1, 2]}", "/l/1"},
		{"add at an index", "{l: [1, 2]}", "[{op: add, path: /l/0, value: 0}]", "{l: [0, 1, 2]}", "/l/0"},
		{"add behind the last", "{l: [1]}", "[{op: add, path: /l/1, value: 2}]", "{l: [1, 2]}", "/l/1"},
		{"add at -1 is at the end", "{l: [1]}", "[{op: add, path: /l/-1, value: 2}]", "{l: [1, 2]}", "/l/1"},
		{"add makes maps", "{}", "[{op: add, path: /a/b/c, value: 1}]", "{a: {b: {c: 1}}}", "/a"},
		{"add makes lists", "{}", "[{op: add, path: /a/-, value: 1}]", "{a: [1]}", "/a"},
		{"add makes lists of nulls", "{}", "[{op: add, path: /a/2, value: 1}]", "{a: [null, null, 1]}", "/a"},
		{"add makes maps in lists", "{}", "[{op: add, path: /a/0/b, value: 1}]", "{a: [{b: 1}]}", "/a"},
		{"add makes what is null", "{a: null}", "[{op: add, path: /a/b, value: 1}]", "{a: {b: 1}}", "/a"},
		{"add the whole object", "{a: 1}", "[{op: add, path: '', value: {b: 1}}]", "{b: 1}", "/a /b"},
		{"escapes", "{}", "[{op: add, path: /a~1b/c~0d, value: 1}]", "{a/b: {c~d: 1}}", "/a~1b"},
		{"remove", "{a: 1, b: 2}", "[{op: remove, path: /a}]", "{b: 2}", "/a"},
		{"remove the whole object", "{a: 1}", "[{op: remove, path: ''}]", "{a: 1}", ""},
		{"remove what is missing", "{a: 1}", "[{op: remove, path: /b/c}]", "{a: 1}", ""},
		{"remove an element", "{l: [1, 2, 3]}", "[{op: remove, path: /l/1}]", "{l: [1, 3]}", "/l"},
		{"remove the last element", "{l: [1, 2]}", "[{op: remove, path: /l/-1}]", "{l: [1]}", "/l"},
		{"remove an element that is missing", "{l: [1]}", "[{op: remove, path: /l/5}]", "{l: [1]}", ""},
		{"remove in a scalar", "{a: 1}", "[{op: remove, path: /a/b}]", "{a: 1}", ""},
		{"replace", "{a: {b: 1}}", "[{op: replace, path: /a/b, value: x}]", "{a: {b: x}}", "/a/b"},
		{"replace an element", "{l: [1, 2]}", "[{op: replace, path: /l/-1, value: 3}]", "{l: [1, 3]}", "/l/1"},
		{"replace the whole", "{a: 1}", "[{op: replace, path: '', value: {}}]", "{}", "/a"},
		{"move", "{a: 1}", "[{op: move, from: /a, path: /b}]", "{b: 1}", "/a /b"},
		{"move onto itself", "{a: 1}", "[{op: move, from: /a, path: /a}]", "{a: 1}", ""},
		{"copy", "{a: {b: 1}}", "[{op: copy, from: /a, path: /c}, {op: add, path: /c/b, value: 2}]", "{a: {b: 1}, c: {b: 2}}", "/c"},
		{"test", "{a: [1, {b: x}]}", "[{op: test, path: /a, value: [1.0, {b: x}]}, {op: add, path: /c, value: 1}]", "{a: [1, {b: x}], c: 1}", "/c"},
		{"test for null of what is missing", "{a: 1}", "[{op: test, path: /b, value: null}, {op: remove, path: /a}]", "{}", "/a"},
		{"one after the other", "{l: [1]}", "[{op: add, path: /l/-, value: 2}, {op: remove, path: /l/0}]", "{l: [2]}", "/l/0"},
		{"as a YAML list", "{a: 1}", "- op: add\n  path: /b\n  value: {c: [1]}\n- path: /a\n  op: remove\n", "{b: {c: [1]}}", "/a /b"},
		{"as JSON", "{a: 1}", `[{"op":"add","path":"/b","value":"<x>"}]`, "{a: 1, b: <x>}", "/b"},
		{"nothing", "{a: 1}", "[]", "{a: 1}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := object(t, c.object)
			got, err := JSON6902(before, asYAML(c.patch))
			rendertest.OK(t, err)
			if !reflect.DeepEqual(before, object(t, c.object)) {
				t.Error("what went in was changed")
			}
			rendertest.Equal(t, tidyNumbers(object(t, c.want)), tidyNumbers(got.Object))
			if p := strings.Join(got.Pointers, " "); p != c.pointers {
				t.Errorf("pointers %q, want %q", p, c.pointers)
			}
		})
	}
}

// asYAML keeps a patch from being taken for JSON, which starts with [ too.
func asYAML(patch string) string {
	if strings.HasPrefix(patch, "[{") && !strings.HasPrefix(patch, `[{"`) {
		return " " + patch
	}
	return patch
}

// As in Kyverno what starts with [ is JSON.
func TestJSON6902OfFlowYAML(t *testing.T) {
	t.Parallel()
	if _, err := JSON6902(object(t, "{}"), "[{op: add, path: /a, value: 1}]"); err == nil {
		t.Error("taken for YAML")
	}
}

func tidyNumbers(v any) any {
	b, _ := json.Marshal(v)
	var x any
	_ = json.Unmarshal(b, &x)
	return x
}

func TestJSON6902Refuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ patch, want string }{
		{"[{op: replace, path: /x, value: 1}]", "operation 0, replace /x: the object has nothing there"},
		{"[{op: replace, path: /x/y, value: 1}]", "operation 0, replace /x/y: the object has nothing there"},
		{"[{op: add, path: /l/7, value: 1}]", "operation 0, add /l/7: the object has nothing there"},
		{"[{op: add, path: /l/x, value: 1}]", `operation 0, add /l/x: "x" is not an index of a list`},
		{"[{op: add, path: /l/+0, value: 1}]", `operation 0, add /l/+0: "+0" is not an index of a list`},
		{"[{op: add, path: /l/-5, value: 1}]", "operation 0, add /l/-5: the object has nothing there"},
		{"[{op: add, path: /s/b, value: 1}]", "operation 0, add /s/b: the object has nothing there"},
		{"[{op: add, path: /n/9999999, value: 1}]", "operation 0, add /n/9999999: the object has nothing there"},
		{"[{op: remove, path: /l/x}]", `operation 0, remove /l/x: "x" is not an index of a list`},
		{"[{op: test, path: /a, value: 1}, {op: add, path: /b}]", "operation 1, add /b, has no value"},
		{"[{op: replace, path: ''}]", "operation 0, replace the root, has no value"},
		{"[{op: test, path: /s, value: z}]", "operation 0, test /s: the object has another value there"},
		{"[{op: test, path: /x, value: z}]", "operation 0, test /x: the object has nothing there"},
		{"[{op: move, from: /x, path: /y}]", "operation 0, move /y: from /x: the object has nothing there"},
		{"[{op: move, from: /m, path: /m/k}]", "operation 0, move /m/k: nothing can be moved into itself"},
		{"[{op: copy, path: /y}]", "operation 0, copy /y: it has no from"},
		{"[{op: swap, path: /y}]", "operation 0, swap /y: no operation is called so"},
		{"[{op: add, path: q, value: 1}]", "operation 0, add q: a path starts with /"},
		{"[{op: add, value: 1}]", "operation 0 has no path"},
		{"{op: add, path: /a}", "the patch is not a list of operations with op, path and value"},
		{"[{op: add, path: 5}]", "the patch is not a list of operations with op, path and value"},
		{"- [", "the patch is not YAML"},
		{`[{op: add}`, "the patch is not YAML"},
		{`["x"]`, "the patch is not a list of operations with op, path and value"},
		{"[{op: replace, path: '', value: [1]}]", "the patch leaves a list in place of the object"},
	} {
		_, err := JSON6902(object(t, "{l: [1], s: x, m: {k: 1}}"), asYAML(c.patch))
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.patch, err, c.want)
		}
	}
}

// Copies that double the object each time end.
func TestJSON6902OfHostilePatch(t *testing.T) {
	t.Parallel()
	var ops []string
	for i := range 60 {
		ops = append(ops, fmt.Sprintf(`{"op":"copy","from":"","path":"/x%d"}`, i))
	}
	_, err := JSON6902(object(t, "{a: 1}"), "["+strings.Join(ops, ",")+"]")
	if err == nil || !strings.Contains(err.Error(), "the patch copies too much") {
		t.Error(err)
	}
	long := strings.Repeat("/a", 10000)
	if _, err := JSON6902(object(t, "{}"), `[{"op":"add","path":"`+long+`","value":1}]`); err == nil {
		t.Error("a path without end")
	}
}

// TestJSON6902AsLibrary compares random patches with the results of a library
// without Kyverno's options, where both accept them.
func TestJSON6902AsLibrary(t *testing.T) {
	t.Parallel()
	const start = `{"a":{"b":[1,2,{"c":"d"}],"e":null},"f":"g"}`
	agreed := 0
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 2))
		var ops []map[string]any
		for range 1 + r.IntN(3) {
			ops = append(ops, map[string]any{
				"op":    []string{"add", "remove", "replace", "move", "copy", "test"}[r.IntN(6)],
				"path":  paths[r.IntN(len(paths))],
				"from":  paths[r.IntN(len(paths))],
				"value": []any{1.0, "x", nil, map[string]any{"k": 1.0}, []any{}}[r.IntN(5)],
			})
		}
		patchText := text(ops)
		decoded, err := jsonpatch.DecodePatch([]byte(patchText))
		rendertest.OK(t, err)
		want, err := decoded.Apply([]byte(start))
		if err != nil {
			continue
		}
		got, err := JSON6902(decode(t, start), patchText)
		if err != nil && errors.Is(err, errMissing) {
			continue // this version of the library replaces and copies what is missing
		}
		if err != nil {
			t.Fatalf("%s: %v", patchText, err)
		}
		agreed++
		if diff := cmp.Diff(any(decode(t, string(want))), tidyNumbers(got.Object)); diff != "" {
			t.Fatalf("%s: %s", patchText, diff)
		}
	}
	if agreed < 300 {
		t.Errorf("%d patches compared", agreed)
	}
}

var paths = []string{"/a", "/a/b", "/a/b/0", "/a/b/2", "/a/b/3", "/a/b/-", "/a/b/2/c", "/a/e", "/f", "/new", "/a/new"}

func FuzzJSON6902(f *testing.F) {
	f.Add("{a: [1]}", "[{op: add, path: /a/-1, value: 1}, {op: move, from: /a/0, path: /b/2/c}]")
	f.Add("{}", "- {op: copy, from: '', path: /x}")
	f.Fuzz(func(t *testing.T, objectText, patch string) {
		if len(objectText) > 1<<10 {
			t.Skip()
		}
		v, ok := parseAny(objectText)
		if !ok {
			t.Skip()
		}
		r, err := JSON6902(v, patch)
		if err == nil {
			if _, err := json.Marshal(r.Object); err != nil {
				t.Error(err)
			}
		}
		if again, _ := parseAny(objectText); !reflect.DeepEqual(v, again) {
			t.Error("what went in was changed")
		}
	})
}
