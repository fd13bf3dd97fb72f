package cache

import (
	"io/fs"
	"slices"
	"sync"

	"github.com/preadmit/preadmit/render"
)

// claims caches how renderers claimed the directories of a tree. One entry
// holds all claims, since they are many and small.
type claims struct {
	options Options
	tree    *Tree
	kept    map[place]*claim

	mu    sync.Mutex
	now   map[place]*claim
	fresh bool // a claim has changed
}

type place struct{ kind, dir string }

// A claim is a renderer's claim to a directory, with the reads that it rests
// on.
type claim struct {
	render.Claim
	ok    bool
	reads []read
}

func (o Options) claims() Key { return KeyOf("claims", o.Build, o.Label) }

func readClaims(o Options, t *Tree) *claims {
	c := &claims{options: o, tree: t, kept: make(map[place]*claim), now: make(map[place]*claim)}
	data, _ := o.Store.Get(o.claims())
	if data == nil {
		return c
	}
	d := NewDecoder(data)
	for n := d.Uint(); n > 0 && d.Err() == nil; n-- {
		at := place{d.String(), d.String()}
		kept := &claim{ok: d.Bool()}
		if kept.ok {
			d.Plain(&kept.Claim)
		}
		kept.reads = d.reads()
		c.kept[at] = kept
	}
	if d.End() != nil {
		clear(c.kept)
	}
	return c
}

// save keeps the claims of this run.
func (c *claims) save() {
	if !c.fresh && len(c.now) == len(c.kept) {
		return
	}
	var e Encoder
	e.Uint(uint64(len(c.now)))
	for at, x := range c.now {
		e.String(at.kind)
		e.String(at.dir)
		e.Bool(x.ok)
		if x.ok {
			e.Plain(x.Claim)
		}
		e.reads(x.reads)
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
	c, at := d.claims, place{d.Kind(), dir}
	if kept := c.kept[at]; kept != nil && c.tree.holds(kept.reads) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now[at] = kept
		return kept.Claim, kept.ok
	}
	r := newRecorder(c.tree)
	made, ok := d.Renderer.Detect(r, dir)
	reads, told := r.reads()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fresh = true
	if told {
		c.now[at] = &claim{Claim: made, ok: ok, reads: reads}
	}
	return made, ok
}

// holds reports whether a tree answers as it is noted.
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
	var reads []read
	for n := d.Uint(); n > 0 && d.Err() == nil; n-- {
		reads = append(reads, read{access{op(d.Uint()), d.String()}, d.String()})
	}
	return reads
}
