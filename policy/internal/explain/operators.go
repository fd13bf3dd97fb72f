package explain

import (
	"slices"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
)

// logic blames the operands of && and ||. Of a false && it is every false operand, the
// first one most, and of a true || every true one, also those that CEL does not reach.
// Within a choice it is only the first false operand of an &&, which guards the later
// ones. Otherwise all operands share the blame.
func (c *collector) logic(n *node, want bool, k rank) bool {
	conjunction := n.x.op == opAnd
	if conjunction == want {
		found := false
		for _, kid := range c.evalRest(n) {
			if kid.val != types.Bool(!want) {
				continue
			}
			found = c.blame(kid, want, k) || found
			if conjunction && c.choice {
				break
			}
			if conjunction {
				k = max(k, second)
			}
		}
		return found
	}
	return c.decidedTogether(n, conjunction, k)
}

// evalRest evaluates the operands that CEL leaves out once one has decided.
func (c *collector) evalRest(n *node) []*node {
	for len(n.kids()) < len(n.x.args) {
		n.add(n.x.args[len(n.operands)])
	}
	return n.operands
}

// parts flattens a tree of one operator.
func parts(n *node, o op, to []*node) []*node {
	if n.x == nil || n.x.op != o {
		return append(to, n)
	}
	for _, kid := range n.kids() {
		to = parts(kid, o, to)
	}
	return to
}

// decidedTogether blames operands that decided together: of an || all operands were
// false, or of an && all were true and should not have been. The last operand
// is the likeliest cause. Earlier ones are conditions; they are weak causes if
// they only test for presence before a ||, or if another alternative was closer
// to being true.
func (c *collector) decidedTogether(n *node, conjunction bool, k rank) bool {
	outer := c.choice
	c.choice = c.choice || !conjunction
	defer func() { c.choice = outer }()
	kids, before := parts(n, n.x.op, nil), len(c.found)
	best, telling, found := 0, 0, false
	for _, kid := range kids {
		if !conjunction {
			best = max(best, progress(kid))
		}
	}
	for i := len(kids) - 1; i >= 0; i-- {
		as := k
		switch {
		case best > 0 && progress(kids[i]) < best && isOp(kids[i], opAnd):
			as = weak
		case telling > 0 && conjunction, best > 0 && progress(kids[i]) < best:
			as = k.below()
		case telling > 0:
			as = max(k, guard(kids[i]))
		}
		if c.blame(kids[i], !conjunction, as) {
			found = true
			if as == k {
				telling++
			}
		}
	}
	if telling > 1 && !conjunction {
		c.alternatives(n, before, k)
	}
	return found
}

// alternatives ranks the findings of several operands of an ||, which failed together.
// A field that is missing is a less likely cause than one with a wrong value, since
// such an operand is often an exemption. But a field missing in the object is a
// likelier cause than a field of the request.
func (c *collector) alternatives(n *node, before int, k rank) {
	found := c.found[before:]
	exists := slices.ContainsFunc(found, func(f finding) bool {
		return f.rank == k && f.isPresent() && f.at.root.class == firstClass(found)
	})
	for i := range found {
		f := &found[i]
		if f.rank != k {
			continue
		}
		if exists && !f.isPresent() {
			f.rank = k.below()
		}
		if len(n.x.source()) <= maxLine {
			f.atom = n
		}
	}
}

func (f *finding) isPresent() bool {
	_, there := f.at.value()
	return there
}

func isOp(n *node, o op) bool { return n.x != nil && n.x.op == o }

// guard ranks an operand of || by its form: `!has(x) || …`, `x != y || …`.
func guard(n *node) rank {
	switch {
	case n.x == nil:
		return strong
	case n.x.op == opNot && presence(n.kids()[0]), n.x.op == opEqual && isNull(n):
		return weak
	case negative(n.x):
		return second
	}
	return strong
}

// negative reports whether x is a negated test. In a || the operands after it
// are then the rule's demand on the objects for which x is false.
func negative(x *code) bool {
	switch x.op {
	case opNot, opNotEqual:
		return true
	case opAnd:
		return negative(x.args[0]) && negative(x.args[1])
	case opAll:
		return negative(x.args[argTest])
	}
	return false
}

// presence reports whether n only tests that something is there.
func presence(n *node) bool {
	if n.x == nil {
		return false
	}
	if n.x.op == opCall && n.x.name == operators.In {
		_, ok := n.kids()[len(n.kids())-1].val.(traits.Mapper)
		return ok
	}
	return n.x.op == opHas || n.x.op == opCall && n.x.name == "hasValue" || n.x.op == opNotEqual && isNull(n)
}

func isNull(n *node) bool {
	return slices.ContainsFunc(n.kids(), func(kid *node) bool { return kid.x != nil && kid.x.op == opConst && kid.val == types.NullValue })
}

