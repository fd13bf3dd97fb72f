package render

import (
	"hash/maphash"
	"math/bits"
	"reflect"
	"slices"
	"sync"
)

// Parts makes units share the equal maps and lists of their objects, as a sharer does for one file.
// It is safe for concurrent use.
type Parts struct {
	mu      sync.Mutex
	objects int // that were shared
	sharer
}

// NewParts returns empty Parts.
func NewParts() *Parts { return &Parts{sharer: newSharer()} }

// maxParts bounds what is held, since most maps of a large run have no equal.
const maxParts = 1 << 16

// Share makes the objects of a unit, which nobody else holds yet, share parts with each
// other and with those of units before. p may be nil.
func (p *Parts) Share(u *Unit) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects += len(u.Objects) + len(u.Variants)
	for _, objects := range [][]*Object{u.Objects, u.Variants} {
		for _, o := range objects {
			if p.object(o); len(p.known) > maxParts {
				clear(p.known)
			}
		}
	}
}

// How many objects a run has before units forget their places as soon as they are
// rendered, so that places of all units are never held at once: manifests, which
// are rendered again in little time, and others.
const (
	manyObjects = 8 << 10
	mostObjects = 12 << 10
)

// forgetEarly reports whether a unit should forget its places until they are needed.
func (p *Parts) forgetEarly(u *Unit) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.objects > mostObjects || p.objects > manyObjects && u.Kind == "manifest"
}

// A sharer replaces equal maps and lists below objects by one of them. Objects of one
// file are often alike, and what they share takes memory once. The objects themselves
// and their metadata stay their own.
type sharer struct {
	seed  maphash.Seed
	known map[uint64]any
}

// share makes objects share their equal parts. No other goroutine may use them yet.
func share(objects []*Object) {
	if len(objects) < 2 {
		return
	}
	s := newSharer()
	for _, o := range objects {
		s.object(o)
	}
}

func newSharer() sharer { return sharer{seed: maphash.MakeSeed(), known: make(map[uint64]any)} }

func (s *sharer) object(o *Object) {
	for key, v := range o.Object {
		if meta, ok := v.(map[string]any); ok && key == "metadata" {
			s.parts(meta)
		} else if one, _ := s.one(v); !identical(one, v) {
			o.Object[key] = one
		}
	}
}

// one returns the value to use instead of v, which is equal to it, and a hash.
func (s *sharer) one(v any) (any, uint64) {
	var sum uint64
	switch x := v.(type) {
	case map[string]any:
		sum = s.parts(x) + 1
	case []any:
		sum = uint64(len(x)) + 2
		for i, e := range x {
			one, h := s.one(e)
			if !identical(one, e) {
				x[i] = one
			}
			sum = bits.RotateLeft64(sum, 5)*0x9e3779b97f4a7c15 + h
		}
	default:
		return v, maphash.Comparable(s.seed, v)
	}
	known, ok := s.known[sum]
	if !ok {
		s.known[sum] = v
		return v, sum
	}
	if alike(known, v) {
		return known, sum
	}
	return v, sum
}

// parts shares the values of a map and returns a hash of it.
func (s *sharer) parts(m map[string]any) uint64 {
	sum := uint64(len(m))
	for key, v := range m {
		one, h := s.one(v)
		if !identical(one, v) {
			m[key] = one
		}
		sum += (maphash.String(s.seed, key) ^ bits.RotateLeft64(h, 17)) * 0x9e3779b97f4a7c15
	}
	return sum
}

// alike reports whether maps or lists are equal whose parts are shared already.
func alike(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, v := range a {
			if w, ok := b[key]; !ok || !identical(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !identical(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return false
}

// identical reports whether two values are the same map or list, or equal scalars.
func identical(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// Forget frees the memory that finding the places of the unit's fields needs: the text of files and
// templates, and the positions in them. If a place is asked for later, the unit is rendered again.
// It does nothing unless the unit's Graph has set Forgets. It is safe for concurrent use.
func (u *Unit) Forget() {
	if u == nil || u.memory == nil {
		return
	}
	u.memory.mu.Lock()
	defer u.memory.mu.Unlock()
	u.memory.provenance = nil
}

// A memory holds the provenance of a unit's objects until it is forgotten.
type memory struct {
	again   func(variants bool) *Unit // renders the unit once more
	objects []*Object                 // those of the unit, followed by its variants
	plain   int                       // how many are the unit's own

	mu         sync.Mutex
	provenance []Provenance // of the objects and variants; empty if forgotten
}

// forgets makes the unit's objects look up their places in a memory, which Forget can free.
func (u *Unit) forgets(again func(variants bool) *Unit) {
	m := &memory{again: again, objects: slices.Concat(u.Objects, u.Variants), plain: len(u.Objects)}
	for i, o := range m.objects {
		m.provenance = append(m.provenance, o.Provenance)
		if o.Provenance != nil {
			o.Provenance = &remembered{m, i}
		}
	}
	u.memory = m
}

// get returns the provenance of object i. It is nil if the object that is rendered
// now is another one, because the tree has changed during the run.
func (m *memory) get(i int) Provenance {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i >= len(m.provenance) { // variants are rendered again only if their places are needed
		u := m.again(i >= m.plain)
		again := slices.Concat(u.Objects, u.Variants)
		m.provenance = make([]Provenance, len(m.objects))
		if i < m.plain {
			m.provenance = m.provenance[:m.plain]
		}
		for i := range min(len(m.provenance), len(again)) {
			if reflect.DeepEqual(m.objects[i].Object, again[i].Object) {
				m.provenance[i] = again[i].Provenance
			}
		}
	}
	return m.provenance[i]
}

// remembered is the Provenance of one object of a memory.
type remembered struct {
	memory *memory
	index  int
}

func (r *remembered) object() *Object { return &Object{Provenance: r.memory.get(r.index)} }

// At implements Provenance.
func (r *remembered) At(pointer string) []Origin { return r.object().At(pointer) }

// Line is called by [Object.Line].
func (r *remembered) Line(pointer string, n int) []Origin { return r.object().Line(pointer, n) }

// Part is called by [Object.Part].
func (r *remembered) Part(pointer, part string) []Origin { return r.object().Part(pointer, part) }

// Inside is called by [Object.Inside].
func (r *remembered) Inside(pointer, text string, n int) (Span, bool) {
	return r.object().Inside(pointer, text, n)
}
