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
