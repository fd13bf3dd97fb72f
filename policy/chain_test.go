package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestWrittenFields: what the API server moved is told by where it was written.
func TestWrittenFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		object       string
		fields, want []string
	}{
		{
			"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: eA==, b: eA==}, stringData: {a: x, c/d: z}}",
			[]string{"/data/a", "/data/b", "/data/c~1d", "/data", "/metadata/name"},
			[]string{"/stringData/a", "/data/b", "/stringData/c~1d", "/data", "/metadata/name"},
		},
		{"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, stringData: {a: x}}", []string{"/data/a"}, []string{"/data/a"}},
		{"{apiVersion: v1, kind: Secret, metadata: {name: a}}", nil, nil},
	} {
		objects := rendertest.Parse(t, "o.yaml", c.object)
		before := slices.Clone(c.fields)
		if got := written(c.fields, objects[0]); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.object, got, c.want)
		}
		if !slices.Equal(before, c.fields) {
			t.Errorf("%s: the engine's own fields were changed", c.object)
		}
	}
}

// TestDefaulted: a result says about fields that nobody wrote what the API server
// defaults them to, and of no others.
func TestDefaulted(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 60)
	for _, c := range []struct{ object, held, after, field, want string }{
		{"{kind: Pod, spec: {}}", "{spec: {x: Always}}", "", "/spec/x", `/spec/x is not written: the API server defaults it to "Always"`},
		{"{kind: Pod, spec: {x: null}}", "{spec: {x: 3}}", "", "/spec/x", `/spec/x is null: the API server defaults it to 3`},
		{"{kind: Pod, spec: {}}", "{spec: {x: {b: <1, a: [true]}}}", "", "/spec/x", `/spec/x is not written: the API server defaults it to {"a":[true],"b":"<1"}`},
		{"{kind: Pod}", "{spec: {x: [{w: 1}]}}", "", "/spec/x/0/w", `/spec/x/0/w is not written: the API server defaults it to 1`},
		{"{kind: Pod}", "{x: " + long + "}", "", "/x", `/x is not written: the API server defaults it to "` + long[:96] + "…"},
		{"{kind: Pod, spec: {x: Never}}", "{spec: {x: Never}}", "", "/spec/x", ""},
		{"{kind: Pod, spec: {}}", "{spec: {}}", "", "/spec/x", ""},
		{"{kind: Pod, spec: {}}", "{spec: {x: null}}", "", "/spec/x", ""},
		{"{kind: Pod, spec: {}}", "{spec: {x: 1}}", "", "/spec", ""},
		{"{kind: Pod, spec: {}}", "{spec: {x: 1}}", "", "", ""},
		{"{kind: Pod}", "{metadata: {namespace: prod}}", "", "/metadata/namespace", `/metadata/namespace is not written: it is that of the request, "prod"`},
		// what mutations set is told already; what they leave is still defaulted
		{"{kind: Pod, spec: {}}", "{spec: {x: 1}}", "{spec: {x: 2}}", "/spec/x", ""},
		{"{kind: Pod, spec: {}}", "{spec: {}}", "{spec: {x: 2}}", "/spec/x", ""},
		{"{kind: Pod, spec: {}}", "{spec: {x: 1}}", "{spec: {x: 1, w: 2}}", "/spec/x", `/spec/x is not written: the API server defaults it to 1`},
		{"{kind: Pod, l: [{name: a}]}", "{l: [{name: a, x: 1}]}", "{l: [{name: b, x: 1}, {name: a, x: 1}]}", "/l/1/x", `/l/1/x is not written: the API server defaults it to 1`},
		{"{kind: Pod, l: [{name: a}]}", "{l: [{name: a, x: 1}]}", "{l: [{name: b, x: 1}, {name: a, x: 1}]}", "/l/0/x", ""},
		// a Secret's values are never told
		{"{kind: Secret, apiVersion: v1}", "{type: Opaque}", "", "/type", `/type is not written: the API server defaults it`},
		{"{kind: Secret, apiVersion: v1, stringData: {a: b}}", "{data: {a: Yg==}}", "", "/data/a", ""},
	} {
		object := &render.Object{Unstructured: &unstructured.Unstructured{Object: tree(t, c.object)}}
		var h history
		if c.after != "" {
			h.changes = []change{newChange(tree(t, c.held), tree(t, c.after), Result{})}
		}
		got := ""
		if was, touches := h.back(c.field); len(touches) == 0 {
			got = defaulted(c.field, was, object, tree(t, c.held))
		}
		if got != c.want {
			t.Errorf("%s of %s held as %s, then %s:\ngot  %s\nwant %s", c.field, c.object, c.held, c.after, got, c.want)
		}
	}
}

