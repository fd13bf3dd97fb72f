package policy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

func tree(t testing.TB, text string) map[string]any {
	t.Helper()
	objects, err := render.Parse("o.yaml", []byte("apiVersion: v1\nkind: T\nmetadata: {name: t}\nspec: "+text))
	if err != nil {
		t.Fatal(text, err)
	}
	return objects[0].Object["spec"].(map[string]any)
}

// TestTrace: a field of a changed object is where it was before, or its
// nearest ancestor is.
func TestTrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after, pointer, want string }{
		{"{a: 1}", "{a: 1}", "/a", "/a is left"},
		{"{a: 1}", "{a: 2}", "/a", "/a is set"},
		{"{a: 1}", "{a: 1, b: {c: 2}}", "/b/c", " is set at /b"},
		{"{a: 1, b: {c: 2}}", "{a: 1}", "/b/c", "/b/c is removed at /b"},
		{"{a: 1}", "{a: 1}", "/x/y", "/x/y is left"},
		{"{a: {b: 1}}", "{a: [1]}", "/a/0", "/a is set at /a/0"},
		{"{a: {b: 1}}", "{a: 1}", "/a", "/a is set"},
		{"{a: [p, q]}", "{a: [m, p, q]}", "/a/2", "/a/1 is left"},
		{"{a: [p, q]}", "{a: [m, p, q]}", "/a/0", "/a is set at /a/0"},
		{"{a: [p, q]}", "{a: [m, p, q]}", "/a", "/a is changed"},
		{"{a: [p, q]}", "{a: [p, z]}", "/a/1", "/a/1 is set"},
		{"{a: [p, q]}", "{a: [q, p]}", "/a/0", "/a/1 is left"},
		{"{a: [p, q]}", "{a: [v, w]}", "/a/0", "/a is set at /a/0"},
		{"{a: [p, p, q]}", "{a: [p, q]}", "/a/1", "/a/2 is left"},
		{"{a: [p, q, p]}", "{a: [q, p, p]}", "/a/2", "/a/2 is left"},
		{"{a: [{name: x, v: 1}, {name: q, v: 1}]}", "{a: [{name: m, v: 1}, {name: x, v: 2}, {name: q, v: 1}]}", "/a/1/v", "/a/0/v is set"},
		{"{a: [{name: x, v: 1}, {name: q, v: 1}]}", "{a: [{name: m, v: 1}, {name: x, v: 2}, {name: q, v: 1}]}", "/a/2/v", "/a/1/v is left"},
		{"{a: [{name: x, v: 1}, {name: q, v: 1}]}", "{a: [{name: m, v: 1}, {name: x, v: 2}, {name: q, v: 1}]}", "/a/0/v", "/a is set at /a/0"},
		{"{a: [{name: x, v: 1}, {name: q, v: 1}]}", "{a: [{name: m, v: 1}, {name: x, v: 2}, {name: q, v: 1}]}", "/a/1/missing", "/a/0/missing is left"},
		{"{a: [{name: x}, {name: x, v: 1}]}", "{a: [{name: x, v: 1}]}", "/a/0/v", "/a/1/v is left"},
		{"{a: [x]}", "{a: [x]}", "/a/7", "/a is left at /a/7"},
		{"{a: [x]}", "{a: [x]}", "/a/-1", "/a is left at /a/-1"},
		{"{a: x}", "{a: x}", "/a/b", "/a/b is left"},
		{"{a: [{path: {v: 1}}]}", "{a: [{path: {v: 1}, method: GET}]}", "/a/0/method", "/a/0 is set at /a/0/method"},
		{"{a: [{name: [x]}]}", "{a: [{name: [x]}, {name: [z]}]}", "/a/0/name", "/a/0/name is left"},
	} {
		change := newChange(tree(t, c.before), tree(t, c.after), Result{})
		was, touched, how := change.trace(c.pointer)
		got := fmt.Sprintf("%s %s", was, how)
		if touched != was {
			got += " at " + touched
		}
		if !strings.Contains(c.want, " at ") {
			got, _, _ = strings.Cut(got, " at ")
		}
		if got != c.want {
			t.Errorf("%s -> %s: %s: %q, want %q", c.before, c.after, c.pointer, got, c.want)
		}
	}
}

// TestTraceIsNeverWrong: of any two trees, a field that is left as it was is
// traced to a field of the same value, and every other to one that is there.
func TestTraceIsNeverWrong(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	fields, left := 0, 0
	for range 3000 {
		before := randomTree(r, 4).(map[string]any)
		after := mutateTree(r, runtime.DeepCopyJSON(before)).(map[string]any)
		c := newChange(before, after, Result{})
		eachLeaf("", after, func(pointer string, leaf any) {
			fields++
			for _, p := range []string{pointer, pointer + "/x/0", pointer[:strings.LastIndexByte(pointer, '/')] + "/9", pointer[:len(pointer)-1]} {
				if was, _, how := c.trace(p); c.leaves(p, 0) != unsure {
					left++
					if was != p || how != untouched {
						t.Fatalf("%s is said to be left, and %s as %s\n%s\n%s", p, how, was, show(before), show(after))
					}
				}
			}
			was, _, how := c.trace(pointer)
			value, found := render.Lookup(before, was)
			if !found {
				t.Fatalf("%s is traced to %s, which is not there\n%s\n%s", pointer, was, show(before), show(after))
			}
			if how == untouched && !reflect.DeepEqual(value, leaf) {
				t.Fatalf("%s is said to be left as %s, which is another\n%s\n%s", pointer, was, show(before), show(after))
			}
		})
	}
	t.Logf("%d fields, %d pointers to what the change leaves", fields, left)
	if left == 0 {
		t.Error("no change leaves a pointer")
	}
}

