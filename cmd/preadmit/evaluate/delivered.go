package evaluate

import (
	"context"
	"maps"
	"slices"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/delivery"
)

// delivered returns the requests that deployers make instead of reqs, in their order: none for an object
// that they leave alone, a DELETE and a CREATE for one that they recreate, and a CREATE for one of a
// deployer that the change resumes. The DELETEs of gone, the objects that are deleted before others of
// their unit are applied, come first. notes list the objects left alone, with reasons.
func delivered(ctx context.Context, reqs []policy.Request, was, now *load.Input, kubeVersion string) (made []policy.Request, gone map[*render.Object]bool, notes []string, err error) {
	c := delivery.New(was.Head, now.Head)
	var chain *policy.Chain // of the API server's own validation, made if an object needs it
	left := make(map[string]int)
	for _, r := range reqs {
		if r.Object == nil && r.OldObject.Unit != nil && r.OldObject.Unit.State == render.Unreached {
			continue // it was never deployed
		}
		if delivery.Resumed(r.OldObject, r.Object) {
			r = policy.Request{Operation: policy.Create, Object: r.Object}
		}
		act, why := c.Act(r.OldObject, r.Object)
		if act != delivery.Recreate && r.Unchanged() {
			act = delivery.Apply
		}
		if act == delivery.RecreateIfRefused {
			if chain == nil {
				if chain, err = serverOf(now, kubeVersion); err != nil {
					return nil, nil, nil, err
				}
			}
			results, err := chain.Review(ctx, []policy.Request{r})
			if err != nil {
				return nil, nil, nil, err
			}
			if slices.ContainsFunc(results, invalid) {
				act = delivery.Recreate
			}
		}
		switch act {
		case delivery.Leave:
			text := " of " + r.Subject().Unit.Identity() + " left as it is on the cluster: " + why
			if r.Operation == policy.Delete {
				text = " of " + r.Subject().Unit.Identity() + " left on the cluster, though no longer deployed: " + why
			}
			left[text]++
		case delivery.Recreate:
			made = append(made, r.Recreating()...)
		case delivery.CreateAgain:
			made = append(made, r.Recreating()[1])
		default:
			made = append(made, r)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(left)) {
		notes = append(notes, policy.Plural(left[text], "object")+text)
	}
	deleted, applied := make(map[string][]*render.Object), make(map[string][]*render.Object)
	for _, r := range made {
		switch unit := r.Subject().Key().Unit; {
		case r.Operation == policy.Delete && !r.Recreated:
			deleted[unit] = append(deleted[unit], r.OldObject)
		case r.Object != nil && !r.Unchanged():
			applied[unit] = append(applied[unit], r.Object)
		}
	}
	gone = make(map[*render.Object]bool)
	for unit, objects := range deleted {
		for _, o := range c.First(unit, objects, applied[unit]) {
			gone[o] = true
		}
	}
	first, rest := policy.Split(made, func(r *policy.Request) bool { return r.Object == nil && gone[r.OldObject] })
	return slices.Concat(first, rest), gone, notes, nil
}

// serverOf returns the validation of an API server that serves the definitions of an input. Definitions
// that can't be read are left out, since the engines report them. The error is an unknown version.
func serverOf(in *load.Input, kubeVersion string) (*policy.Chain, error) {
	defined := load.Only(render.Objects(slices.Concat(in.Head, in.Given, in.Context)), schema.IsDefinition)
	kinds, err := schema.New(defined, schema.Options{KubeVersion: kubeVersion})
	if kinds == nil {
		return nil, err
	}
	custom, err := crd.New(defined, crd.Options{KubeVersion: kubeVersion})
	if custom == nil {
		return nil, err
	}
	return &policy.Chain{Kinds: kinds, Validators: []policy.Validator{schema.NewValidator(kinds, nil), custom}}, nil
}

// invalid reports whether a result says that the API server refuses a request with the reason Invalid.
func invalid(r policy.Result) bool {
	return schema.IsInvalid(&r) || r.Engine == policy.EngineCRD && r.Outcome == policy.Fail && r.Reason == "Invalid"
}
