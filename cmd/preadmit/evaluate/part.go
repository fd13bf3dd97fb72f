package evaluate

import (
	"context"
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
)

// A part holds requests of a run that are evaluated together, and their cached results.
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
	r.parts = append(r.parts, p)
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
		e.Uint(uint64(r.Method))
		e.Uint(uint64(r.Run))
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
