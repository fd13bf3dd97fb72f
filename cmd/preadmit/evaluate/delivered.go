package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/delivery"
)

// deliveries are the requests that deployers make of a change.
type deliveries struct {
	made []policy.Request        // in the order in which they are made
	gone map[*render.Object]bool // objects that are deleted before others of their unit are applied
	// unsent are requests that deployers perhaps make, and those that they would make if the change did not stop them
	unsent     []policy.Request
	conditions map[*render.Object]condition // of the unsent, by their subjects
	// dropped holds the objects that move, each with its version of the base. The old deployer deletes it unless the new one
	// applies it first.
	dropped   map[*render.Object]*render.Object
	lost      []policy.Request        // that delete objects which perhaps are on the cluster
	uncertain map[*render.Object]bool // objects that are created or updated, or perhaps deleted
	notes     []string                // about the objects left alone, with reasons
}

// A condition says under which circumstances a request is made. It begins the messages of the request's denials.
type condition struct {
	text, hint string
	at         []render.Origin // the lines that decide it, if there are any
}

// perhaps adds a request that is made under a condition.
func (d *deliveries) perhaps(r policy.Request, c condition) {
	d.unsent = append(d.unsent, r)
	d.conditions[r.Subject()] = c
}

// lose adds a request that perhaps deletes an object.
func (d *deliveries) lose(r policy.Request, when string) {
	d.uncertain[r.OldObject] = true
	d.lost = append(d.lost, r)
	d.perhaps(r, condition{text: when})
}

// delivered returns the requests that deployers make instead of reqs: none for an object that they leave
// alone, a DELETE and a CREATE for one that they recreate, and a CREATE for one of a deployer that the
// change resumes. Such an object may be on the cluster already, and is then updated.
func delivered(ctx context.Context, reqs []policy.Request, was, now *load.Input, kubeVersion string) (*deliveries, error) {
	c, resumed := delivery.New(was.Head, now.Head), change.Resumed(was.Side(), now.Side())
	d := &deliveries{conditions: make(map[*render.Object]condition), dropped: make(map[*render.Object]*render.Object), uncertain: make(map[*render.Object]bool)}
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
		old, uncertain := r.OldObject, r.Operation == policy.Create && !r.Recreated && resumed(r.Object.Key().Unit)
		if delivery.Resumed(old, r.Object) || wasLeft && r.Object != nil && !isLeft {
			r.Operation, r.OldObject, uncertain = policy.Create, nil, true
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
				if r.Operation == policy.Update && c.Drops(r.OldObject, r.Object) {
					d.made = append(d.made, policy.Request{Operation: policy.Delete, OldObject: r.OldObject, UserInfo: r.UserInfo, Method: r.Method})
				}
				r.Operation, r.OldObject = policy.Create, nil
				d.perhaps(r, condition{leftSince(reason), undoHint, at})
			}
			continue
		case wasLeft && r.Object == nil && act != delivery.Leave:
			note(r.OldObject, " removed, which the deployer left alone: deleted if an earlier version is on the cluster", nil)
			reason, _ := delivery.LeavesAlone(r.OldObject)
			d.perhaps(r, condition{text: "its deployer left it alone (" + reason + "); if an earlier version is on the cluster, it is deleted: ", hint: undoHint})
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
		if act != delivery.Recreate && old != nil && r.Object != nil && !r.Recreated && c.Drops(old, r.Object) {
			note(old, " moved to "+r.Object.Unit.Identity()+": deleted and created again, unless "+r.Object.Unit.Identity()+" is applied first", nil)
			d.dropped[r.Object] = old
			d.perhaps(policy.Request{Operation: policy.Delete, OldObject: old}, condition{
				text: "it moves to another deployer, and the old one deletes it unless the new one applies it first: ",
				hint: "have the old deployer keep it in a change of its own, such as by Prune=false or kustomize.toolkit.fluxcd.io/prune: disabled, and then move it",
			})
		}
		if uncertain && act != delivery.Leave && r.Run != policy.OtherRun {
			d.uncertain[r.Object] = true
			if do, _ := c.Act(cmp.Or(old, r.Object), r.Object); do == delivery.Apply || do == delivery.RecreateIfRefused {
				again := r
				again.Operation, again.OldObject, again.Unseen = policy.Update, cmp.Or(old, r.Object), old == nil
				d.perhaps(again, condition{text: "if it is on the cluster already, it is updated: "})
			}
		}
		switch {
		case act == delivery.DeletePerhaps:
			d.lose(r, "this change has its deployer prune, and if the deployer learns of that before the object is gone, it deletes it: ")
		case act == delivery.Leave && r.Operation == policy.Delete:
			note(r.OldObject, " left on the cluster, though no longer deployed: "+why, nil)
		case act == delivery.Leave:
			if note(r.Object, notApplied+why, nil); r.Operation == policy.Update && why != delivery.Suspended && delivery.LeavesSince(r.OldObject, r.Object) {
				d.perhaps(r, condition{text: leftSince(why), hint: undoHint})
			}
		case act == delivery.Recreate:
			d.made = append(d.made, r.Recreating()...)
		case act == delivery.CreateAgain:
			d.made = append(d.made, r.Recreating()[1])
		default:
			d.made = append(d.made, r)
		}
	}
	for _, o := range change.PerhapsGone(was.Side(), now.Side()) {
		if act, _ := c.Act(o, nil); act != delivery.Leave {
			d.lose(policy.Request{Operation: policy.Delete, OldObject: o}, "its unit could not be rendered at the base; if an earlier version has put it on the cluster, it is deleted: ")
		}
	}
	for _, text := range slices.Sorted(maps.Keys(left)) {
		d.notes = append(d.notes, policy.Plural(left[text], "object")+text+places[text])
	}
	d.sort(c)
	return d, nil
}

const notApplied = " not applied: "

// leftSince begins the messages of denials of an object that its deployer would apply without the change.
func leftSince(why string) string {
	return "its deployer leaves it alone because of this change (" + why + "); otherwise: "
}

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

const undoHint = "delete the document if nothing should deploy it; otherwise undo the setting that has it left alone"

// reviewUnsent returns an Unknown result for each denial of a request that deployers perhaps make, or that they do not
// make only because of the change: otherwise the annotation that a change adds would hide the denial from this run and from all
// later ones. A denial of an update is left out if the object's creation is denied for it, too.
func (e *Evaluation) reviewUnsent(ctx context.Context, unsent []policy.Request, conditions map[*render.Object]condition) (denied []policy.Result, err error) {
	type failure struct {
		engine, policy, rule string
		object               render.Key
	}
	if len(unsent) == 0 {
		return nil, nil
	}
	of := func(r *policy.Result) failure { return failure{r.Engine, r.Policy, r.Rule, r.Object} }
	certain := make(map[failure]bool)
	for i := range e.Results {
		if r := &e.Results[i]; r.Action == policy.Deny && r.Baseline.Counts() && (r.Outcome == policy.Fail || r.Undecided()) {
			certain[of(r)] = true
		}
	}
	for _, q := range unsent {
		is, reqs := conditions[q.Subject()], []policy.Request{q}
		if q.Operation == policy.Update {
			if err := e.Engines.Chain.StoreOld(ctx, reqs); err != nil {
				return nil, err
			}
		}
		results, err := e.Engines.Chain.Review(ctx, reqs)
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			fails := r.Outcome == policy.Fail || r.Undecided()
			if !fails || r.Action != policy.Deny || q.Operation == policy.Update && certain[of(&r)] {
				continue
			}
			r.Message, r.Hint, r.Origins = is.text+r.Message, is.hint, slices.Concat(r.Origins, is.at)
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
