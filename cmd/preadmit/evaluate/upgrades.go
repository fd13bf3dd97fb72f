package evaluate

import (
	"cmp"
	"maps"
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/delivery"
)

// requests holds the requests of a change, and those that create the variants of the head and of the base.
type requests struct {
	made, variants, old []policy.Request
	notes               []string
}

// requestsOf returns the requests of a change between two sides.
//
// A release of Helm that is on both sides is upgraded, and is taken to have been upgraded before. An object
// that its chart writes only on a first install, or then in another form, is created in that form, but an
// update goes from what an upgrade to the base writes to what an upgrade to the head does. If the latter no
// longer writes an object, it is deleted.
func requestsOf(was, now *change.Side) *requests {
	all, q := policy.Requests(change.Comparable(was, now)), &requests{variants: policy.VariantRequests(now.Units), old: policy.VariantRequests(was.Units)}
	c, half, ids := delivery.New(was.Units, now.Units), change.PartlyRendered(was, now), policy.NewIdentities(render.Objects(was.Units), render.Objects(now.Units))
	releases := make(map[string]bool) // that are upgraded, and of which either side writes something else then
	for _, o := range slices.Concat(render.Objects(was.Units), render.Objects(now.Units), render.Variants(was.Units), render.Variants(now.Units)) {
		if o.Variant.IsUpgrade() || slices.Contains(o.Assumed, render.WrittenOnce) {
			releases[o.Unit.Identity()] = c.IsUpgrade(o.Unit) && !half(o.Unit.Identity())
		}
	}
	upgraded := func(o *render.Object) bool { return o.Unit != nil && releases[o.Unit.Identity()] }
	before, after := onUpgrade(was.Units, ids, upgraded), onUpgrade(now.Units, ids, upgraded)

	updated, installed, seen := make(map[*render.Object]bool), make(map[string]int), make(map[policy.Identity]bool)
	add := func(old, object *render.Object) {
		r := policy.Request{Operation: policy.Update, OldObject: old, Object: object}
		switch {
		case object == nil:
			r.Operation = policy.Delete
		case old == nil:
			r.Operation = policy.Create
		}
		q.made, updated[old], updated[object] = append(q.made, r), true, true
	}
	for _, r := range all {
		form := func(o *render.Object, forms map[policy.Identity]*render.Object) *render.Object {
			if o != nil && !upgraded(o) {
				return o
			}
			return forms[ids.Of(cmp.Or(o, r.Subject()))]
		}
		seen[ids.Of(r.Subject())] = true
		old, object := form(r.OldObject, before), form(r.Object, after)
		same, both := old == nil && object == nil, old != nil && object != nil
		same = same || both && render.Equal(old.Object, object.Object)
		if r.Instead != nil || r.Recreated || old == r.OldObject && object == r.Object || same && r.Unchanged() ||
			object == nil && r.Object == nil || old == nil && r.OldObject == nil {
			q.made = append(q.made, r)
			continue
		}
		if r.Object != nil && r.Object != object { // as on a first install
			q.variants = append(q.variants, policy.Request{Operation: policy.Create, Object: r.Object})
			if !r.Unchanged() {
				installed[" of "+r.Object.Unit.Identity()+" not updated: an upgrade of the release writes something else, or nothing"]++
			}
		}
		inVariants := old == nil || same
		if inVariants = inVariants && object != r.Object; !inVariants {
			add(old, object)
		}
		if r.OldObject != nil && (r.OldObject != old || inVariants) {
			q.old = append(q.old, policy.Request{Operation: policy.Create, Object: r.OldObject})
		}
	}
	for _, v := range slices.Concat(q.variants, q.old) { // of objects that no first install writes
		id := ids.Of(v.Object)
		if old, object := before[id], after[id]; old != nil && !seen[id] && (object == nil || !render.Equal(old.Object, object.Object)) {
			add(old, object)
		}
		seen[id] = true
	}
	isUpdated := func(r policy.Request) bool { return updated[r.Object] }
	q.variants, q.old = slices.DeleteFunc(q.variants, isUpdated), slices.DeleteFunc(q.old, isUpdated)
	for _, text := range slices.Sorted(maps.Keys(installed)) {
		q.notes = append(q.notes, policy.Plural(installed[text], "object")+text)
	}
	return q
}

// onUpgrade returns the objects that are the same on each upgrade, of the units that are upgraded.
func onUpgrade(units []*render.Unit, ids policy.Identities, upgraded func(*render.Object) bool) map[policy.Identity]*render.Object {
	forms := make(map[policy.Identity]*render.Object)
	for _, o := range slices.Concat(render.Objects(units), render.Variants(units)) {
		if upgraded(o) && (o.Variant.IsDefault() || o.Variant.IsUpgrade()) && o.GetName() != "" && !slices.Contains(o.Assumed, render.WrittenOnce) {
			forms[ids.Of(o)] = o
		}
	}
	return forms
}
