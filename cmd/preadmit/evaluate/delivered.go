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

// deliveries are the requests that deployers make of a change.
type deliveries struct {
	made   []policy.Request        // in the order in which they are made
	unsent []policy.Request        // of objects that deployers leave alone only because of the change, and of those that they perhaps delete
	gone   map[*render.Object]bool // objects that are deleted before others of their unit are applied
	// dropped are objects of the base that move, and that their old deployer deletes unless the new one applies them first
	dropped map[*render.Object]bool
	notes   []string // about the objects left alone, with reasons
}

// delivered returns the requests that deployers make instead of reqs: none for an object that they leave
// alone, a DELETE and a CREATE for one that they recreate, and a CREATE for one of a deployer that the
// change resumes.
func delivered(ctx context.Context, reqs []policy.Request, was, now *load.Input, kubeVersion string) (*deliveries, error) {
	c, d := delivery.New(was.Head, now.Head), &deliveries{dropped: make(map[*render.Object]bool)}
	var chain *policy.Chain // of the API server's own validation, made if an object needs it
	left, places := make(map[string]int), make(map[string]string)
	note := func(o *render.Object, why string, at []render.Origin) {
		text := " of " + o.Unit.Identity() + why
		if left[text]++; left[text] == 1 && len(at) > 0 {
			places[text] = fmt.Sprintf(" (%s:%d)", now.Tree.Display(at[0].File), at[0].Line)
		}
	}
	upgraded := make(map[render.Key]bool)
	for _, r := range reqs {
		if r.Run == policy.UpgradeRun && r.Object != nil {
			upgraded[r.Object.Key()] = true
		}
	}
	for _, r := range reqs {
		if r.Object == nil && r.OldObject.Unit != nil && r.OldObject.Unit.State == render.Unreached {
			continue // it was never deployed
		}
		wasLeft, isLeft := delivery.IsLeft(r.OldObject), delivery.IsLeft(r.Object)
		if wasLeft && isLeft && r.Unchanged() {
			continue
		}
		if delivery.Resumed(r.OldObject, r.Object) || wasLeft && r.Object != nil && !isLeft {
			r.Operation, r.OldObject = policy.Create, nil
		}
		if r.Run == policy.OtherRun && !r.Unchanged() && !upgraded[r.Object.Key()] {
			note(r.Object, notApplied+"upgrades of the release do not write such objects", nil)
		}
		act, why := c.Act(r.OldObject, r.Object)
		if act == delivery.Leave && why == delivery.Suspended && r.Operation == policy.Update && c.Drops(r.OldObject, r.Object) {
			act, r = delivery.Apply, policy.Request{Operation: policy.Delete, OldObject: r.OldObject, UserInfo: r.UserInfo, Method: r.Method} // the new deployer does nothing
		}
		switch {
		case isLeft && why != delivery.Suspended:
			reason, at := delivery.LeavesAlone(r.Object)
			if note(r.Object, notApplied+reason, at); !wasLeft {
				d.unsent = append(d.unsent, policy.Request{Operation: policy.Create, Object: r.Object, UserInfo: r.UserInfo, Method: r.Method})
			}
			continue
		case wasLeft && r.Object == nil && act != delivery.Leave:
			note(r.OldObject, " removed, which the deployer left alone: deleted if an earlier version is on the cluster", nil)
			d.unsent = append(d.unsent, r)
			continue
		case act != delivery.Recreate && r.Unchanged():
			act = delivery.Apply
		}
		if act == delivery.RecreateIfRefused {
			if chain == nil {
				var err error
				if chain, err = serverOf(now, kubeVersion); err != nil {
					return nil, err
				}
			}
			tried := []policy.Request{r}
			if err := chain.StoreOld(ctx, tried); err != nil {
				return nil, err
			}
			results, err := chain.Review(ctx, tried)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(results, invalid) {
				act = delivery.Recreate
			}
		}
		if act != delivery.Recreate && r.Operation == policy.Update && c.Drops(r.OldObject, r.Object) {
			note(r.OldObject, " moved to "+r.Object.Unit.Identity()+": deleted and created again, unless "+r.Object.Unit.Identity()+" is applied first", nil)
			d.dropped[r.OldObject] = true
			d.unsent = append(d.unsent, policy.Request{Operation: policy.Delete, OldObject: r.OldObject})
		}
		switch {
		case act == delivery.Leave && r.Operation == policy.Delete:
			note(r.OldObject, " left on the cluster, though no longer deployed: "+why, nil)
		case act == delivery.Leave:
			note(r.Object, notApplied+why, nil)
		case act == delivery.Recreate:
			d.made = append(d.made, r.Recreating()...)
		case act == delivery.CreateAgain:
			d.made = append(d.made, r.Recreating()[1])
		default:
			d.made = append(d.made, r)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(left)) {
		d.notes = append(d.notes, policy.Plural(left[text], "object")+text+places[text])
	}
	d.sort(c)
	return d, nil
}

const notApplied = " not applied: "

// sort moves the deletions that come before others of their unit to the front, and fills gone.
func (d *deliveries) sort(c *delivery.Change) {
	deleted, applied := make(map[string][]*render.Object), make(map[string][]*render.Object)
	for _, r := range d.made {
		switch unit := r.Subject().Key().Unit; {
		case r.Operation == policy.Delete && !r.Recreated:
			deleted[unit] = append(deleted[unit], r.OldObject)
		case r.Object != nil && !r.Unchanged():
			applied[unit] = append(applied[unit], r.Object)
		}
	}
	d.gone = make(map[*render.Object]bool)
	for unit, objects := range deleted {
		for _, o := range c.First(unit, objects, applied[unit]) {
			d.gone[o] = true
		}
	}
	first, rest := policy.Split(d.made, func(r *policy.Request) bool { return r.Object == nil && d.gone[r.OldObject] })
	d.made = slices.Concat(first, rest)
}

const undoHint = "delete the document if nothing should deploy it; otherwise undo the annotation"

// reviewUnsent returns an Unknown result for each denial of a request of an object that its deployer leaves
// alone, or perhaps deletes. Otherwise the annotation that a change adds would hide the denial from this run and from all later ones.
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
			case r.Operation == policy.Delete && why == "":
				r.Message = "it moves to another deployer, and the old one deletes it unless the new one applies it first: " + r.Message
				r.Hint = "have the old deployer keep it in a change of its own, such as by Prune=false or kustomize.toolkit.fluxcd.io/prune: disabled, and then move it"
			case r.Operation == policy.Delete:
				r.Hint = undoHint
				r.Message = "its deployer left it alone (" + why + "); if an earlier version is on the cluster, it is deleted: " + r.Message
			default:
				r.Hint = undoHint
				r.Message, r.Origins = "its deployer leaves it alone because of this change ("+why+"); otherwise: "+r.Message, slices.Concat(r.Origins, at)
			}
			r.Outcome, r.Baseline = policy.Unknown, policy.New
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
