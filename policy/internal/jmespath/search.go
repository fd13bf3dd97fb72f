package jmespath

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// The default limits of a search.
const (
	defaultSteps = 5_000_000
	defaultBytes = 16 << 20

	bytesPerStep = 8 // of text that count as a step
)

// A search is one evaluation of an expression.
type search struct {
	options *Options // may be nil
	steps   int      // left
	bytes   int      // left
	tracing bool
	calling *call
	stack   []val // arguments of the calls under way
}

// A val is a value and, while tracing, its place.
type val struct {
	v  any
	at *place
}

func newSearch(o *Options) *search {
	s := &search{steps: defaultSteps, bytes: defaultBytes}
	if o == nil {
		return s
	}
	s.options = o
	if o.Limits.Steps > 0 {
		s.steps = o.Limits.Steps
	}
	if o.Limits.Bytes > 0 {
		s.bytes = o.Limits.Bytes
	}
	return s
}

// spend counts n more visited values.
func (s *search) spend(n int) error {
	if n < 0 || n > s.steps {
		s.steps = 0
		return &LimitError{Message: "the expression looks at more values than a search may"}
	}
	s.steps -= n
	return nil
}

// grow counts n more bytes of text.
func (s *search) grow(n int) error {
	if n < 0 || n > s.bytes {
		s.bytes = 0
		return &LimitError{Message: "the expression makes more text than a search may"}
	}
	s.bytes -= n
	return nil
}

func (s *search) now(function string) (time.Time, error) {
	if s.options == nil || s.options.Now == nil {
		return time.Time{}, &UndecidedError{Function: function, Reason: "the time is not known offline"}
	}
	return s.options.Now(), nil
}

func (s *search) assume(format string, args ...any) {
	if s.options != nil && s.options.Assumed != nil {
		s.options.Assumed(fmt.Sprintf(format, args...))
	}
}

// derivedPlace returns the place of a value that was computed from others; nil unless
// tracing.
func (s *search) derivedPlace(from ...*place) *place {
	if !s.tracing {
		return nil
	}
	return derivedPlace(from...)
}

// evalOrNull evaluates a node; a missing key is null.
func (s *search) evalOrNull(n node, in val) (val, error) {
	out, err := n.eval(s, in)
	if _, missing := err.(*NotFoundError); missing {
		out.v, err = nil, nil
	}
	return out, err
}

// falsy reports whether a value counts as false: null, false and empty values.
func falsy(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// equal compares deeply. As in Kyverno the int64 1 is not the float64 1.
func (s *search) equal(a, b any) (bool, error) {
	if err := s.spend(1); err != nil {
		return false, err
	}
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false, nil
		}
		return s.equalMaps(a, b)
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false, nil
		}
		for i := range a {
			if same, err := s.equal(a[i], b[i]); !same {
				return false, err
			}
		}
		return true, nil
	}
	return sameScalar(a, b), nil
}

func (s *search) equalMaps(a, b map[string]any) (bool, error) {
	for key, x := range a {
		y, found := b[key]
		if !found {
			return false, nil
		}
		if same, err := s.equal(x, y); !same {
			return false, err
		}
	}
	return true, nil
}

// sameScalar compares scalars; maps and lists are never equal.
func sameScalar(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		b, ok := b.(string)
		return ok && a == b
	case float64:
		b, ok := b.(float64)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case int64:
		b, ok := b.(int64)
		return ok && a == b
	case int:
		b, ok := b.(int)
		return ok && a == b
	}
	return false
}

