// Package enginetest has the tests that several engines must pass: results that they
// reuse for equal objects are the results that they would compute.
package enginetest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Together checks that requests about equal objects, which a chain reviews together,
// have the same results as when it reviews each alone. It returns the results.
func Together(t *testing.T, chain policy.Chain, reqs []policy.Request) []policy.Result {
	t.Helper()
	var want []policy.Result
	for i := range reqs {
		alone, err := chain.Review(t.Context(), reqs[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, alone...)
	}
	policy.Sort(want)
	got, err := chain.Review(t.Context(), reqs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reviewed alone -, together +\n%s", diff)
	}
	return want
}

// Changes are small changes of objects, for [Repeats].
type Changes struct {
	Fields []string // at the top of an object, below which changes are made
	Key    string   // set beside the keys that a map has
	Values []any
}

// Repeats checks that an engine which reuses verdicts for objects that are equal in
// what its policies read gives the results of one that evaluates each object. It
// makes n variants in all of the objects.
func Repeats(t *testing.T, kinds policy.Kinds, with, without policy.Validator, objects []*render.Object, n int, changes Changes) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		of := objects[i%len(objects)]
		tree := render.Copy(of.Object).(map[string]any)
		for range random.IntN(3) {
			for _, field := range changes.Fields {
				changes.apply(random, tree[field])
			}
		}
		o := &render.Object{Unstructured: &unstructured.Unstructured{Object: tree}, Unit: of.Unit}
		req := policy.Request{Operation: policy.Create, Object: o, Admitted: tree, Kind: o.GroupVersionKind(), Name: "x", Namespace: "default"}
		req.Resource = kinds.Resource(req.Kind)
		got, err := with.Validate(t.Context(), &req)
		if err != nil {
			t.Fatal(err)
		}
		want, err := without.Validate(t.Context(), &req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%v: evaluated -, repeated +\n%s", tree, diff)
		}
	}
}

// apply makes a change below a map or list.
func (c *Changes) apply(random *rand.Rand, tree any) {
	value := func() any { return render.Copy(c.Values[random.IntN(len(c.Values))]) }
	switch tree := tree.(type) {
	case map[string]any:
		keys := append(slices.Sorted(maps.Keys(tree)), c.Key)
		key := keys[random.IntN(len(keys))]
		switch random.IntN(4) {
		case 0:
			delete(tree, key)
		case 1:
			tree[key] = value()
		default:
			c.apply(random, tree[key])
		}
	case []any:
		if len(tree) == 0 {
			return
		}
		i := random.IntN(len(tree))
		if random.IntN(4) == 0 {
			tree[i] = value()
			return
		}
		c.apply(random, tree[i])
	}
}
