package evaluate

import (
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/delivery"
)

// droppedByUpgrades returns the deletions that reqs, the requests of a change, lack: of objects that the chart
// of a release writes only on a first install from now on. A release that is on both sides is upgraded, and is
// taken to have been upgraded before.
func droppedByUpgrades(was, now *change.Side, reqs []policy.Request) (dropped []policy.Request) {
	c, half := delivery.New(was.Units, now.Units), change.PartlyRendered(was, now)
	ids := policy.NewIdentities(render.Objects(was.Units), render.Objects(now.Units))
	there := make(map[policy.Identity]bool) // written by an upgrade to the head, or deleted already
	for _, o := range slices.Concat(render.Objects(now.Units), render.Variants(now.Units)) {
		if writtenAgain(o) || !c.IsUpgrade(o.Unit) {
			there[ids.Of(o)] = true
		}
	}
	for _, r := range reqs {
		if r.Object == nil {
			there[ids.Of(r.OldObject)] = true
		}
	}
	for _, o := range slices.Concat(render.Objects(was.Units), render.Variants(was.Units)) {
		if id := ids.Of(o); !there[id] && o.GetName() != "" && writtenAgain(o) && c.IsUpgrade(o.Unit) && !half(o.Unit.Identity()) {
			dropped, there[id] = append(dropped, policy.Request{Operation: policy.Delete, OldObject: o}), true
		}
	}
	return dropped
}

// writtenAgain reports whether each upgrade of a release writes an object.
func writtenAgain(o *render.Object) bool {
	return (o.Variant.IsDefault() || o.Variant.IsUpgrade()) && !slices.Contains(o.Assumed, render.WrittenOnce)
}
