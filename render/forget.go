package render

import (
	"reflect"
	"slices"
	"sync"
)

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
	again   func() *Unit // renders the unit once more
	objects []*Object    // and variants

	mu         sync.Mutex
	provenance []Provenance // of the objects and variants; nil if forgotten
}

// forgets makes the unit's objects look up their places in a memory, which Forget can free.
func (u *Unit) forgets(again func() *Unit) {
	m := &memory{again: again, objects: slices.Concat(u.Objects, u.Variants)}
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
	if m.provenance == nil {
		u := m.again()
		again := slices.Concat(u.Objects, u.Variants)
		m.provenance = make([]Provenance, len(m.objects))
		for i := range min(len(m.objects), len(again)) {
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
