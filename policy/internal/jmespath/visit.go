package jmespath

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
		left, right := plainPath(n.left), plainPath(n.right)
		if left != nil && right != nil {
			return append(left, right...)
		}
	}
	return nil
}
