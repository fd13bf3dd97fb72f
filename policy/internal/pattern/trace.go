package pattern

import (
	"slices"
	"strconv"
	"strings"
)

// A Step records what a key of a pattern required of a value, and the result.
type Step struct {
	Place   string // JSON pointer into the pattern, as compiled
	Pointer string // JSON pointer into the value
	Anchor  Anchor // None also of an Addition
	Scalar  bool   // Wants is the scalar that the value is compared with
	Wants   any
	Value   any
	Found   bool // the key has a value
	Status  Status
	Depth   int // number of anchors around it
}

// Trace is Match with a trace: a step for each scalar and each anchor, in
// order, and for each value that is a scalar where the pattern has a map or
// list. Beyond limit steps those that hold are left out.
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

// Steps returns a step for each scalar and each anchor in the pattern, without
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

// A tracer records the steps of a matcher.
type tracer struct {
	limit   int
	places  map[*entry]string
	steps   []Step
	dropped map[int]bool
	depth   int
}

// place finds the pointer of every entry in the pattern.
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

// entry matches an entry, and records its step.
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

// scalar returns the scalar that a value is compared with, if there is one: the
// element, if the pattern is a list of one.
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