// TestBack: a field is traced through several changes as through one after the other.
func TestBack(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		h, last := newHistory(), randomTree(r, 4).(map[string]any)
		for range 4 {
			next := mutateTree(r, runtime.DeepCopyJSON(last)).(map[string]any)
			h.changes = append(h.changes, newChange(last, next, Result{}))
			last = next
		}
		eachLeaf("", last, func(pointer string, _ any) {
			for _, p := range []string{pointer, pointer + "/x/0", pointer[:strings.LastIndexByte(pointer, '/')] + "/9", pointer[:len(pointer)-1]} {
				want, touched := p, 0
				for _, c := range slices.Backward(h.changes) {
					var how touch
					if want, _, how = c.trace(want); how != untouched {
						touched++
					}
				}
				if was, touches := h.back(p); was != want || len(touches) != touched {
					t.Fatalf("%s is traced to %s, by %d changes; want %s, %d\n%s", p, was, len(touches), want, touched, show(last))
				}
			}
		})
	}
}

// FuzzTrace: fields of any two trees can be traced, to places that are there.
func FuzzTrace(f *testing.F) {
	f.Add("{a: [{path: {v: 1}}]}", "{a: [{path: {v: 1}, method: GET}]}", "/a/0/method")
	f.Add("{a: [{name: [x], key: {}}, {name: null}]}", "{a: [{name: {}}, {}, 1, null]}", "/a/1/name/0")
	f.Add("{a: {b: [[]]}}", "{a: [[], {b: .nan}]}", "/a/-1/~2//")
	f.Fuzz(func(t *testing.T, before, after, pointer string) {
		var c change
		if yaml.Unmarshal([]byte(before), &c.before) != nil || yaml.Unmarshal([]byte(after), &c.after) != nil {
			return
		}
		c = newChange(c.before, c.after, Result{})
		trace := func(pointer string, _ any) {
			was, _, how := c.trace(pointer)
			if c.leaves(pointer, 0) != unsure && (was != pointer || how != untouched) {
				t.Errorf("%s is said to be left, and %s as %s", pointer, how, was)
			}
			if how == replaced {
				if _, found := render.Lookup(c.before, was); !found {
					t.Errorf("%s is traced to %s, which is not there", pointer, was)
				}
			}
		}
		trace(pointer, nil)
		eachLeaf("", c.after, trace)
	})
}

func show(tree any) string {
	data, _ := yaml.Marshal(tree)
	return string(data)
}

func eachLeaf(pointer string, value any, f func(string, any)) {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			eachLeaf(pointer+render.Pointer(key), child, f)
		}
	case []any:
		for i, child := range v {
			eachLeaf(pointer+render.Pointer(i), child, f)
		}
	default:
		f(pointer, v)
	}
}

func randomTree(r *rand.Rand, depth int) any {
	m := map[string]any{}
	for range 1 + r.IntN(4) {
		m[string(rune('a'+r.IntN(6)))] = randomValue(r, depth-1)
	}
	return m
}

func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(6); {
	case depth > 0 && n < 2:
		return randomTree(r, depth)
	case depth > 0 && n < 5:
		list := make([]any, r.IntN(5))
		for i := range list {
			if list[i] = randomValue(r, depth-1); n == 2 {
				list[i] = map[string]any{"name": fmt.Sprint(r.IntN(4)), "v": int64(r.IntN(3))}
			}
		}
		return list
	default:
		return int64(r.IntN(3))
	}
}

// mutateTree changes some of a tree.
func mutateTree(r *rand.Rand, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			if v[key] = mutateTree(r, v[key]); r.IntN(12) == 0 {
				delete(v, key)
			}
		}
		if r.IntN(4) == 0 {
			v["new"] = int64(r.IntN(3))
		}
		return v
	case []any:
		if len(v) > 0 && r.IntN(4) == 0 {
			i := r.IntN(len(v))
			v = append(v[:i:i], v[i+1:]...)
		}
		if r.IntN(3) == 0 {
			v = append([]any{randomValue(r, 1)}, v...)
		}
		if r.IntN(3) == 0 {
			r.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
		}
		for i := range v {
			v[i] = mutateTree(r, v[i])
		}
		return v
	default:
		if r.IntN(8) == 0 {
			return int64(r.IntN(3))
		}
		return v
	}
}