// progress counts the leading true operands of a false &&, except tests for
// presence. It measures how close the && was to being true.
func progress(n *node) int {
	if n.x == nil || n.val != types.False || n.x.op != opAnd {
		if n.val == types.True && !presence(n) {
			return 1
		}
		return 0
	}
	sum := 0
	for _, part := range parts(n, opAnd, nil) {
		p := progress(part)
		sum += p
		if part.val != types.True {
			break
		}
	}
	return sum
}

// conditional blames the branch taken, or the condition if the branch is a
// constant.
func (c *collector) conditional(n *node, want bool, k rank) bool {
	return c.blame(n.kids()[1], want, k) || c.opposite(n.kids()[0], k)
}

// alternative blames `a.orValue(b)` used as a boolean.
func (c *collector) alternative(n *node, want bool, k rank) bool {
	if len(n.kids()) == 2 {
		return c.optional(n, k)
	}
	inner := n.maker()
	if _, ok := inner.val.(*types.Optional); !ok && inner != n && c.blame(inner, want, k) {
		return true
	}
	return c.trace(n.kids()[0], k)
}

// equality blames the operands of == and !=. wantEqual is the expected
// equality.
func (c *collector) equality(n *node, wantEqual bool, k rank) bool {
	a, b := n.kids()[0], n.kids()[1]
	x, boolA := a.val.(types.Bool)
	y, boolB := b.val.(types.Bool)
	if boolA && boolB {
		switch {
		case isOp(b, opConst):
			return c.blame(a, bool(y) == wantEqual, k)
		case isOp(a, opConst):
			return c.blame(b, bool(x) == wantEqual, k)
		}
		found := c.opposite(a, k)
		return c.opposite(b, k) || found
	}
	name := operators.Equals
	if !wantEqual {
		name = operators.NotEquals
	}
	return c.compared(a, b, name, k)
}

// test blames the arguments of a function that should have returned want.
func (c *collector) test(n *node, want bool, k rank) bool {
	if len(n.kids()) == 2 {
		a, b := n.kids()[0], n.kids()[1]
		switch n.x.name {
		case operators.In:
			return c.member(n, want, k)
		case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
			name := n.x.name
			if !want {
				name = negated[name]
			}
			return c.compared(a, b, name, k)
		case "sets.contains":
			return c.contains(a, b, want, k)
		case "sets.intersects":
			return c.intersects(a, b, want, k)
		case "sets.equivalent":
			if want {
				found := c.contains(a, b, want, k)
				return c.contains(b, a, want, k) || found
			}
		}
	}
	if n.via() != nil {
		return c.blame(n.via(), want, k)
	}
	return c.operands(n, k)
}

var negated = map[string]string{
	operators.Less: operators.GreaterEquals, operators.GreaterEquals: operators.Less,
	operators.Greater: operators.LessEquals, operators.LessEquals: operators.Greater,
}

var mirrored = map[string]string{
	operators.Less: operators.Greater, operators.Greater: operators.Less,
	operators.LessEquals: operators.GreaterEquals, operators.GreaterEquals: operators.LessEquals,
	operators.Equals: operators.Equals, operators.NotEquals: operators.NotEquals,
}

// compared blames both sides of `a name b`, which should have held.
func (c *collector) compared(a, b *node, name string, k rank) bool {
	found := c.side(a, b, name, k)
	return c.side(b, a, mirrored[name], k) || found
}

// side blames a in `a name b`. If a is a size, it blames the surplus elements,
// or the candidates if there are too few.
func (c *collector) side(a, b *node, name string, k rank) bool {
	if list := sized(a); list != nil {
		return c.size(list, excess(a, b, name), k)
	}
	if l, ok := b.val.(traits.Lister); ok && isOp(b, opList) && l.Size() == types.IntZero {
		if _, ok := a.val.(traits.Lister); ok {
			return c.size(a, excess(a, b, name), k)
		}
	}
	return c.trace(a, k)
}

// sized returns the list whose size n is, or nil.
func sized(n *node) *node {
	for n.via() != nil {
		n = n.via()
	}
	if n.x == nil || n.x.op != opCall || n.x.name != "size" || len(n.kids()) != 1 {
		return nil
	}
	if _, ok := n.kids()[0].val.(traits.Lister); !ok {
		return nil
	}
	return n.kids()[0]
}

// An amount is how a size is wrong.
type amount uint8

const (
	either amount = iota
	tooMany
	tooFew
)

func excess(a, b *node, name string) amount {
	switch name {
	case operators.Less, operators.LessEquals:
		return tooMany
	case operators.Greater, operators.GreaterEquals:
		return tooFew
	case operators.NotEquals:
		if b.val == types.IntZero || isOp(b, opList) {
			return tooFew
		}
		return either
	}
	if isOp(b, opList) {
		return tooMany
	}
	if l, ok := a.val.(traits.Comparer); ok {
		if l.Compare(b.val) == types.IntOne {
			return tooMany
		}
		return tooFew
	}
	return either
}