// TestDefaultedInResults: results have it, whether they are about what
// mutators left or about what was there before, of old objects too.
func TestDefaultedInResults(t *testing.T) {
	t.Parallel()
	objects := rendertest.Parse(t, "o.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: prod}, data: {a: x}}")
	set := mutatorFunc(func(req *Request) []Step {
		after := runtime.DeepCopyJSON(req.Admitted)
		after["immutable"] = true
		return []Step{{Result: Result{Outcome: Pass, Fields: []string{"/immutable"}}, Admitted: after}}
	})
	chain := Chain{
		Kinds:    defaultingKinds{},
		Mutators: []Mutator{set},
		Validators: []Validator{validatorFunc(func(*Request) []Result {
			return []Result{
				{Engine: "A", Outcome: Fail, Fields: []string{"/immutable"}},
				{Engine: "B", Outcome: Fail, Fields: []string{"/immutable"}, AsWritten: true},
				{Engine: "C", Outcome: Fail, Fields: []string{"/data/a", "/kept"}},
			}
		})},
	}
	const immutable, kept = `/immutable is not written: the API server defaults it to false`, `/kept is not written: the API server defaults it to "k"`
	for _, c := range []struct {
		reqs []Request
		want map[string][]string
	}{
		{Requests(nil, objects), map[string][]string{"": nil, "A": {"/immutable is set by the API server"}, "B": {immutable}, "C": {kept}}},
		{Requests(objects, nil), map[string][]string{"A": {immutable}, "B": {immutable}, "C": {kept}}},
	} {
		mutating := chain
		if c.reqs[0].Object == nil {
			mutating.Mutators = nil
		}
		results, err := mutating.Review(context.Background(), c.reqs)
		if err != nil || len(results) != len(c.want) {
			t.Fatal(results, err)
		}
		for _, r := range results {
			if !slices.Equal(r.Assumed, c.want[r.Engine]) {
				t.Errorf("%s %q: %q, want %q", r.Operation, r.Engine, r.Assumed, c.want[r.Engine])
			}
		}
	}
}

// defaultingKinds default two fields.
type defaultingKinds struct{ plainKinds }

func (d defaultingKinds) Admit(o *render.Object, namespace string) (map[string]any, error) {
	held, err := d.plainKinds.Admit(o, namespace)
	held["immutable"], held["kept"] = false, "k"
	return held, err
}

// A rendersCounted renders manifests and counts how often.
type rendersCounted struct {
	render.Manifests
	times *atomic.Int32
}

func (r rendersCounted) Render(ctx context.Context, src render.Source) ([]*render.Object, error) {
	r.times.Add(1)
	return r.Manifests.Render(ctx, src)
}

// TestForgets holds that a unit's places are kept until its last request is evaluated,
// and not longer: each unit is rendered once while requests are evaluated, and again
// when somebody asks for a place afterwards.
func TestForgets(t *testing.T) {
	t.Parallel()
	tree, srcs := fstest.MapFS{}, []render.Source(nil)
	for i := range 40 {
		var text string
		for k := range 30 {
			text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d-%d}\n", i, k)
		}
		name := fmt.Sprintf("%d.yaml", i)
		tree[name] = &fstest.MapFile{Data: []byte(text)}
		srcs = append(srcs, render.Source{FS: tree, Path: name, Kind: "manifest"})
	}
	var times atomic.Int32
	units, err := render.Graph{Renderers: []render.Renderer{rendersCounted{times: &times}}, Forgets: true}.Render(t.Context(), srcs...)
	rendertest.OK(t, err)
	refusing := func(*Request, any) (Watched, error) { return Watched{}, errors.New("is refused") } // whose result has a place
	for _, forgets := range []bool{false, true} {
		results, err := Chain{Forgets: forgets, Watch: refusing}.Review(t.Context(), Requests(nil, render.Objects(units)))
		if err != nil || len(results) != 40*30 || results[0].Origins[0].Line == 0 {
			t.Fatal(len(results), err)
		}
		if n := times.Load(); n != 40 {
			t.Errorf("%d renderings of 40 units while requests were evaluated", n)
		}
	}
	for _, u := range units {
		u.Objects[0].At("")
	}
	if n := times.Load(); n != 80 {
		t.Errorf("%d renderings of 40 units, want 80: places were kept", n)
	}
}