// spendValues counts every value in v, as often as it would be printed. It finds values
// that are small in memory but endless in print.
func (s *search) spendValues(v any) error {
	if err := s.spend(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			if err := s.spendValues(x); err != nil {
				return err
			}
		}
	case []any:
		for _, x := range v {
			if err := s.spendValues(x); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookup returns the field of a name or the element at an index; null if there is
// none.
func lookup(_ *search, a []val) (val, error) {
	if fields, ok := a[0].v.(map[string]any); ok {
		key, ok := a[1].v.(string)
		if !ok {
			return val{}, errorf("lookup", "argument #2 is not of type String")
		}
		return val{fields[key], a[0].at.field(key).and(a[1].at)}, nil
	}
	list := a[0].v.([]any)
	i, ok := a[1].v.(float64)
	if !ok {
		return val{}, errorf("lookup", "argument #2 is not of type Number")
	}
	if i != math.Trunc(i) {
		return val{}, errorf("lookup", "argument #2: expected an integer number but got: %g", i)
	}
	if math.Abs(i) >= 1<<63 {
		return val{}, errorf("lookup", "argument #2: number is outside the range of integer numbers: %g", i)
	}
	if i < 0 || i >= float64(len(list)) {
		return val{}, nil
	}
	return val{list[int(i)], a[0].at.element(int(i)).and(a[1].at)}, nil
}

// items returns a map for each field, sorted, or for each element.
func items(s *search, a []val) (val, error) {
	keyName, valueName := a[1].v.(string), a[2].v.(string)
	b := newBuilder(s, a[0], 0)
	item := func(key, value any, at *place) {
		out := val{v: map[string]any{keyName: key, valueName: value}}
		if s.tracing {
			out.at = &place{fields: map[string]*place{keyName: at, valueName: at}}
		}
		b.add(out)
	}
	switch of := a[0].v.(type) {
	case map[string]any:
		if err := s.spend(8 * len(of)); err != nil {
			return val{}, err
		}
		for _, key := range slices.Sorted(maps.Keys(of)) {
			item(key, of[key], a[0].at.field(key))
		}
	case []any:
		if err := s.spend(8 * len(of)); err != nil {
			return val{}, err
		}
		for i, v := range of {
			item(float64(i), v, a[0].at.element(i))
		}
	}
	return b.list(), nil
}

// objectFromLists pairs keys with the values at the same index; null if there are too
// few.
func objectFromLists(s *search, a []val) (val, error) {
	keys, values := a[0].v.([]any), a[1].v.([]any)
	if err := s.spend(4 * len(keys)); err != nil {
		return val{}, err
	}
	fields := make(map[string]any, len(keys))
	out := val{v: fields}
	if s.tracing {
		out.at = &place{fields: map[string]*place{}}
	}
	for i, k := range keys {
		key, ok := asText(k)
		if !ok {
			return val{at: a[0].at.element(i)}, errorf("object_from_lists", "argument #1 is not of type StringArray")
		}
		fields[key] = nil
		if i < len(values) {
			fields[key] = values[i]
		}
		if s.tracing {
			out.at.fields[key] = a[1].at.element(i).and(a[0].at.element(i))
		}
	}
	return out, nil
}

// A Parted holds the results of an expression such as items[?a].b for each element of
// the list items, so that the result without one element is found without a new search.
// It is read-only.
type Parted struct {
	expression *Expression
	rest       node // is applied to the joined results, as length(@) in items[?a].b | length(@); may be nil
	out        []any
	parts      []partCost
	all        partCost
}

// A partCost has the number of an element's results, and the cost of the search in it.
type partCost struct{ values, steps, bytes int }

// Part searches a list that is a field of the data, element by element. It returns nil
// if the expression reads the list as a whole, fails for an element, or assumes something.
func (e *Expression) Part(field string, list []any, o *Options) *Parted {
	p := &Parted{expression: e}
	root := e.root
	if s, ok := root.(*stages); ok {
		root, p.rest = s.left, s.right
	}
	if !elementwise(root, field) {
		return nil
	}
	alone, assumed := Options{}, false
	if o != nil {
		alone = *o
	}
	alone.Assumed = func(string) { assumed = true }
	for _, element := range list {
		s := newSearch(&alone)
		steps, bytes := s.steps, s.bytes
		out, err := root.eval(s, val{v: map[string]any{field: []any{element}}})
		found, ok := out.v.([]any)
		if err != nil || assumed || !ok {
			return nil
		}
		part := partCost{len(found), steps - s.steps, bytes - s.bytes}
		p.out, p.parts = append(p.out, found...), append(p.parts, part)
		p.all.add(part, 1)
	}
	return p
}

func (m *partCost) add(other partCost, times int) {
	m.values += times * other.values
	m.steps += times * other.steps
	m.bytes += times * other.bytes
}

// elementwise reports whether a node's value of a list, a field of the data, is the
// concatenation of its values of the list's elements.
func elementwise(n node, list string) bool {
	p, ok := n.(*projection)
	if !ok {
		return false
	}
	f, ok := p.of.(*field)
	return ok && f.name == list || elementwise(p.of, list)
}

// Without is Search of the list without the element of an index.
func (p *Parted) Without(index int, o *Options) (any, error) {
	made := joined{cost: p.all, list: make([]any, 0, len(p.out))}
	made.cost.add(p.parts[index], -1)
	first := 0
	for _, part := range p.parts[:index] {
		first += part.values
	}
	made.list = append(append(made.list, p.out[:first]...), p.out[first+p.parts[index].values:]...)
	e := &Expression{root: &made, made: p.expression.made}
	if p.rest != nil {
		e.root = &stages{&made, p.rest}
	}
	return e.Search(nil, o)
}

// joined is a node whose value is the list of the elements' results. Evaluating it
// counts the cost of the searches that found them.
type joined struct {
	list []any
	cost partCost
}

func (j *joined) eval(s *search, _ val) (val, error) {
	if err := s.spend(j.cost.steps); err != nil {
		return val{}, err
	}
	return val{v: j.list}, s.grow(j.cost.bytes)
}
