// Package reads describes the parts of an object that a policy reads, and keeps verdicts
// on objects by those parts. Packages that know a language (cel, jmespath, pattern) say
// what its expressions read; engines ask for the verdicts.
package reads

import (
	"maps"
	"slices"
)

// A Part is a place of an object, or of each element of a list there. Whether its
// value exists, the value's type, whether it is empty and the length of a list always
// count as read.
type Part struct {
	Fields   map[string]*Part
	Names    []string // of Fields, sorted, once the Part is sealed
	Elements *Part    // nil if none is read
	All      bool     // the whole value is read
	Lists    bool     // the whole value is read if it is a list
	Others   bool     // the whole value is read if it is no list
	Keys     bool     // the names of all fields of a map are read
	Few      bool     // a list with many elements is read in a way that no Part describes
}

// Field returns the part at a key of a map.
func (p *Part) Field(name string) *Part {
	if p.Fields[name] == nil {
		if p.Fields == nil {
			p.Fields = map[string]*Part{}
		}
		p.Fields[name] = &Part{}
	}
	return p.Fields[name]
}

// Each returns the part for the elements of a list.
func (p *Part) Each() *Part {
	if p.Elements == nil {
		p.Elements = &Part{}
	}
	return p.Elements
}

// Seal sorts the names of fields. No more may be added.
func (p *Part) Seal() {
	p.Names = slices.Sorted(maps.Keys(p.Fields))
	for _, f := range p.Fields {
		f.Seal()
	}
	if p.Elements != nil {
		p.Elements.Seal()
	}
}

// A Flow describes the possible values of an expression: parts of the object, or a list
// that the expression makes of them. The zero Flow is a value that shares nothing with
// the object. Texts and Other are set where constants matter: for CEL, whose indexes may
// name a field.
type Flow struct {
	Parts    []*Part
	Elements *Flow    // of a list that is made
	Texts    []string // constants
	Other    bool     // any other value that is computed
}

// Or returns the flow of either value.
func (f Flow) Or(g Flow) Flow {
	joined := Flow{Parts: Union(f.Parts, g.Parts), Texts: Union(f.Texts, g.Texts), Elements: f.Elements, Other: f.Other || g.Other}
	switch {
	case joined.Elements == nil:
		joined.Elements = g.Elements
	case g.Elements != nil && g.Elements != joined.Elements:
		both := joined.Elements.Or(*g.Elements)
		joined.Elements = &both
	}
	return joined
}

// Union returns the elements of a and those of b that are not in a.
func Union[T comparable](a, b []T) []T {
	joined := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(joined, x) {
			joined = append(joined, x)
		}
	}
	return joined
}

// Consume records that the value is read whole.
func (f Flow) Consume() {
	for _, p := range f.Parts {
		p.All = true
	}
	if f.Elements != nil {
		f.Elements.Consume()
	}
}

// Named records that the names of the value's fields are read if it is a map.
func (f Flow) Named() {
	for _, p := range f.Parts {
		p.Keys = true
	}
}

// Field returns the flow of the value's field.
func (f Flow) Field(name string) Flow {
	var e Flow
	for _, p := range f.Parts {
		e.Parts = append(e.Parts, p.Field(name))
	}
	return e
}

// Items returns the flow of the elements if the value is a list.
func (f Flow) Items() Flow {
	var e Flow
	for _, p := range f.Parts {
		e.Parts = append(e.Parts, p.Each())
	}
	if f.Elements != nil {
		e = e.Or(*f.Elements)
	}
	return e
}
