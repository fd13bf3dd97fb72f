package jmespath

import (
	"maps"
	"slices"
)

// A node is a part of an expression. With an error, eval returns the place that the
// error is about.
type node interface {
	eval(s *search, in val) (val, error)
}

type (
	here     struct{} // @
	constant struct{ v any }
	field    struct {
		name    string
		missing *NotFoundError
	}
	chain   struct{ left, right node } // left.right
	element struct {                   // of[index]
		of    node
		index int
	}
	slice struct { // of[a:b:c]
		of    node
		parts [3]*int
	}
	// A projection is of[*].each, of[].each if flat, and of[?when].each.
	projection struct {
		of, when, each node
		flat           bool
		cost           int // of when and each, for one element
	}
	values struct { // of.*.each
		of, each node
		cost     int
	}
	multiList struct{ members []node }
	multiHash struct {
		keys    []string
		members []node
	}
	stages     struct{ left, right node } // left | right
	either     struct{ left, right node } // left || right
	both       struct{ left, right node } // left && right
	negation   struct{ of node }
	comparison struct {
		operator    kind
		left, right node
	}
	reference struct { // &of
		of   node
		cost int
	}
)

// chained returns left.right. If left is the current value it returns right alone, so
// that a Scope need not load everything.
func chained(left, right node) node {
	if _, ok := left.(here); ok {
		return right
	}
	return &chain{left, right}
}

func (here) eval(_ *search, in val) (val, error) {
	scope, ok := in.v.(Scope)
	if !ok {
		return in, nil
	}
	all, err := scope.All()
	return val{all, in.at}, err
}

func (c *constant) eval(*search, val) (val, error) { return val{v: c.v}, nil }

func (f *field) eval(s *search, in val) (val, error) {
	out := val{}
	if s.tracing {
		out.at = in.at.field(f.name)
	}
	found := true
	var err error
	switch v := in.v.(type) {
	case map[string]any:
		out.v, found = v[f.name]
	case Scope:
		out.v, found, err = v.Lookup(f.name)
	}
	if err == nil && !found {
		err = f.missing
	}
	return out, err
}

func (c *chain) eval(s *search, in val) (val, error) {
	left, err := c.left.eval(s, in)
	if err != nil {
		return left, err
	}
	return c.right.eval(s, left)
}

func (e *element) eval(s *search, in val) (val, error) {
	of, err := e.of.eval(s, in)
	if err != nil {
		return of, err
	}
	list, _ := of.v.([]any)
	i := e.index
	if i < 0 {
		i += len(list)
	}
	if i < 0 {
		return val{at: of.at}, nil
	}
	out := val{at: of.at.element(i)}
	if i < len(list) {
		out.v = list[i]
	}
	return out, nil
}

func (n *slice) eval(s *search, in val) (val, error) {
	of, err := n.of.eval(s, in)
	if err != nil {
		return of, err
	}
	list, ok := of.v.([]any)
	if !ok {
		return val{at: of.at}, nil
	}
	start, stop, step, err := bounds(len(list), n.parts)
	if err != nil {
		return of, err
	}
	b := newBuilder(s, of, 0)
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		b.add(val{list[i], of.at.element(i)})
	}
	return b.list(), s.spend(len(b.out))
}

// bounds returns the first index of a slice, the index before which it ends, and the
// step, as Python does.
func bounds(length int, parts [3]*int) (start, stop, step int, err error) {
	step = 1
	if parts[2] != nil {
		step = *parts[2]
	}
	if step == 0 {
		return 0, 0, 0, &FunctionError{Message: "Invalid slice, step cannot be 0"}
	}
	lowest, highest := 0, length
	if step < 0 {
		lowest, highest = -1, length-1
	}
	// With a longer step the index could overflow.
	step = min(max(step, -length-1), length+1)
	capped := func(part *int, otherwise int) int {
		if part == nil {
			return otherwise
		}
		i := *part
		if i < 0 {
			i += length
		}
		return min(max(i, lowest), highest)
	}
	if step > 0 {
		return capped(parts[0], lowest), capped(parts[1], highest), step, nil
	}
	return capped(parts[0], highest), capped(parts[1], lowest), step, nil
}

func (p *projection) eval(s *search, in val) (val, error) {
	of, err := p.of.eval(s, in)
	if err != nil {
		if p.swallows(err) {
			err = nil
		}
		return val{at: of.at}, err
	}
	list, ok := of.v.([]any)
	if !ok {
		return val{at: of.at}, nil
	}
	b := newBuilder(s, of, len(list))
	for i, v := range list {
		e := val{v, of.at.element(i)}
		inner, nested := v.([]any)
		if !p.flat || !nested {
			err = p.project(b, e)
		}
		for j := 0; p.flat && nested && err == nil && j < len(inner); j++ {
			err = p.project(b, val{inner[j], e.at.element(j)})
		}
		if err != nil {
			return b.failed, err
		}
	}
	return b.list(), nil
}

// swallows reports whether an error in the projected expression makes the projection
// null. In Kyverno a missing key does so for x[*], and any error for x[] and x[?].
func (p *projection) swallows(err error) bool {
	if _, missing := err.(*NotFoundError); missing {
		return true
	}
	return (p.flat || p.when != nil) && isExpressionError(err)
}

// isExpressionError reports whether an error is one of the expression and its data. Other
// errors (undecided, limits, failed loading) are never swallowed.
func isExpressionError(err error) bool {
	switch err.(type) {
	case *NotFoundError, *FunctionError:
		return true
	}
	return false
}

