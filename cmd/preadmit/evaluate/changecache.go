package evaluate

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
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
	v := &reviews{
		cache: r, same: r.part("same", held, same), changed: r.part("changed", new(policy.Compact), changed), variants: r.part("variants", new(policy.Compact), variants),
		old: r.part("old", new(policy.Compact), policy.Reapplying(changed)), oldVariants: r.part("old variants", new(policy.Compact), oldVariants),
		passes: new(policy.Passes),
	}
	r.changes = v.parts()
	return v
}

func (v *reviews) parts() []*part {
	return []*part{v.same, v.changed, v.variants, v.old, v.oldVariants}
}

// left returns the number of requests without cached results.
func (v *reviews) left() int {
	n := 0
	for _, p := range v.parts() {
		n += p.left()
	}
	return n
}

// left returns the number of requests without cached results.
func (p *part) left() int {
	n := 0
	for _, known := range p.known {
		if !known {
			n++
		}
	}
	return n
}

// forget forgets all cached results, and those of head.
func (v *reviews) forget() {
	v.passes = new(policy.Passes)
	for _, p := range v.parts() {
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

// A part holds requests of a change that are evaluated together, and their cached results.
//
// The requests about a unit share a cache entry. Its key contains the key of the resultCache and
// everything that determines the requests: operations, users, and the units of the new and old
// objects. The old object of a request is the base's object after the base's mutating policies, so
// it depends on nothing else.
type part struct {
	cache  *resultCache
	name   string
	held   *policy.Compact // holds the results
	reqs   []policy.Request
	groups []*requestGroup
	known  []bool // for each request: its results are cached
	stored []bool // for each request: its old object is mutated
}

// A requestGroup holds the requests of a part about one unit.
type requestGroup struct {
	requests []int32
	units    []*render.Unit        // units of both sides that the requests depend on
	text     string                // everything else that determines the requests; "" if unknown
	known    bool                  // there are cached results
	from     cache.Key             // of these
	results  policy.CompactResults // these, without the passes
	passes   *policy.Passes
	learned  []byte // new results, encoded
}

// part returns a part with the given requests and their cached results.
func (r *resultCache) part(name string, held *policy.Compact, reqs []policy.Request) *part {
	p := &part{cache: r, name: name, held: held, reqs: reqs, known: make([]bool, len(reqs)), stored: make([]bool, len(reqs))}
	if r.off {
		return p
	}
	byUnit := make(map[*render.Unit]*requestGroup)
	for i := range reqs {
		u := reqs[i].Subject().Unit
		g := byUnit[u]
		if g == nil {
			g = new(requestGroup)
			byUnit[u] = g
			p.groups = append(p.groups, g)
		}
		g.requests = append(g.requests, int32(i))
	}
	for _, g := range p.groups {
		p.describe(g)
		if r.around != nil {
			p.recall(g, r.aroundSum)
		}
	}
	return p
}

// describe sets the units and the text of a group.
func (p *part) describe(g *requestGroup) {
	numbers := make(map[*render.Unit]int)
	var e cache.Encoder
	known := true
	place := func(o *render.Object) {
		if o == nil {
			e.Uint(0)
			return
		}
		n, seen := numbers[o.Unit]
		if !seen {
			n = len(numbers)
			numbers[o.Unit] = n
			g.units = append(g.units, o.Unit)
		}
		at, ok := p.cache.position(o)
		known = known && ok
		e.Uint(uint64(n) + 1)
		e.Uint(uint64(at))
	}
	for _, i := range g.requests {
		r := &p.reqs[i]
		e.String(string(r.Operation))
		e.Plain(r.UserInfo)
		place(r.Object)
		place(r.OldObject)
		place(r.Instead)
	}
	if data, err := e.Data(); known && err == nil {
		g.text = string(data)
	}
}

// position returns the number of an object among those of its unit.
func (r *resultCache) position(o *render.Object) (n int, ok bool) {
	u := o.Unit
	if u == nil {
		return 0, false
	}
	in := r.positions[u]
	if in == nil {
		in = make(map[*render.Object]int, len(u.Objects)+len(u.Variants))
		for i, x := range slices.Concat(u.Objects, u.Variants) {
			in[x] = i
		}
		r.positions[u] = in
	}
	n, ok = in[o]
	return n, ok
}

// key returns the key of the results of a group. ok is false if they are not cached.
func (p *part) key(g *requestGroup, around string) (key cache.Key, ok bool) {
	if g.text == "" {
		return key, false
	}
	parts := []string{"change", p.name, p.cache.key, around, g.text}
	for _, u := range g.units {
		id, ok := p.cache.id(u)
		if !ok {
			return key, false
		}
		parts = append(parts, string(id[:]), u.Identity(), u.Cluster, u.User, u.Namespace)
	}
	return cache.KeyOf(parts...), true
}

// recall loads the cached results of a group, if there are any.
func (p *part) recall(g *requestGroup, around string) {
	key, ok := p.key(g, around)
	if !ok {
		return
	}
	data, ok := p.cache.memory.Store.Get(key)
	if !ok {
		return
	}
	var kept unitResults
	d := cache.NewDecoder(data)
	if d.Plain(&kept); d.End() != nil {
		return
	}
	passes, ok := kept.Passes.Unpack()
	if !ok {
		return
	}
	g.results, g.passes, g.known, g.from = p.held.Add(kept.Results), passes, true, key
	for _, i := range g.requests {
		p.known[i] = true
	}
}

// storeOld applies the base's mutating policies to the old objects of the requests for which need
// returns true, once to each.
func (p *part) storeOld(ctx context.Context, c policy.Chain, need func(i int) bool) error {
	var at []int
	var reqs []policy.Request
	for i := range p.reqs {
		if !p.stored[i] && need(i) {
			p.stored[i] = true
			at, reqs = append(at, i), append(reqs, p.reqs[i])
		}
	}
	err := c.StoreOld(ctx, reqs)
	for k, i := range at {
		p.reqs[i] = reqs[k]
	}
	return err
}

// review evaluates the requests without cached results and returns the results of all requests. With an
// error it returns the results so far.
func (p *part) review(ctx context.Context, c policy.Chain) ([]policy.Result, error) {
	parts, err := p.evaluate(ctx, c)
	var all []policy.Result
	if p.groups == nil { // without a cache
		for i := range parts {
			all = p.held.Append(all, parts[i])
		}
	}
	for _, g := range p.groups {
		if g.known {
			all = g.passes.AppendTo(p.held.Append(all, g.results))
			continue
		}
		first := len(all)
		for _, i := range g.requests {
			all = p.held.Append(all, parts[i])
		}
		if err == nil {
			passes := new(policy.Passes)
			p.learn(g, passes.Take(slices.Clone(all[first:])), passes)
		}
	}
	policy.Sort(all)
	return all, err
}

// hold is review with the results as p.held has them, and without passes. It adds these to passes unless
// that is nil. No two groups may have units of one identity.
func (p *part) hold(ctx context.Context, c policy.Chain, passes *policy.Passes) ([]policy.CompactResults, error) {
	fresh := new(policy.Passes) // a separate list, because a review that does not end in time may still add to it
	c.Passes = fresh
	parts, err := p.evaluate(ctx, c)
	var passed map[string]*policy.Passes
	if passes != nil && err == nil {
		passed = fresh.By(func(k render.Key) string { return k.Unit })
	}
	for _, g := range p.groups {
		switch {
		case g.known:
			parts = append(parts, g.results)
			passes.Join(g.passes)
		case err == nil:
			var own []policy.Result
			for _, i := range g.requests {
				own = p.held.Append(own, parts[i])
			}
			p.learn(g, own, passed[p.reqs[g.requests[0]].Subject().Key().Unit])
		}
	}
	passes.Join(fresh)
	return parts, err
}

// evaluate evaluates the requests without cached results, and returns the results by
// request.
func (p *part) evaluate(ctx context.Context, c policy.Chain) ([]policy.CompactResults, error) {
	const enough = 512 // requests at a time; those of a unit are kept together, because the unit's origins may be dropped after them
	all := make([]policy.CompactResults, len(p.reqs))
	var at []int
	var reqs []policy.Request
	flush := func() error {
		results, err := c.ReviewEach(ctx, reqs, p.held)
		for k, i := range at {
			all[i] = results[k]
		}
		at, reqs = at[:0], reqs[:0]
		return err
	}
	for i := range p.reqs {
		if p.known[i] {
			continue
		}
		if n := len(reqs); n >= enough && reqs[n-1].Subject().Unit != p.reqs[i].Subject().Unit {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		at, reqs = append(at, i), append(reqs, p.reqs[i])
	}
	if len(reqs) == 0 {
		return all, nil
	}
	return all, flush()
}

// learn sorts the results of a group and encodes them for the cache, unless another run could find
// other results.
func (p *part) learn(g *requestGroup, results []policy.Result, passes *policy.Passes) {
	if g.text == "" || slices.ContainsFunc(results, isFault) {
		return
	}
	policy.Sort(results)
	var e cache.Encoder
	e.Plain(unitResults{results, passes.Pack()})
	if data, err := e.Data(); err == nil {
		g.learned = data
	}
}

// keep stores the results of the part under the sum of the surroundings, unless they are stored
// already.
func (p *part) keep(around string) {
	for _, g := range p.groups {
		key, ok := p.key(g, around)
		if !ok || g.known && key == g.from {
			continue
		}
		data := g.learned
		if g.known {
			data, _ = p.cache.memory.Store.Get(g.from)
		}
		if data != nil {
			p.cache.memory.Store.Put(key, data)
		}
	}
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
