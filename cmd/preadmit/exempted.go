package main

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// exempting reports whether an object may exempt others from policies: by its
// labels, as an exception, by what it permits, or as a parameter of policies.
func exempting(parameters map[schema.GroupKind]bool) func(*render.Object) bool {
	return func(o *render.Object) bool {
		gk := o.GroupVersionKind().GroupKind()
		switch {
		case gk == schema.GroupKind{Kind: "Namespace"}, gk.Kind == "PolicyException", gk.Group == "rbac.authorization.k8s.io":
			return true
		}
		return parameters[gk]
	}
}

// exempted returns the failures that the change alone makes pass: of objects
// that the base's Namespace labels, exceptions, parameters and permissions do
// not exempt. Found are the results that go by the head's.
func (b *base) exempted(ctx context.Context, s benchOptions, head *input, reqs []policy.Request, found []policy.Result) ([]policy.Result, error) {
	is := exempting(parameterKinds(objects(slices.Concat(b.in.head, b.in.judges))))
	var changed []policy.Request
	for _, r := range policy.Requests(only(objects(b.in.head), is), only(objects(head.head), is)) {
		if r.Object != nil && !r.Unchanged() {
			changed = append(changed, r)
		}
	}
	if len(changed) == 0 {
		return nil, nil
	}
	judge := b.trusted(head)
	judge.exempts = is
	bench, err := newBench(head, judge, s)
	if err != nil {
		return nil, err
	}
	results, err := bench.chain.Review(ctx, reqs)
	if err != nil {
		return nil, err
	}
	fails := make(map[string]bool)
	for i := range found {
		if r := &found[i]; r.Outcome == policy.Fail {
			fails[r.Fingerprint] = true
		}
	}
	results = slices.DeleteFunc(results, func(r policy.Result) bool {
		return r.Outcome != policy.Fail || r.Operation == policy.Delete || fails[r.Fingerprint]
	})
	for i := range results {
		explainExemption(&results[i], changed)
	}
	return results, nil
}

// explainExemption says which object of the change exempts a result's object.
func explainExemption(r *policy.Result, changed []policy.Request) {
	by := changed[0]
	for _, c := range changed {
		if c.Object.GetKind() == "Namespace" && c.Object.GetName() == r.Object.Namespace {
			by = c
		}
	}
	pointer := ""
	for key, value := range by.Object.GetLabels() {
		if by.OldObject == nil || by.OldObject.GetLabels()[key] != value {
			if p := render.Pointer("metadata", "labels", key); pointer == "" || p < pointer {
				pointer = p
			}
		}
	}
	at := by.Object.At(pointer)
	what := by.Object.GetKind() + " " + by.Object.GetName()
	if len(at) > 0 {
		what += fmt.Sprintf(" at %s:%d", at[0].File, at[0].Line)
		o := at[0]
		o.Role = render.Reference
		r.Origins = append(slices.Clone(r.Origins), o)
	}
	r.Message = fmt.Sprintf("exempted by what this change sets in %s: %s", what, r.Message)
}

// asInBase returns the objects that policies look at, with exempting objects as
// the base has them. Exempting objects that the change adds are left out, but new
// Namespaces stay, without their labels.
func asInBase(head []*render.Object, base []*render.Object, exempts func(*render.Object) bool) []*render.Object {
	identity := func(o *render.Object) render.Key {
		k := unversioned(o)
		k.Unit = ""
		return k
	}
	known := make(map[render.Key]bool)
	for _, o := range base {
		known[identity(o)] = true
	}
	var all []*render.Object
	for _, o := range head {
		switch {
		case !exempts(o):
			all = append(all, o)
		case o.GetKind() == "Namespace" && !known[identity(o)]:
			bare := *o
			bare.Unstructured = o.DeepCopy()
			bare.SetLabels(nil)
			all = append(all, &bare)
		}
	}
	return all
}
