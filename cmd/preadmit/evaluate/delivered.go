package evaluate

import (
	"context"
	"fmt"
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
// their unit are applied, come first. notes list the objects left alone, with reasons. unsent are the requests
// that show what policies say about objects which deployers leave alone only because of the change.
func delivered(ctx context.Context, reqs []policy.Request, was, now *load.Input, kubeVersion string) (made, unsent []policy.Request, gone map[*render.Object]bool, notes []string, err error) {
	c := delivery.New(was.Head, now.Head)
	ignored := func(o *render.Object) bool { return o != nil && o.Unit != nil && slices.Contains(o.Unit.Left, o) }
	var chain *policy.Chain // of the API server's own validation, made if an object needs it
	left := make(map[string]int)
	for _, r := range reqs {
		if r.Object == nil && r.OldObject.Unit != nil && r.OldObject.Unit.State == render.Unreached {
			continue // it was never deployed
		}
		if delivery.Resumed(r.OldObject, r.Object) || ignored(r.OldObject) && r.Object != nil && !ignored(r.Object) {
			r.Operation, r.OldObject = policy.Create, nil
		}
		act, why := c.Act(r.OldObject, r.Object)
		switch before := ignored(r.OldObject); {
		case ignored(r.Object) && why != delivery.Suspended:
			reason, at := delivery.LeavesAlone(r.Object)
			if act, why = delivery.Leave, fmt.Sprintf("%s (%s:%d)", reason, now.Tree.Display(at[0].File), at[0].Line); !before {
				unsent = append(unsent, policy.Request{Operation: policy.Create, Object: r.Object, UserInfo: r.UserInfo})
			}
		case before && r.Object == nil && act != delivery.Leave:
			left[" of "+r.OldObject.Unit.Identity()+" gone that its deployer left alone: if an earlier version is on the cluster, it is deleted"]++
			unsent = append(unsent, r)
			continue
		}
		if act != delivery.Recreate && r.Unchanged() {
			act = delivery.Apply
		}
		if act == delivery.RecreateIfRefused {
			if chain == nil {
				if chain, err = serverOf(now, kubeVersion); err != nil {
					return nil, nil, nil, nil, err
				}
			}
			results, err := chain.Review(ctx, []policy.Request{r})
			if err != nil {
				return nil, nil, nil, nil, err
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
	return slices.Concat(first, rest), unsent, gone, notes, nil
}

// reviewUnsent returns an Unknown result for each denial of a request of an object that its deployer leaves
// alone. Otherwise the annotation that a change adds would hide the denial from this run and from all later ones.
func (e *Evaluation) reviewUnsent(ctx context.Context, unsent []policy.Request) (denied []policy.Result, err error) {
	for _, q := range unsent {
		results, err := e.Engines.Chain.Review(ctx, []policy.Request{q})
		if err != nil {
			return nil, err
		}
		why, at := delivery.LeavesAlone(q.Subject())
		for _, r := range results {
			switch {
			case r.Action != policy.Deny || r.Outcome != policy.Fail && r.Outcome != policy.Unknown:
				continue
			case r.Operation == policy.Delete:
				r.Message = "its deployer left it alone (" + why + "); if an earlier version is on the cluster, it is deleted: " + r.Message
			default:
				r.Message, r.Origins = "its deployer leaves it alone because of this change ("+why+"); otherwise: "+r.Message, slices.Concat(r.Origins, at)
			}
			r.Outcome, r.Baseline, r.Hint = policy.Unknown, policy.New, "delete the document if nothing should deploy it; otherwise undo the annotation"
			denied = append(denied, r)
		}
	}
	return denied, nil
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
