package mutator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// findConflicts returns errors for mutators that disagree about the type of a
// field of one kind, such as an object and a list, or lists with different
// keys. A mutator whose location must end at a field also conflicts with those
// whose location continues below it. Gatekeeper applies none of them
// (gatekeeper/v3/pkg/mutation/schema). The errors are *render.Error values.
func findConflicts(all []*Mutator) []error {
	f := &conflictFinder{work: maxConflictWork}
	root := &schemaNode{}
	for _, m := range all {
		if m.Kind != "AssignMetadata" {
			root.add(m)
		}
	}
	f.visit(root)
	var errs []error
	if f.work == 0 {
		errs = append(errs, policy.ErrorAt(all[0].object, "", "mutator-conflict", errors.New("there are too many mutators to find conflicts among them")))
	}
	for _, m := range all {
		others := f.found[m]
		if len(others) == 0 {
			continue
		}
		m.conflicts = others
		errs = append(errs, policy.ErrorAt(m.object, "/spec/location", "mutator-conflict", fmt.Errorf("location %s implies another type for a field than %s: Gatekeeper applies none of them", m.location, m.conflictingNames())))
	}
	return errs
}

// maxOpponents bounds the conflicting mutators that are kept for each; messages name
// one less.
const maxOpponents = 4

// conflictingNames formats the names of the conflicting mutators.
func (m *Mutator) conflictingNames() string {
	var words []string
	for i, o := range m.conflicts {
		if i == maxOpponents-1 {
			words = append(words, "others")
			break
		}
		words = append(words, fmt.Sprintf("%s (%s, %s)", o.label(), policy.Shorten(o.location.String(), 200), o.object.Span("/spec/location")))
	}
	return strings.Join(words, " and ")
}

// A schemaNode is a node of the tree of all mutators' locations.
type schemaNode struct {
	fields map[string]*schemaField
}

// A schemaField is a field, or the key of a list's elements.
type schemaField struct {
	mutators []*Mutator // through or at it
	shapes   []shape    // the shape that each implies
	ends     []bool     // whether each ends here
	next     *schemaNode
}

func (s *schemaNode) add(m *Mutator) {
	for i, p := range m.location {
		if s.fields == nil {
			s.fields = map[string]*schemaField{}
		}
		key := p.name
		if p.list {
			key = "[" + p.name // keys of lists are their own
		}
		f := s.fields[key]
		if f == nil {
			f = &schemaField{next: &schemaNode{}}
			s.fields[key] = f
		}
		f.mutators = append(f.mutators, m)
		f.shapes = append(f.shapes, m.shapeAt(i))
		f.ends = append(f.ends, i == len(m.location)-1)
		s = f.next
	}
}

// shapeAt returns the shape that the location implies for its part at i.
func (m *Mutator) shapeAt(i int) shape {
	switch {
	case i == len(m.location)-1:
		return m.terminal
	case m.location[i+1].list:
		return shapeList
	}
	return shapeObject
}

// keyAt returns the key of the list's elements at part i of the location.
func (m *Mutator) keyAt(i int) string { return m.location[i+1].name }

// maxConflictWork is the most pairs of mutators that are compared.
const maxConflictWork = 4 << 20

type conflictFinder struct {
	found map[*Mutator][]*Mutator
	work  int
}

func (c *conflictFinder) visit(root *schemaNode) {
	c.found = map[*Mutator][]*Mutator{}
	type place struct {
		node  *schemaNode
		depth int
	}
	for open := []place{{root, 0}}; len(open) > 0; open = open[1:] {
		p := open[0]
		for _, key := range slices.Sorted(maps.Keys(p.node.fields)) {
			field := p.node.fields[key]
			c.field(field, p.depth)
			open = append(open, place{field.next, p.depth + 1})
		}
	}
}

// field compares the mutators that have the field in their locations, if they can
// disagree at all.
func (c *conflictFinder) field(field *schemaField, depth int) {
	if !field.hasConflict(depth) {
		return
	}
	for i, a := range field.mutators {
		for j := i + 1; j < len(field.mutators) && c.work > 0; j++ {
			b := field.mutators[j]
			if len(c.found[a]) == maxOpponents && len(c.found[b]) == maxOpponents {
				continue
			}
			if c.work--; field.typesDiffer(i, j, depth) && a.overlaps(b) {
				c.addConflict(a, b)
				c.addConflict(b, a)
			}
		}
	}
}

func (c *conflictFinder) addConflict(a, b *Mutator) {
	if len(c.found[a]) < maxOpponents && !slices.Contains(c.found[a], b) {
		c.found[a] = append(c.found[a], b)
	}
}

// hasConflict reports whether mutators disagree about the field.
func (s *schemaField) hasConflict(depth int) bool {
	for i := range s.mutators {
		if s.typesDiffer(0, i, depth) || s.mutators[i].terminates && s.ends[i] {
			return true
		}
		if s.shapes[0] == shapeUnknown && s.shapes[i] != shapeUnknown {
			return true // other mutators may give it another type
		}
	}
	return false
}

// typesDiffer reports whether two mutators imply different types of the field.
func (s *schemaField) typesDiffer(i, j, depth int) bool {
	a, b := s.mutators[i], s.mutators[j]
	x, y := s.shapes[i], s.shapes[j]
	switch {
	case x != shapeUnknown && y != shapeUnknown && x != y:
		return true
	case x == shapeList && y == shapeList:
		return a.keyAt(depth) != b.keyAt(depth)
	}
	return s.ends[i] && a.terminates && !s.ends[j] || s.ends[j] && b.terminates && !s.ends[i]
}

// overlaps reports whether both mutators apply to a common kind and operation.
func (m *Mutator) overlaps(o *Mutator) bool {
	for i := range m.appliesTo {
		for j := range o.appliesTo {
			if m.appliesTo[i].Meets(&o.appliesTo[j]) {
				return true
			}
		}
	}
	return false
}
