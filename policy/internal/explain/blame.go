package explain

import (
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// A rank orders culprits by how likely they are the cause, the likeliest first.
type rank uint8

const (
	strong rank = iota // the failing test's own operand
	second             // a condition under which it is tested
	weak               // a guard or a candidate, shown only if there is no better culprit
)

func (r rank) below() rank { return min(r+1, second) }

// A finding is the place of a value at fault, with the code that failed on it.
type finding struct {
	at   *place
	rank rank
	atom *node
}

// A collector walks the nodes of an evaluation for the places at fault.
type collector struct {
	r      *run
	found  []finding
	atom   *node
	choice bool // below an || or a search, of which one alternative suffices
	gen    uint32
	budget int
}

const (
	collectorBudget = 400_000
	maxFindings     = 4096
)

func (c *collector) begin(budget int) {
	c.r.gen++
	c.gen, c.budget = c.r.gen, budget
}

func (c *collector) add(at *place, k rank) bool {
	if at == nil {
		return false
	}
	if !at.editable() {
		k = weak
	}
	if len(c.found) < maxFindings {
		c.found = append(c.found, finding{at, k, c.atom})
	}
	return true
}

// firstAsked reports whether the question is asked for the first time, and otherwise
// the earlier answer. Because of variables the nodes form a graph, not a tree. Once the
// run has stopped, values are errors of our own, which nothing is blamed for.
func (c *collector) firstAsked(n *node, question uint16) (first, found bool) {
	if n.gen != c.gen {
		n.gen, n.seen, n.hit = c.gen, 0, 0
	}
	if c.budget--; c.budget < 0 || c.r.stop != nil || n.seen&question != 0 {
		return false, n.hit&question != 0
	}
	n.seen |= question
	return true, false
}

func questionBit(want bool, k rank) uint16 {
	q := uint16(1) << k
	if want {
		q <<= 3
	}
	return q
}

// blame collects the places that kept n from having the value want. It reports
// whether it found any.
func (c *collector) blame(n *node, want bool, k rank) bool {
	q := questionBit(want, k)
	first, found := c.firstAsked(n, q)
	if !first {
		return found
	}
	outer := c.atom
	if n.x != nil {
		c.atom = n
	}
	found = c.dispatch(n, want, k)
	c.atom = outer
	if found {
		n.hit |= q
	}
	return found
}

func (c *collector) dispatch(n *node, want bool, k rank) bool {
	if n.val == types.Bool(want) {
		return false
	}
	if failed(n) {
		return c.broken(n, want, k)
	}
	if n.x == nil {
		return c.trace(n, k)
	}
	switch n.x.op {
	case opAnd, opOr:
		return c.logic(n, want, k)
	case opNot:
		return c.blame(n.kids()[0], !want, k)
	case opCond:
		return c.conditional(n, want, k)
	case opVariable, opBind:
		return c.blame(n.via(), want, k)
	case opOr2:
		return c.alternative(n, want, k)
	case opEqual, opNotEqual:
		return c.equality(n, want == (n.x.op == opEqual), k)
	case opAll:
		return c.every(n, want, k)
	case opExists:
		return c.some(n, want, k)
	case opExistsOne:
		return c.exactlyOne(n, want, k)
	case opCall:
		return c.test(n, want, k)
	}
	return c.trace(n, k)
}

// broken blames an error on the operand where it arose.
func (c *collector) broken(n *node, want bool, k rank) bool {
	if n.via() != nil && failed(n.via()) {
		return c.blame(n.via(), want, k)
	}
	found, inner := false, false
	for i := range n.turns() {
		t := &n.turns()[i]
		for _, part := range []*node{t.test, t.body, t.last} {
			if part != nil && failed(part) {
				inner = true
				found = c.blame(part, want, k) || found
			}
		}
	}
	for _, kid := range n.kids() {
		if failed(kid) {
			inner = true
			found = c.blame(kid, want, k) || found
		}
	}
	if inner || n.via() != nil {
		return found
	}
	if n.at() != nil {
		return c.add(n.at(), k)
	}
	return c.operands(n, k)
}

func (c *collector) operands(n *node, k rank) bool {
	found := false
	for _, kid := range n.kids() {
		found = c.trace(kid, k) || found
	}
	return found
}

// trace collects the places from which n's value was computed. It reports
// whether it found any.
func (c *collector) trace(n *node, k rank) bool {
	q := uint16(1) << (6 + k)
	first, found := c.firstAsked(n, q)
	if !first {
		return found
	}
	if c.origin(n, k) {
		n.hit |= q
		return true
	}
	return false
}

func (c *collector) origin(n *node, k rank) bool {
	if n.x == nil {
		if n.at() != nil {
			return c.add(n.at(), k)
		}
		return c.unplaced(n, k)
	}
	if b, ok := n.val.(types.Bool); ok && logical(n.x.op) {
		return c.dispatch(n, !bool(b), k)
	}
	switch {
	case n.x.op == opOr2:
		return c.optional(n, k)
	case n.at() != nil:
		return c.add(n.at(), k)
	case n.x.op == opCond && len(n.kids()) == 2:
		return c.trace(n.kids()[1], k) || c.opposite(n.kids()[0], k)
	case n.via() != nil:
		return c.trace(n.via(), k)
	case n.x.op == opCall:
		return c.result(n, k)
	case n.turns() != nil || n.x.op >= opAll:
		return c.built(n, k)
	}
	return c.operands(n, k)
}

// logical reports whether blame can say more about a boolean operation than the
// origin of its operands.
func logical(o op) bool {
	switch o {
	case opAnd, opOr, opNot, opEqual, opNotEqual, opAll, opExists, opExistsOne:
		return true
	}
	return false
}

// opposite blames a boolean for its value.
func (c *collector) opposite(n *node, k rank) bool {
	b, ok := n.val.(types.Bool)
	if !ok {
		return c.trace(n, k)
	}
	return c.blame(n, !bool(b), k)
}

// optional traces `a.orValue(b)` to the place where a was looked for, then to b.
func (c *collector) optional(n *node, k rank) bool {
	found := c.trace(n.kids()[0], k)
	if len(n.kids()) == 2 {
		rest := k
		if found {
			rest = k.below()
		}
		found = c.trace(n.kids()[1], rest) || found
	}
	return found
}

// unplaced collects the origins of a list element that a function made: equal
// elements of the function's arguments, or else all of them.
func (c *collector) unplaced(n *node, k rank) bool {
	found := false
	for _, list := range n.kids() {
		for list.via() != nil {
			list = list.via()
		}
		for _, arg := range list.kids() {
			found = c.equal(arg, n.val, k) || found
		}
		if !found {
			found = c.trace(list, k)
		}
	}
	return found
}

// equal traces the elements of a list that equal v.
func (c *collector) equal(list *node, v ref.Val, k rank) bool {
	l, ok := list.val.(traits.Lister)
	if !ok {
		return false
	}
	found := false
	for _, e := range c.r.elements(list, l) {
		if e.val.Equal(v) == types.True {
			found = c.trace(e, k) || found
		}
	}
	return found
}

// result returns the sources of a function's value.
func (c *collector) result(n *node, k rank) bool {
	switch n.x.name {
	case "max", "min":
		if len(n.kids()) == 1 && c.equal(n.kids()[0], n.val, k) {
			return true
		}
	case operators.Add:
		if _, ok := n.val.(traits.Lister); ok {
			return c.lists(n, k)
		}
	case "hasValue", "value":
		return c.trace(n.kids()[0], k)
	}
	return c.operands(n, k)
}

// built traces the list or map of a comprehension to the origins of its elements, or if
// it has none to the list that was searched.
func (c *collector) built(n *node, k rank) bool {
	found := false
	for i := range n.turns() {
		t := &n.turns()[i]
		if !t.kept {
			continue
		}
		for _, part := range []*node{t.body, t.last} {
			if part != nil {
				found = c.trace(part, k) || found
			}
		}
		if n.x.op == opFilter {
			found = c.trace(t.elem, k) || found
		}
	}
	return found || c.operands(n, k)
}
