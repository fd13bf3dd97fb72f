package jmespath

import (
	"maps"
	"slices"
)

// Whole among [Expression.Roots] means all of the root.
const Whole = "@"

// Roots are the names of the root that the expression reads, sorted; "@" among
// them stands for the whole root.
func (e *Expression) Roots() []string {
	names := map[string]bool{}
	visit(e.root, true, func(n node, atRoot bool) {
		switch n := n.(type) {
		case *field:
			if atRoot {
				names[n.name] = true
			}
		case here:
			if atRoot {
				names[Whole] = true
			}
		}
	})
	return slices.Sorted(maps.Keys(names))
}

// visit calls f with n and the nodes below it, and whether they are evaluated
// against the root.
func visit(n node, atRoot bool, f func(n node, atRoot bool)) {
	f(n, atRoot)
	for _, p := range parts(n) {
		visit(p.node, atRoot && !p.inner, f)
	}
}

// A part is a node below another; inner, if it is evaluated against something
// else than the node above it is.
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

// readsData reports whether a node's value has to do with the data, and not only
// with what the expression itself says.
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

// makes reports whether a node can make lists or maps that hold a value more than
// once.
func makes(n node) bool {
	found := false
	visit(n, true, func(n node, _ bool) {
		switch n.(type) {
		case *multiList, *multiHash, *call:
			found = true
		}
	})
	return found
}

// plainPath gives the fields of a.b.c; nil if n is something else.
func plainPath(n node) []*field {
	switch n := n.(type) {
	case *field:
		return []*field{n}
	case *chain:
		left, right := plainPath(n.left), plainPath(n.right)
		if left != nil && right != nil {
			return append(left, right...)
		}
	}
	return nil
}
