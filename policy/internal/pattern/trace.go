package pattern

import (
	"slices"
	"strconv"
	"strings"
)

// A Step is what a key of a pattern asked of a value, and what came of it.
type Step struct {
	Place   string // JSON pointer into the pattern, as compiled
	Pointer string // JSON pointer into the value
	Anchor  Anchor // None also of an Addition
	Scalar  bool   // Wants is what the value is compared with
	Wants   any
	Value   any
	Found   bool // something stands at the key
	Status  Status
	Depth   int // anchors that it stands in
}

// Trace is Match, and tells the way: a step for each scalar and each anchor
// that was looked at, in order, and for what is neither map nor list where the
// pattern has one. Beyond so many steps those that hold are left out.
func (p *Pattern) Trace(value any, limit int) (Verdict, []Step) {
	t := &tracer{limit: limit, places: map[*entry]string{}}
	t.place(p.root, "")
	v := p.match(value, t)
	kept := t.steps[:0]
	for i, s := range t.steps {
		if !t.dropped[i] {
			kept = append(kept, s)
		}
	}
	return v, kept
}

// Steps are what the pattern may ask: a step for each scalar and each anchor, without
// values.
func (p *Pattern) Steps() []Step {
	t := &tracer{places: map[*entry]string{}}
	t.place(p.root, "")
	var all []Step
	for e, place := range t.places {
		s := Step{Place: place}
		s.Wants, s.Scalar = e.scalar()
		if e.anchor != Addition {
			s.Anchor = e.anchor
		}
		if s.Scalar || s.Anchor != None {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Step) int { return strings.Compare(a.Place, b.Place) })
	return all
}

// A tracer notes the steps of a matcher.
type tracer struct {
	limit   int
	places  map[*entry]string
	steps   []Step
	dropped map[int]bool
	depth   int
}

// place finds where in the pattern every entry stands.
func (t *tracer) place(n *node, at string) {
	for i, e := range n.list {
		t.place(e, at+"/"+strconv.Itoa(i))
	}
	for _, entries := range [][]entry{n.anchors, n.rest} {
		for i := range entries {
			e := &entries[i]
			t.places[e] = at + pointerTo(segment{key: e.raw, index: -1})
			t.place(e.value, t.places[e])
		}
	}
}

// entry matches an entry, and notes what is to be told of it.
func (t *tracer) entry(m *matcher, v any, found bool, e *entry) *failure {
	i := len(t.steps)
	s := Step{Place: t.places[e], Pointer: m.pointer(), Value: v, Found: found, Depth: t.depth}
	s.Wants, s.Scalar = e.scalar()
	anchored := e.anchor != None && e.anchor != Addition
	if anchored {
		s.Anchor = e.anchor
		t.depth++
		defer func() { t.depth-- }()
	}
	t.steps = append(t.steps, s)
	f := m.matchAnchored(v, found, e)
	if f != nil {
		t.steps[i].Status = f.status
	}
	switch {
	case len(t.steps) > t.limit && (f == nil || f.status == Skip):
		t.truncate(i)
	case !s.Scalar && !anchored && (f == nil || len(t.steps) > i+1):
		t.drop(i)
	}
	return f
}

func (t *tracer) truncate(i int) {
	for j := range t.dropped {
		if j >= i {
			delete(t.dropped, j)
		}
	}
	t.steps = t.steps[:i]
}

func (t *tracer) drop(i int) {
	if i == len(t.steps)-1 {
		t.truncate(i)
		return
	}
	if t.dropped == nil {
		t.dropped = map[int]bool{}
	}
	t.dropped[i] = true
}

// scalar is what a value is compared with, where it is one: the elements of a
// list, if the pattern is a list of one.
func (e *entry) scalar() (any, bool) {
	n := e.value
	if n.kind == listNode && e.anchor != Existence && len(n.list) > 0 {
		n = n.list[0]
	}
	if n.kind != scalarNode {
		return nil, false
	}
	return n.leaf.pattern, true
}
