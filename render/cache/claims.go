package cache

import (
	"io/fs"
	"slices"
	"sync"

	"github.com/preadmit/preadmit/render"
)

// claims caches the renderers' claims to directories of a tree. One entry contains all claims,
// because there are many and they are small.
type claims struct {
	options Options
	tree    *Tree
	other   *claims                    // of the other side of a change, whose discovery is complete
	kept    func() map[string][]*claim // of the last run, or from the store, by directory

	mu    sync.Mutex
	now   map[string][]*claim // the claims that the other side does not have
	fresh bool                // some of them are not in the store
}

// A claim is a renderer's claim to a directory, with the reads that it depends on.
type claim struct {
	render.Claim
	kind  string // of the renderer
	ok    bool
	reads []read
}

func (o Options) claims() Key { return KeyOf("claims", o.Build, o.Label) }

func newClaims(o Options, t *Tree) *claims {
	c := &claims{options: o, tree: t, now: make(map[string][]*claim)}
	c.options.Other, c.options.Last = nil, nil // they would keep all earlier runs in memory
	if o.Other != nil {
		c.other = o.Other.claims
	}
	c.kept = sync.OnceValue(func() map[string][]*claim { return storedClaims(c.options) })
	if o.Last != nil {
		last := o.Last.claims.now
		c.kept = func() map[string][]*claim { return last }
	}
	return c
}

// storedClaims returns the claims in the store, by directory.
func storedClaims(o Options) map[string][]*claim {
	data, ok := o.Store.Get(o.claims())
	if !ok {
		return nil
	}
	d := NewDecoder(data)
	dirs := d.Uint()
	all := make(map[string][]*claim, min(dirs, uint64(len(data))))
	for ; dirs > 0 && d.Err() == nil; dirs-- {
		dir := d.String()
		n, _ := d.length()
		claims := make([]claim, n)
		for i := range claims {
			x := &claims[i]
			x.kind, x.ok = d.String(), d.Bool()
			if x.ok {
				d.Plain(&x.Claim)
			}
			x.reads = d.reads()
			all[dir] = append(all[dir], x)
		}
	}
	if d.End() != nil {
		return nil
	}
	return all
}

// save stores the claims of this run.
func (c *claims) save() {
	if !c.fresh && (c.other != nil || len(c.now) == len(c.kept())) {
		return
	}
	var e Encoder
	e.Uint(uint64(len(c.now)))
	for dir, claims := range c.now {
		e.String(dir)
		e.length(len(claims), false)
		for _, x := range claims {
			e.String(x.kind)
			e.Bool(x.ok)
			if x.ok {
				e.Plain(x.Claim)
			}
			e.reads(x.reads)
		}
	}
	if data, err := e.Data(); err == nil {
		c.options.Store.Put(c.options.claims(), data)
	}
}

// A detector is a renderer that caches its claims.
type detector struct {
	render.Renderer
	claims *claims
}

// Detect implements render.Renderer.
func (d detector) Detect(_ fs.FS, dir string) (render.Claim, bool) {
	c, kind := d.claims, d.Kind()
	if c.other != nil {
		if known := c.other.of(dir, kind); known != nil && c.tree.holds(known.reads) {
			return known.Claim, known.ok
		}
	}
	if known := find(c.kept()[dir], kind); known != nil && c.tree.holds(known.reads) {
		c.add(dir, known, false)
		return known.Claim, known.ok
	}
	r := newRecorder(c.tree)
	made, ok := d.Renderer.Detect(r, dir)
	if reads, whole := r.reads(); whole {
		c.add(dir, &claim{made, kind, ok, reads}, true)
	}
	return made, ok
}

// of returns the claim of a renderer of a kind in this run, or nil.
func (c *claims) of(dir, kind string) *claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return find(c.now[dir], kind)
}

// find returns the claim of a renderer of a kind, or nil.
func find(claims []*claim, kind string) *claim {
	i := slices.IndexFunc(claims, func(c *claim) bool { return c.kind == kind })
	if i < 0 {
		return nil
	}
	return claims[i]
}

func (c *claims) add(dir string, x *claim, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now[dir] = append(slices.DeleteFunc(c.now[dir], func(was *claim) bool { return was.kind == x.kind }), x)
	c.fresh = c.fresh || fresh
}

// holds reports whether reads still have the recorded outcomes.
func (t *Tree) holds(reads []read) bool {
	return !slices.ContainsFunc(reads, func(r read) bool { return t.outcome(r.access) != r.outcome })
}

func (e *Encoder) reads(reads []read) {
	e.Uint(uint64(len(reads)))
	for _, r := range reads {
		e.Uint(uint64(r.op))
		e.String(r.name)
		e.String(r.outcome)
	}
}

func (d *Decoder) reads() []read {
	n := d.Uint()
	const least = 3 // bytes of a read
	reads := make([]read, 0, min(n, uint64(len(d.data)/least)))
	for ; n > 0 && d.Err() == nil; n-- {
		reads = append(reads, read{access{op(d.Uint()), d.String()}, d.String()})
	}
	return reads
}
