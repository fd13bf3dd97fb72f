package evaluate

import (
	"cmp"
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/delivery"
)

// requests holds the requests of a change, and those that create what it does not send: other variants of the
// head, and what only installations of the base have.
type requests struct{ made, variants, old []policy.Request }

// requestsOf returns the requests of a change between two sides. If Helm upgrades a release, its other runs, such as a
// first install elsewhere, are no part of the change. What only they send is created, and compared with what they send at
// the base.
func requestsOf(was, now *change.Side) *requests {
	c, upgraded, sent := delivery.New(was.Units, now.Units), make(map[*render.Unit]bool), make(map[*render.Object]bool)
	written := func(u *render.Unit) []*render.Object {
		objects, upgrade := c.Written(u)
		if upgraded[u] = upgrade; upgrade || len(objects) > len(u.Objects) {
			for _, o := range objects {
				sent[o] = true
			}
		}
		return objects
	}
	q := &requests{made: policy.Requests(change.Comparable(was, now, written))}
	for i := range q.made {
		if upgraded[q.made[i].Subject().Unit] {
			q.made[i].Run = policy.UpgradeRun
		}
	}
	var first, variants, before, old []*render.Object // of the head and of the base
	ids, once := policy.NewIdentities(render.Objects(was.Units), render.Objects(now.Units)), make(map[policy.Identity]bool)
	for _, u := range was.Units {
		for _, o := range u.Objects {
			if upgraded[u] {
				before = append(before, o)
				once[ids.Of(o)] = once[ids.Of(o)] || !sent[o] // only first installs wrote it so
			}
		}
		old = append(old, u.Variants...)
	}
	for _, u := range now.Units {
		for _, o := range u.Objects {
			if upgraded[u] && (!sent[o] || once[ids.Of(o)]) {
				first = append(first, o)
			}
		}
		variants = append(variants, u.Variants...)
	}
	isSent := func(o *render.Object) bool { return sent[o] }
	q.variants = policy.Creating(slices.DeleteFunc(variants, isSent))
	old = slices.DeleteFunc(append(old, before...), isSent)
	again := q.createAgain(old)
	for _, r := range policy.Requests(before, first) {
		if r.Object != nil {
			r = policy.Request{Operation: policy.Create, Object: r.Object, Instead: cmp.Or(r.OldObject, r.Instead), Run: policy.OtherRun}
			q.made, again[r.Instead] = append(q.made, r), true
		}
	}
	q.old = policy.Creating(slices.DeleteFunc(old, func(o *render.Object) bool { return again[o] }))
	if len(first) > 0 { // a unit may forget its places after the requests about it, which must be together
		order := make(map[*render.Unit]int)
		for i, u := range now.Units {
			order[u] = i
		}
		at := func(r policy.Request) int {
			if r.Object == nil {
				return len(order)
			}
			return order[r.Object.Unit]
		}
		slices.SortStableFunc(q.made, func(a, b policy.Request) int { return cmp.Compare(at(a), at(b)) })
	}
	return q
}

// createAgain sets Instead for each request that creates one of the old objects, and returns those objects. They are not
// on the cluster, so the request stays a CREATE, but failures that the base has too are not new.
func (q *requests) createAgain(old []*render.Object) (again map[*render.Object]bool) {
	again = make(map[*render.Object]bool)
	if len(old) == 0 {
		return again
	}
	created, ids := make(map[policy.Identity]*policy.Request), policy.NewIdentities(old)
	for i := range q.made {
		if r := &q.made[i]; r.Operation == policy.Create && r.Instead == nil {
			created[ids.Of(r.Object)] = r
		}
	}
	for _, o := range old {
		if r := created[ids.Of(o)]; r != nil {
			r.Instead, again[o] = o, true
		}
	}
	return again
}
