package jmespath

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxPointers bounds the pointers of a trace, maxPlaces the places that it visits.
const (
	maxPointers = 256
	maxPlaces   = 16 << 10
)

// A place is where a value is in the data, or the places of the values that it was
// computed from. It is nil for a value that does not depend on the data, such as a
// literal.
type place struct {
	in     *place // nil for the root
	step   string // the key or index in it
	inData bool   // false: computed
	// Of a computed value: the places of its elements and fields, as far as known.
	elements []*place
	fields   map[string]*place
	// from lists further places that decided the value.
	from []*place
}

func derivedPlace(from ...*place) *place {
	var p *place
	for _, f := range from {
		if f != nil {
			if p == nil {
				p = &place{}
			}
			p.from = append(p.from, f)
		}
	}
	return p
}

// field returns the place of a key of the value that is, or would be, at p.
func (p *place) field(key string) *place {
	switch {
	case p == nil:
		return nil
	case p.inData:
		return &place{in: p, step: key, inData: true}
	case p.fields[key] != nil:
		return p.fields[key]
	}
	return p
}

// element returns the place of the element at an index, not negative.
func (p *place) element(i int) *place {
	switch {
	case p == nil:
		return nil
	case p.inData:
		return &place{in: p, step: strconv.Itoa(i), inData: true}
	case i < len(p.elements) && p.elements[i] != nil:
		return p.elements[i]
	}
	return p
}

// and returns p with further places that decided the value.
func (p *place) and(others ...*place) *place {
	others = slices.DeleteFunc(others, func(o *place) bool { return o == nil })
	switch {
	case len(others) == 0:
		return p
	case p == nil && len(others) == 1:
		return others[0]
	case p == nil:
		return &place{from: others}
	}
	with := *p
	with.from = append(slices.Clone(p.from), others...)
	return &with
}

// pointer returns the JSON pointer of a place in the data.
func (p *place) pointer() string {
	var steps []string
	for at := p; at.in != nil; at = at.in {
		steps = append(steps, at.step)
	}
	var b strings.Builder
	for _, s := range slices.Backward(steps) {
		b.WriteByte('/')
		b.WriteString(escape(s))
	}
	return b.String()
}

func escape(step string) string {
	if !strings.ContainsAny(step, "~/") {
		return step
	}
	return strings.ReplaceAll(strings.ReplaceAll(step, "~", "~0"), "/", "~1")
}

// pointers returns the pointers of the data from which the value at p comes, the
// deciding one first, without repetitions, at most maxPointers.
func (p *place) pointers() []string {
	c := collector{seen: map[string]bool{}}
	c.add(p)
	return c.pointers
}

type collector struct {
	pointers []string
	seen     map[string]bool
	looked   int
}

func (c *collector) add(p *place) {
	if c.looked++; p == nil || len(c.pointers) >= maxPointers || c.looked > maxPlaces {
		return
	}
	if p.inData {
		if s := p.pointer(); !c.seen[s] {
			c.seen[s] = true
			c.pointers = append(c.pointers, s)
		}
	}
	for _, e := range p.elements {
		c.add(e)
	}
	for _, key := range slices.Sorted(maps.Keys(p.fields)) {
		c.add(p.fields[key])
	}
	for _, f := range p.from {
		c.add(f)
	}
}

// visit calls f with n and the nodes below it, and whether they are evaluated
// against the root.
func visit(n node, atRoot bool, f func(n node, atRoot bool)) {
	f(n, atRoot)
	for _, p := range parts(n) {
		visit(p.node, atRoot && !p.inner, f)
	}
}

// A part is a node below another one. It is inner if it is not evaluated against the
// same value as its parent.
type part struct {
	node  node
	inner bool
}

func parts(n node) []part {
	switch n := n.(type) {
	case *chain:
		return []part{{n.left, false}, {n.right, !isHere(n.left)}}
	case *stages:
		return []part{{n.left, false}, {n.right, !isHere(n.left)}}
	case *element:
		return []part{{n.of, false}}
	case *slice:
		return []part{{n.of, false}}
	case *projection:
		p := []part{{n.of, false}, {n.each, true}}
		if n.when != nil {
			p = append(p, part{n.when, true})
		}
		return p
	case *values:
		return []part{{n.of, false}, {n.each, true}}
	case *either:
		return []part{{n.left, false}, {n.right, false}}
	case *both:
		return []part{{n.left, false}, {n.right, false}}
	case *comparison:
		return []part{{n.left, false}, {n.right, false}}
	case *negation:
		return []part{{n.of, false}}
	case *reference:
		return []part{{n.of, true}}
	case *multiList:
		return same(n.members)
	case *multiHash:
		return same(n.members)
	case *call:
		return same(n.args)
	}
	return nil
}

func same(nodes []node) []part {
	parts := make([]part, len(nodes))
	for i, n := range nodes {
		parts[i] = part{node: n}
	}
	return parts
}

func isHere(n node) bool {
	_, ok := n.(here)
	return ok
}

// readsData reports whether a node's value depends on the data.
func readsData(n node) bool {
	reads := false
	visit(n, true, func(n node, atRoot bool) {
		switch n.(type) {
		case *field, here:
			reads = reads || atRoot
		}
	})
	return reads
}

// makesContainers reports whether a node can make lists or maps that contain a value more than
// once.
func makesContainers(n node) bool {
	found := false
	visit(n, true, func(n node, _ bool) {
		switch n.(type) {
		case *multiList, *multiHash, *call:
			found = true
		}
	})
	return found
}

// plainPath returns the fields of a.b.c; nil if n has another form.
func plainPath(n node) []*field {
	switch n := n.(type) {
	case *field:
		return []*field{n}
	case *chain:
		if left, right := plainPath(n.left), plainPath(n.right); left != nil && right != nil {
			return append(left, right...)
		}
	}
	return nil
}