func (p *projection) project(b *builder, e val) error {
	if err := b.s.spend(p.cost); err != nil {
		return err
	}
	if p.when != nil {
		held, err := b.s.evalOrNull(p.when, e)
		if err != nil {
			b.failed = held
			return err
		}
		if falsy(held.v) {
			return nil
		}
	}
	return b.project(p.each, e)
}

func (n *values) eval(s *search, in val) (val, error) {
	of, err := n.of.eval(s, in)
	if err != nil {
		if isExpressionError(err) {
			err = nil
		}
		return val{at: of.at}, err
	}
	fields, ok := of.v.(map[string]any)
	if !ok {
		return val{at: of.at}, nil
	}
	if err := s.spend(2 * len(fields) * n.cost); err != nil {
		return of, err
	}
	b := newBuilder(s, of, len(fields))
	// Kyverno visits one null for each field before the fields.
	for range fields {
		if err := b.project(n.each, val{}); err != nil {
			return b.failed, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if err := b.project(n.each, val{fields[key], of.at.field(key)}); err != nil {
			return b.failed, err
		}
	}
	return b.list(), nil
}

// A builder collects the elements of a list that an expression makes.
type builder struct {
	s        *search
	of       val
	out      []any
	elements []*place
	dropped  []*place // of elements without a result
	failed   val      // with the error that project returned
}

func newBuilder(s *search, of val, size int) *builder {
	return &builder{s: s, of: of, out: make([]any, 0, size)}
}

func (b *builder) add(v val) {
	b.out = append(b.out, v.v)
	if b.s.tracing {
		b.elements = append(b.elements, v.at)
	}
}

// project adds the expression's value for an element, unless it is null.
func (b *builder) project(each node, e val) error {
	out, err := b.s.evalOrNull(each, e)
	if err != nil {
		b.failed = out
		return err
	}
	switch {
	case out.v != nil:
		b.add(out)
		return b.s.spend(2) // for its memory
	case b.s.tracing && out.at != nil && len(b.dropped) < maxPointers:
		b.dropped = append(b.dropped, out.at)
	}
	return nil
}

// list returns the collected elements. The place of an empty list is that of the
// elements without results, or else of the searched list.
func (b *builder) list() val {
	out := val{v: b.out}
	switch {
	case !b.s.tracing:
	case len(b.out) > 0:
		out.at = &place{elements: b.elements}
	case len(b.dropped) > 0:
		out.at = derivedPlace(b.dropped...)
	default:
		out.at = derivedPlace(b.of.at)
	}
	return out
}

func (n *multiList) eval(s *search, in val) (val, error) {
	if in.v == nil {
		return val{at: in.at}, nil
	}
	b := newBuilder(s, in, len(n.members))
	for _, m := range n.members {
		v, err := s.evalOrNull(m, in)
		if err != nil {
			return v, err
		}
		b.add(v)
	}
	return b.list(), nil
}

func (n *multiHash) eval(s *search, in val) (val, error) {
	if in.v == nil {
		return val{at: in.at}, nil
	}
	fields := make(map[string]any, len(n.keys))
	out := val{v: fields}
	if s.tracing {
		out.at = &place{fields: make(map[string]*place, len(n.keys))}
	}
	for i, m := range n.members {
		v, err := s.evalOrNull(m, in)
		if err != nil {
			return v, err
		}
		fields[n.keys[i]] = v.v
		if s.tracing {
			out.at.fields[n.keys[i]] = v.at
		}
	}
	return out, nil
}

func (n *stages) eval(s *search, in val) (val, error) {
	left, err := s.evalOrNull(n.left, in)
	if err != nil {
		return left, err
	}
	return s.evalOrNull(n.right, left)
}

func (e *either) eval(s *search, in val) (val, error) {
	left, err := s.evalOrNull(e.left, in)
	if err != nil || !falsy(left.v) {
		return left, err
	}
	right, err := s.evalOrNull(e.right, in)
	if s.tracing {
		right.at = right.at.and(left.at)
	}
	return right, err
}

func (b *both) eval(s *search, in val) (val, error) {
	left, err := s.evalOrNull(b.left, in)
	if err != nil || falsy(left.v) {
		return left, err
	}
	right, err := b.right.eval(s, in)
	if s.tracing && err == nil {
		right.at = right.at.and(left.at)
	}
	return right, err
}

func (n *negation) eval(s *search, in val) (val, error) {
	of, err := s.evalOrNull(n.of, in)
	if err != nil {
		return of, err
	}
	return val{falsy(of.v), s.derivedPlace(of.at)}, nil
}

func (c *comparison) eval(s *search, in val) (val, error) {
	left, err := s.evalOrNull(c.left, in)
	if err != nil {
		return left, err
	}
	right, err := s.evalOrNull(c.right, in)
	if err != nil {
		return right, err
	}
	out := val{at: s.derivedPlace(left.at, right.at)}
	if c.operator == equal || c.operator == unequal {
		same, err := s.equal(left.v, right.v)
		out.v = same == (c.operator == equal)
		return out, err
	}
	a, ok := left.v.(float64)
	b, also := right.v.(float64)
	if ok && also {
		out.v = ordered(c.operator, a, b)
	}
	return out, nil
}

func ordered(operator kind, a, b float64) bool {
	switch operator {
	case less:
		return a < b
	case lessEqual:
		return a <= b
	case greater:
		return a > b
	}
	return a >= b
}

// eval is only called for an expression reference that is not an argument.
func (r *reference) eval(*search, val) (val, error) {
	return val{}, &FunctionError{Message: "an expression reference is not a value"}
}
