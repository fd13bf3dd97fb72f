package evaluate

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
)

// reviews holds the requests of a change and their cached results, divided by how they are
// evaluated.
type reviews struct {
	cache         *resultCache
	chain         policy.Chain // of the base's policies
	same, changed *part        // as the head applies objects
	variants      *part
	old           *part // requests that apply the base's version of changed objects
	oldVariants   *part
	passes        *policy.Passes // of what stays the same
}

// reviews finds the cached results of the requests of a change. The old objects of the requests are
// as written in the base; storeOld replaces them later. The results of what stays the same are put
// into held.
func (r *resultCache) reviews(held *policy.Compact, same, changed, variants, oldVariants []policy.Request) *reviews {
	return &reviews{
		cache: r, same: r.part("same", held, same), changed: r.part("changed", new(policy.Compact), changed), variants: r.part("variants", new(policy.Compact), variants),
		old: r.part("old", new(policy.Compact), policy.Reapplying(changed)), oldVariants: r.part("old variants", new(policy.Compact), oldVariants),
		passes: new(policy.Passes),
	}
}

// left returns the number of requests without cached results.
func (v *reviews) left() int {
	n := 0
	for _, p := range v.cache.parts {
		n += p.left()
	}
	return n
}

// forget forgets all cached results, and those of head.
func (v *reviews) forget() {
	v.passes = new(policy.Passes)
	for _, p := range v.cache.parts {
		clear(p.known)
		for _, g := range p.groups {
			g.known, g.results, g.passes = false, nil, nil
		}
	}
}

// requests returns the requests of the change.
func (v *reviews) requests() []policy.Request { return slices.Concat(v.same.reqs, v.changed.reqs) }

// stored returns the requests of the change, with old objects as they are after the base's mutating
// policies.
func (v *reviews) stored(ctx context.Context) ([]policy.Request, error) {
	err := v.changed.storeOld(ctx, v.chain, func(int) bool { return true })
	return v.requests(), err
}

// head returns the results of what stays the same, without the passes, and of what
// changes.
func (v *reviews) head(ctx context.Context) (kept []policy.CompactResults, fresh []policy.Result, err error) {
	before := make(map[int]bool) // requests whose old objects the base's results need
	n := 0
	for i := range v.changed.reqs {
		if r := &v.changed.reqs[i]; r.OldObject != nil && !r.Recreated {
			before[i] = !v.old.known[n]
			n++
		}
	}
	if err := v.changed.storeOld(ctx, v.chain, func(i int) bool { return !v.changed.known[i] || before[i] }); err != nil {
		return nil, nil, err
	}
	if fresh, err = v.changed.review(ctx, v.chain); err != nil {
		return nil, nil, err
	}
	only, err := v.variants.review(ctx, v.chain)
	if err != nil {
		return nil, nil, err
	}
	last := v.chain
	last.Forgets = true // the origins of unchanged units are seldom needed again
	kept, err = v.same.hold(ctx, last, v.passes)
	return kept, policy.WithoutRepeats(slices.Concat(fresh, only), v.same.held.Each(kept...)), err
}

// base returns the results for the base's version of changed objects. kept are the results for
// unchanged objects.
func (v *reviews) base(ctx context.Context, c policy.Chain, kept []policy.CompactResults) ([]policy.Result, error) {
	v.old.reqs = policy.Reapplying(v.changed.reqs)
	old, err := v.old.review(ctx, c)
	if err != nil {
		return nil, err
	}
	only, err := v.oldVariants.review(ctx, c)
	return policy.WithoutRepeats(slices.Concat(old, only), v.same.held.Each(kept...)), err
}

// covers reports whether there are valid recorded surroundings that include all of the kinds.
func (r *resultCache) covers(kinds []schema.GroupKind) bool {
	return r.around != nil && !slices.ContainsFunc(kinds, func(k schema.GroupKind) bool { return !slices.Contains(r.around.Kinds, k) })
}

// distrust forgets the recorded surroundings if the change touches objects that exempt others from
// policies. It reports whether it did. An exemption depends on everything that policies look up in
// a run. These kinds are taken from the surroundings and, if c is not nil, from the lookups in c.
func (r *resultCache) distrust(was, now *change.Side, c *policy.Cluster) bool {
	if r.around == nil {
		return false
	}
	kinds, _ := c.Asked()
	if c != nil && r.covers(kinds) { // nothing new since the check before the reviews
		return false
	}
	kinds = slices.Concat(kinds, r.around.Kinds)
	exempting, _ := change.Exempting(was, now, kinds)
	lookedUp, _ := change.LookedUp(was, now, kinds)
	if len(exempting)+len(lookedUp) == 0 {
		return false
	}
	r.around = nil
	return true
}
