package jmespath

import "github.com/preadmit/preadmit/policy/internal/reads"

// Reads returns the flow of the expression's value, and records the parts of the data
// that it reads. root returns the flow of a field of the root, and ok is false if the
// field may be anything. ok is false if the expression may read anything else.
func (e *Expression) Reads(root func(name string) (f reads.Flow, ok bool)) (f reads.Flow, ok bool) {
	r := &reader{root: root, left: maxRead}
	f = r.flow(e.root, reads.Flow{}, true)
	return f, !r.more
}

// maxRead bounds the nodes that are visited.
const maxRead = 10_000

// A reader follows parts of the data through an expression.
type reader struct {
	root func(name string) (reads.Flow, bool)
	more bool // something else is read
	left int  // nodes that may still be visited
}

// flow returns the flow of a node's value if it is evaluated against in, or against the
// root.
func (r *reader) flow(n node, in reads.Flow, atRoot bool) reads.Flow {
	if r.left--; r.left < 0 {
		r.more = true
	}
	if r.more {
		return reads.Flow{}
	}
	switch n := n.(type) {
	case *constant:
		return reads.Flow{}
	case here:
		r.more = r.more || atRoot
		return in
	case *field:
		return r.field(n.name, in, atRoot)
	case *chain:
		return r.flow(n.right, r.flow(n.left, in, atRoot), atRoot && isHere(n.left))
	case *stages:
		return r.flow(n.right, r.flow(n.left, in, atRoot), atRoot && isHere(n.left))
	case *element:
		return r.flow(n.of, in, atRoot).Items()
	case *slice:
		items := r.flow(n.of, in, atRoot).Items()
		return reads.Flow{Elements: &items}
	case *projection:
		return r.projection(n, in, atRoot)
	case *either:
		return r.flow(n.left, in, atRoot).Or(r.flow(n.right, in, atRoot))
	case *both:
		return r.flow(n.left, in, atRoot).Or(r.flow(n.right, in, atRoot))
	case *negation:
		r.flow(n.of, in, atRoot) // whether a value is empty or false always counts as read
		return reads.Flow{}
	case *multiList:
		var items reads.Flow
		for _, m := range n.members {
			items = items.Or(r.flow(m, in, atRoot))
		}
		return reads.Flow{Elements: &items}
	}
	r.readWhole(n, in, atRoot)
	return reads.Flow{}
}

func (r *reader) field(name string, in reads.Flow, atRoot bool) reads.Flow {
	if !atRoot {
		return in.Field(name)
	}
	f, ok := r.root(name)
	r.more = r.more || !ok
	return f
}

func (r *reader) projection(n *projection, in reads.Flow, atRoot bool) reads.Flow {
	items := r.flow(n.of, in, atRoot).Items()
	if n.flat {
		items = items.Or(items.Items())
	}
	if n.when != nil {
		r.flow(n.when, items, false)
	}
	each := r.flow(n.each, items, false)
	return reads.Flow{Elements: &each}
}

// readWhole records that all operands of a node are read whole.
func (r *reader) readWhole(n node, in reads.Flow, atRoot bool) {
	switch n := n.(type) {
	case *values:
		r.flow(n.of, in, atRoot).Consume()
		r.flow(n.each, reads.Flow{}, false)
	case *multiHash:
		r.consume(n.members, in, atRoot)
	case *comparison:
		r.consume([]node{n.left, n.right}, in, atRoot)
	case *call:
		if n.name == "keys" && len(n.args) == 1 {
			r.flow(n.args[0], in, atRoot).Named()
			return
		}
		r.consume(n.args, in, atRoot)
	case *reference: // reads elements of the other arguments
	default:
		r.more = true
	}
}

func (r *reader) consume(nodes []node, in reads.Flow, atRoot bool) {
	for _, n := range nodes {
		r.flow(n, in, atRoot).Consume()
	}
}

// InOrder reports whether the expression gives a list of the data, or at most three lists
// of the data one after another, so that Trace has the place of each element in the order
// of the list.
func (e *Expression) InOrder() bool {
	if e.path != nil {
		return true
	}
	p, ok := e.root.(*projection)
	if !ok || p.when != nil || !isHere(p.each) {
		return false
	}
	lists := p.of
	if c, ok := lists.(*chain); ok && plainPath(c.left) != nil {
		lists = c.right
	}
	if plainPath(lists) != nil {
		return true
	}
	members, ok := lists.(*multiList)
	if !ok || len(members.members) > 3 {
		return false
	}
	names := map[string]bool{}
	for _, m := range members.members {
		f, ok := m.(*field)
		if !ok || names[f.name] {
			return false
		}
		names[f.name] = true
	}
	return true
}
