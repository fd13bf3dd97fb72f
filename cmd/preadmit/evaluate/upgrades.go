package evaluate

import (
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
	q := &requests{variants: policy.VariantRequests(now.Units), old: policy.VariantRequests(was.Units)}
	u, installed, seen := upgradesOf(was, now), make(map[string]int), make(map[policy.Identity]bool)
	updated := make(map[*render.Object]bool)
	update := func(old, object *render.Object) {
		r := policy.Request{Operation: policy.Update, OldObject: old, Object: object}
		switch {
		case object == nil:
			r.Operation = policy.Delete
		case old == nil:
			r.Operation = policy.Create
		}
		q.made, updated[old], updated[object] = append(q.made, r), true, true
	}
	for _, r := range policy.Requests(change.Comparable(was, now)) {
		id := u.ids.Of(r.Subject())
		seen[id] = true
		old, object := u.form(r.OldObject, id, u.before), u.form(r.Object, id, u.after)
		same := equal(old, object)
		if r.Instead != nil || r.Recreated || old == r.OldObject && object == r.Object || same && r.Unchanged() ||
			object == nil && r.Object == nil || old == nil && r.OldObject == nil {
			q.made = append(q.made, r)
			continue
		}
		if r.Object != nil && r.Object != object { // the form of a first install
			q.variants = append(q.variants, policy.Request{Operation: policy.Create, Object: r.Object})
			if !r.Unchanged() {
				installed[" of "+r.Object.Unit.Identity()+" not updated: an upgrade of the release writes something else, or nothing"]++
			}
		}
		isVariant := object != r.Object && (old == nil || same) // object is created as a variant
		if !isVariant {
			update(old, object)
		}
		if r.OldObject != nil && (r.OldObject != old || isVariant) {
			q.old = append(q.old, policy.Request{Operation: policy.Create, Object: r.OldObject})
		}
	}
	for _, v := range slices.Concat(q.variants, q.old) { // of objects that no first install writes
		id := u.ids.Of(v.Object)
		if old, object := u.before[id], u.after[id]; old != nil && !seen[id] && !equal(old, object) {
			update(old, object)
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

// upgrades holds what upgrades of the releases of both sides write, if that is not what first installs write.
type upgrades struct {
	ids           policy.Identities
	before, after map[policy.Identity]*render.Object
	releases      map[string]bool // by identity of the unit
}

func upgradesOf(was, now *change.Side) *upgrades {
	u := &upgrades{ids: policy.NewIdentities(render.Objects(was.Units), render.Objects(now.Units)), releases: make(map[string]bool)}
	c, half := delivery.New(was.Units, now.Units), change.PartlyRendered(was, now)
	before, after := slices.Concat(render.Objects(was.Units), render.Variants(was.Units)), slices.Concat(render.Objects(now.Units), render.Variants(now.Units))
	for _, o := range slices.Concat(before, after) {
		if o.Variant.IsUpgrade() || slices.Contains(o.Assumed, render.WrittenOnce) {
			u.releases[o.Unit.Identity()] = c.IsUpgrade(o.Unit) && !half(o.Unit.Identity())
		}
	}
	u.before, u.after = u.forms(before), u.forms(after)
	return u
}

// forms returns those of objects that each upgrade writes.
func (u *upgrades) forms(objects []*render.Object) map[policy.Identity]*render.Object {
	forms := make(map[policy.Identity]*render.Object)
	for _, o := range objects {
		if u.has(o) && (o.Variant.IsDefault() || o.Variant.IsUpgrade()) && o.GetName() != "" && !slices.Contains(o.Assumed, render.WrittenOnce) {
			forms[u.ids.Of(o)] = o
		}
	}
	return forms
}

// has reports whether an object is of a release that is upgraded.
func (u *upgrades) has(o *render.Object) bool { return o.Unit != nil && u.releases[o.Unit.Identity()] }

// form returns what an upgrade writes in the place of an object, which is nil if a first install writes none. It
// returns an object of another unit as it is. id is that of the object on the other side, if o is nil.
func (u *upgrades) form(o *render.Object, id policy.Identity, forms map[policy.Identity]*render.Object) *render.Object {
	if o != nil && !u.has(o) {
		return o
	}
	if o != nil {
		id = u.ids.Of(o)
	}
	return forms[id]
}

func equal(a, b *render.Object) bool {
	return a == nil && b == nil || a != nil && b != nil && render.Equal(a.Object, b.Object)
}
