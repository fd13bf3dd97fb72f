package explain

import (
	"slices"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// every blames a failed all().
func (c *collector) every(n *node, want bool, k rank) bool {
	if !want {
		return c.noneFound(n, false, k)
	}
	return c.each(n, want, k)
}

// each blames the elements whose test is not want. An error in a test counts
// only if the test should have been true.
func (c *collector) each(n *node, want bool, k rank) bool {
	found := false
	for i := range n.turns() {
		t := &n.turns()[i]
		if t.test == nil || t.test.val == types.Bool(want) || failed(t.test) && !want {
			continue
		}
		if c.blame(t.test, want, k) || c.trace(t.elem, k) {
			found = true
		}
	}
	return found
}

// some blames a failed exists().
func (c *collector) some(n *node, want bool, k rank) bool {
	if want {
		return c.noneFound(n, true, k)
	}
	return c.each(n, false, k)
}

func (c *collector) exactlyOne(n *node, want bool, k rank) bool {
	for i := range n.turns() {
		if n.turns()[i].test.val == types.True {
			return c.each(n, false, k)
		}
	}
	return want && c.noneFound(n, true, k)
}

// noneFound blames a search, such as exists(), that found no element whose test is
// want. If some candidates came closest, it blames the fields missing in them.
// Otherwise it blames the value that was searched for if that comes from the
// object, such as an image that is not in a list of allowed ones. If the list
// comes from the object and its elements have a key, it blames the list;
// otherwise it blames all candidates.
func (c *collector) noneFound(n *node, want bool, k rank) bool {
	if len(n.turns()) == 0 {
		return c.emptyList(n, k)
	}
	best, lookup := 0, true
	for i := range n.turns() {
		if t := n.turns()[i].test; t != nil {
			best = max(best, progress(t))
			lookup = lookup && isLookup(t, want, n.x.level)
		}
	}
	if !want {
		best = 0
	}
	inside, outside := c.candidates(n, want, best)
	switch {
	case len(outside) > 0 && (len(inside) == 0 || firstClass(outside) <= firstClass(inside)):
		rest := weak
		if best > 0 {
			rest = k.below()
		}
		c.addAll(inside, rest)
		return c.addAll(outside, k)
	case best == 0 && lookup && c.absent(n, k):
	default:
		c.addAll(inside, k)
	}
	c.addAll(outside, k)
	return len(inside)+len(outside) > 0
}

// candidates blames the elements that came closest to a match, and separates
// findings inside the searched list from others.
func (c *collector) candidates(n *node, want bool, best int) (inside, outside []finding) {
	for i := range n.turns() {
		t := &n.turns()[i]
		if t.test == nil || t.test.val == types.Bool(want) || want && progress(t.test) < best {
			continue
		}
		own := []finding{{at: t.elem.at()}}
		if t.elem.at() == nil {
			own = c.separately(func() { c.trace(t.elem, strong) })
		}
		for _, f := range c.separately(func() { c.blame(t.test, want, strong) }) {
			if isWithin(f.at, own) {
				inside = append(inside, f)
			} else {
				outside = append(outside, f)
			}
		}
		if len(inside)+len(outside) > maxFindings {
			break
		}
	}
	return inside, outside
}

func isWithin(p *place, of []finding) bool {
	return slices.ContainsFunc(of, func(f finding) bool { return f.at != nil && p.within(f.at) })
}

// separately collects into a list of its own.
func (c *collector) separately(walk func()) []finding {
	found, gen, choice := c.found, c.gen, c.choice
	c.found, c.choice = nil, true
	c.begin(c.budget)
	walk()
	sub := c.found
	c.found, c.gen, c.choice = found, gen, choice
	return sub
}

// addAll adds findings collected apart.
func (c *collector) addAll(found []finding, k rank) bool {
	for _, f := range found {
		if len(c.found) < maxFindings {
			c.found = append(c.found, finding{f.at, max(k, f.rank), f.atom})
		}
	}
	return len(found) > 0
}

// firstClass returns the class of the first root among findings.
func firstClass(found []finding) int {
	best := len(classes)
	for _, f := range found {
		if f.rank != weak {
			best = min(best, f.at.root.class)
		}
	}
	return best
}

// isLookup reports whether a failed test compares a field of the loop's
// variable with another value, so that the wanted element is simply missing.
func isLookup(t *node, want bool, level int) bool {
	if t.x == nil || t.val != types.Bool(!want) {
		return false
	}
	switch t.x.op {
	case opNot:
		return isLookup(t.kids()[0], !want, level)
	case opAnd:
		return want && isLookup(t.kids()[len(t.kids())-1], want, level)
	case opOr:
		return want && !slices.ContainsFunc(t.kids(), func(kid *node) bool { return !isLookup(kid, want, level) })
	case opExists, opAll:
		return (t.x.op == opExists) == want && len(t.turns()) > 0 && isLookup(t.turns()[0].test, want, level)
	case opEqual, opNotEqual:
		a, b := t.x.args[0], t.x.args[1]
		return (t.x.op == opEqual) == want && (isChain(a, level) && !b.reads(level) || isChain(b, level) && !a.reads(level))
	case opCall:
		return want && t.x.name == operators.In && isChain(t.x.args[0], level) && !t.x.args[1].reads(level)
	}
	return false
}

// isChain reports whether x is the loop's variable or a field of it.
func isChain(x *code, level int) bool {
	for x.op == opSelect || x.op == opIndex {
		x = x.args[0]
	}
	return x.op == opLocal && x.reads(level)
}

// absent blames the list for an element that is not there, or a map for a key.
func (c *collector) absent(n *node, k rank) bool {
	c.atom = n
	rng := n.kids()[0]
	m, ok := rng.val.(traits.Mapper)
	if !ok {
		return c.lists(rng, k)
	}
	t := n.turns()[0].test
	for isOp(t, opAnd) {
		t = t.kids()[len(t.kids())-1]
	}
	if t.x.op == opEqual && placeOf(m) != nil {
		for i, other := range []*node{t.kids()[1], t.kids()[0]} {
			if key, ok := other.val.(types.String); ok && t.x.args[i].op == opLocal && t.x.args[i].slot == slotFirst {
				return c.add(placeOf(m).child(string(key)), k)
			}
		}
	}
	return c.lists(rng, k)
}

// emptyList blames a search in an empty list: the filter that removed all
// elements, or the list itself, and the value that was searched for if the list
// is not the object's own.
func (c *collector) emptyList(n *node, k rank) bool {
	rng := n.kids()[0]
	if made := maker(rng); len(made.turns()) > 0 && made.x.args[argTest] != nil {
		return c.noneFound(made, true, k)
	}
	lists := c.separately(func() { c.lists(rng, strong) })
	var outer []finding
	if test := n.x.args[argTest]; test != nil {
		outer = c.separately(func() { c.outsideLoop(test, n.x.level, &frame{up: n.frame}) })
	}
	if len(lists) == 0 || firstClass(outer) < firstClass(lists) {
		c.addAll(outer, k)
	}
	return c.addAll(lists, k) || len(outer) > 0
}

// maker returns the node that made a list, looking through variables.
func maker(n *node) *node {
	for n.via() != nil && n.at() == nil {
		n = n.via()
	}
	return n
}

// outsideLoop traces the fields of a predicate that don't depend on its loop.
func (c *collector) outsideLoop(x *code, level int, f *frame) {
	if !x.reads(level) && (x.op == opSelect || x.op == opIndex || x.op == opVariable) {
		if n := c.r.eval(x, f); !failed(n) {
			c.trace(n, strong)
		}
		return
	}
	if x.op >= opAll {
		return // code inside has its own frames
	}
	for _, a := range x.args {
		c.outsideLoop(a, level, f)
	}
}

// size blames a list for its size.
func (c *collector) size(list *node, what amount, k rank) bool {
	n := maker(list)
	if n.at() == nil && n.x != nil {
		switch {
		case n.x.op == opFilter || n.x.op == opMap && n.x.args[argTest] != nil:
			return c.filtered(n, what, k)
		case n.x.op == opMap:
			return c.size(n.kids()[0], what, k)
		case n.x.op == opCall && n.x.name == operators.Add:
			found := c.size(n.kids()[0], what, contribution(n.kids()[0], k))
			return c.size(n.kids()[1], what, contribution(n.kids()[1], k)) || found
		}
	}
	return c.lists(list, k)
}

// filtered blames the elements that a filter kept, or reports that it kept none.
func (c *collector) filtered(n *node, what amount, k rank) bool {
	found := false
	if what != tooFew {
		found = c.each(n, false, k)
	}
	switch {
	case what == tooMany || found:
	case slices.ContainsFunc(n.turns(), func(t turn) bool { return t.kept }):
		found = c.each(n, true, k)
	default:
		found = c.noneFound(n, true, k)
	}
	return found
}

// contribution returns a weak rank for a list that adds nothing to a
// concatenation.
func contribution(n *node, k rank) rank {
	if l, ok := n.val.(traits.Lister); ok && l.Size() == types.IntZero {
		return weak
	}
	return k
}

// lists blames lists: their places, or those of the lists from which they were
// made.
func (c *collector) lists(n *node, k rank) bool {
	switch {
	case n.at() != nil:
		return c.add(n.at(), k)
	case n.x == nil:
		return c.trace(n, k)
	case n.x.op == opCond && len(n.kids()) == 2:
		return c.lists(n.kids()[1], k) || c.opposite(n.kids()[0], k)
	case n.via() != nil:
		return c.lists(n.via(), k)
	case n.x.op == opFilter, n.x.op == opMap, n.x.op == opTransform:
		return c.lists(n.kids()[0], k)
	case n.x.op == opCall && n.x.name == operators.Add:
		found := c.lists(n.kids()[0], contribution(n.kids()[0], k))
		return c.lists(n.kids()[1], contribution(n.kids()[1], k)) || found
	case n.x.op == opCall, n.x.op == opOr2:
		found := false
		for _, kid := range n.kids() {
			found = c.lists(kid, k) || found
		}
		return found
	}
	return c.trace(n, k)
}

// member blames `a in b`.
func (c *collector) member(n *node, want bool, k rank) bool {
	a, b := n.kids()[0], n.kids()[1]
	if m, ok := b.val.(traits.Mapper); ok {
		return c.key(a, b, m, k)
	}
	if !want {
		found := c.trace(a, k)
		return c.equal(b, a.val, k) || found
	}
	return c.notContained(c.separately(func() { c.trace(a, strong) }), b, k)
}

// notContained blames a list for not containing a value, or the value for not being in
// the list: whichever comes from the object.
func (c *collector) notContained(what []finding, list *node, k rank) bool {
	lists := c.separately(func() { c.lists(list, strong) })
	if len(what) > 0 && (len(lists) == 0 || firstClass(what) <= firstClass(lists)) {
		c.addAll(lists, weak)
		return c.addAll(what, k)
	}
	c.addAll(what, k)
	return c.addAll(lists, k) || len(what) > 0
}

func (c *collector) key(a, b *node, m traits.Mapper, k rank) bool {
	var at *place
	if m, ok := m.(*placedMap); ok {
		at = m.property(a.val)
	}
	if at == nil {
		found := c.trace(a, k)
		return c.trace(b, weak) || found
	}
	c.trace(a, k)
	return c.add(at, k)
}

// contains blames sets.contains(a, b), which is true if all of b's elements are
// in a.
func (c *collector) contains(a, b *node, want bool, k rank) bool {
	x, okA := a.val.(traits.Lister)
	y, okB := b.val.(traits.Lister)
	if !okA || !okB || !want {
		found := c.trace(a, k)
		return c.trace(b, k) || found
	}
	found := false
	for _, e := range c.r.elements(b, y) {
		if has(x, e.val) {
			continue
		}
		found = c.notContained(c.separately(func() { c.trace(e, strong) }), a, k) || found
	}
	return found
}

// intersects blames sets.intersects(a, b), which is true if a and b have common
// elements.
func (c *collector) intersects(a, b *node, want bool, k rank) bool {
	x, okA := a.val.(traits.Lister)
	y, okB := b.val.(traits.Lister)
	if !okA || !okB {
		return false
	}
	found := false
	if want {
		found = c.lists(a, k)
		return c.lists(b, k) || found
	}
	for _, e := range c.r.elements(a, x) {
		if has(y, e.val) {
			found = c.trace(e, k) || found
		}
	}
	for _, e := range c.r.elements(b, y) {
		if has(x, e.val) {
			found = c.trace(e, k) || found
		}
	}
	return found
}

func has(l traits.Lister, v ref.Val) bool { return l.Contains(v) == types.True }