// TestChainMutates: validators see what mutators left, each of which sees what
// the one before left, and one that panics hides nothing.
func TestChainMutates(t *testing.T) {
	t.Parallel()
	objects := rendertest.Parse(t, "o.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: x\n")
	add := func(key string) Mutator {
		return mutatorFunc(func(req *Request) []Step {
			after := runtime.DeepCopyJSON(req.Admitted)
			data := after["data"].(map[string]any)
			data[key] = fmt.Sprint(len(data))
			return []Step{{Result: Result{Engine: "M", Policy: key, Rule: "r", Outcome: Pass, Fields: []string{"/data/" + key}, PolicyOrigin: render.Span{File: key, Line: 1}}, Admitted: after}}
		})
	}
	var seen map[string]any
	chain := Chain{
		Kinds:    plainKinds{},
		Mutators: []Mutator{add("b"), mutatorFunc(func(*Request) []Step { panic("broken") }), add("c")},
		Validators: []Validator{validatorFunc(func(req *Request) []Result {
			seen = req.Admitted["data"].(map[string]any)
			return []Result{{Engine: "V", Outcome: Fail, Fields: []string{"/data/c"}}, {Engine: "W", Outcome: Fail, Fields: []string{"/data/a"}}, {Engine: "X", Outcome: Fail, Fields: []string{"/data/c"}, AsWritten: true}}
		})},
	}
	results, err := chain.Review(context.Background(), Requests(nil, objects))
	rendertest.OK(t, err)
	if fmt.Sprint(seen) != "map[a:x b:1 c:2]" {
		t.Errorf("the validator saw %v", seen)
	}
	var got []string
	for _, r := range results {
		got = append(got, fmt.Sprint(r.Engine, " ", r.Origins, " ", r.Assumed))
	}
	want := []string{
		"Compile [o.yaml:3:18] []",
		"M [o.yaml:4:1] []", "M [o.yaml:4:1] []",
		"V [c:1 o.yaml:4:1] [Compile policy.mutatorFunc could not be applied: checked without its changes /data/c is set by M c]",
		"W [o.yaml:5:6] [Compile policy.mutatorFunc could not be applied: checked without its changes]",
		"X [o.yaml:4:1] []",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if fmt.Sprint(objects[0].Object["data"]) != "map[a:x]" {
		t.Error("the rendered object was changed")
	}
}

// TestPanicsAreResults: what breaks anywhere in a review is said about its object,
// and the others are evaluated.
func TestPanicsAreResults(t *testing.T) {
	t.Parallel()
	objects := rendertest.Parse(t, "o.yaml", "apiVersion: v1\nkind: T\nmetadata: {name: bad}\n---\napiVersion: v1\nkind: T\nmetadata: {name: good}\n")
	fails := validatorFunc(func(*Request) []Result { return []Result{{Engine: "V", Outcome: Fail}} })
	chain := Chain{Kinds: brokenKinds{}, Validators: []Validator{fails}}
	results, err := chain.Review(context.Background(), Requests(nil, objects))
	rendertest.OK(t, err)
	var got []string
	for _, r := range results {
		got = append(got, fmt.Sprint(r.Engine, " ", r.Object.Name, " ", r.Outcome, " ", r.Origins, " ", r.Message))
	}
	want := []string{"Compile bad error [o.yaml:3:18] internal error: broken", "V good fail [o.yaml:7:18] "}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	stored, _, err := chain.Stored(context.Background(), Requests(nil, objects))
	if err != nil || stored[0] != objects[0] || stored[1] == nil {
		t.Errorf("stored %v, %v", stored, err)
	}
	if es, err := chain.Explain(context.Background(), Requests(nil, objects)[0], "p", ""); err != nil || len(es) != 1 || es[0].Results[0].Outcome != Error {
		t.Errorf("explained %v, %v", es, err)
	}
}

type brokenKinds struct{ plainKinds }

func (b brokenKinds) Admit(o *render.Object, namespace string) (map[string]any, error) {
	if o.GetName() == "bad" {
		panic("broken")
	}
	return b.plainKinds.Admit(o, namespace)
}

type mutatorFunc func(*Request) []Step

func (m mutatorFunc) Mutate(_ context.Context, req *Request) ([]Step, error) { return m(req), nil }
func (m mutatorFunc) Rules() []Rule                                          { return nil }

type validatorFunc func(*Request) []Result

func (v validatorFunc) Validate(_ context.Context, req *Request) ([]Result, error) {
	return v(req), nil
}
func (v validatorFunc) Rules() []Rule { return nil }

// plainKinds take objects as they are.
type plainKinds struct{}

func (plainKinds) Resource(gvk schema.GroupVersionKind) Resource {
	return Resource{GroupVersionResource: gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"), Namespaced: true, Known: true}
}

func (plainKinds) Admit(o *render.Object, namespace string) (map[string]any, error) {
	u := unstructured.Unstructured{Object: runtime.DeepCopyJSON(o.Object)}
	u.SetNamespace(namespace)
	return u.Object, nil
}
func (plainKinds) Equivalent(schema.GroupVersionResource) []Version { return nil }
func (plainKinds) Convert(o map[string]any, _ schema.GroupVersionKind) (map[string]any, error) {
	return o, nil
}
