package evaluate

import (
	"context"
	"io"
	"maps"
	"slices"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report/objects"
)

// A Difference is the difference between the rendered objects of a base and a head.
type Difference struct {
	Requests []policy.Request // for objects that differ
	Found    []policy.Result  // errors of rendering that the base does not have
	Notes    []string

	base  *base
	sides objects.Sides
}

// Shown returns the objects of a request, without the fields whose changes are not shown.
func (d *Difference) Shown(r *policy.Request) (was, now *render.Object) { return d.sides.Shown(r, nil) }

// Origins returns the places of a field. Those of a deleted object are in the base's commit.
func (d *Difference) Origins(r policy.Request, pointer string) []render.Origin {
	if r.Object != nil {
		return r.Object.At(pointer)
	}
	return change.AtCommit(r.OldObject, d.base.name).At(pointer)
}

// Compare renders the base and compares its objects with those of the input.
func Compare(ctx context.Context, o *Options, in *load.Input, args []string, stdin io.Reader) (*Difference, error) {
	b, err := o.openBase(ctx, in, args, stdin, args)
	if err != nil {
		return nil, err
	}
	was, now := b.in.Side(), in.Side()
	change.Count(was, now)
	// The users do not matter here, but the methods by which objects are sent do.
	sent, err := delivered(ctx, new(engines.Settings).By(requestsOf(was, now).made), b.in, in, o.KubeVersion)
	if err != nil {
		return nil, err
	}
	reqs := sent.made
	d := &Difference{Notes: append(sent.notes, b.notes(in)...), base: b}
	half := change.PartlyRendered(was, now)
	c := policy.Comparison{Base: b.in.Found, Updates: policy.Updates(reqs), Incomparable: half, Stopped: change.Stopped(was, now)}
	again := change.UndecidedAgain(was, now, reqs)
	for _, f := range c.Compare(in.Found) {
		if f.Baseline.Counts() || again(&f) {
			d.Found = append(d.Found, f)
		}
	}
	_, changed := policy.Divide(reqs)
	notes := make(map[string]bool)
	d.sides = objects.Sides{Half: half, Resumed: change.Resumed(was, now), Ignore: o.Configuration.Diff.Ignore}
	for i := range changed {
		if r := &changed[i]; r.Run == policy.OtherRun && r.Instead != nil {
			r.Operation, r.OldObject = policy.Update, r.Instead
		}
	}
	d.Requests = slices.DeleteFunc(changed, func(r policy.Request) bool {
		was, now := d.sides.Shown(&r, notes)
		return d.sides.LeavesOut(&r) || was != nil && now != nil && render.Equal(was.Object, now.Object)
	})
	d.Notes = append(d.Notes, slices.Sorted(maps.Keys(notes))...)
	return d, nil
}
