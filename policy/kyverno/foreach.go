package kyverno

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
)

// maxElements is the most elements over which a rule's foreach may run, nested
// ones included.
const maxElements = 100_000

// A list is the compiled foreach.list.
type list struct {
	text *template // set if the expression contains variables
	expr *jmespath.Expression
	err  error
}

func newList(text string) *list {
	if t := newTemplate(text); !t.static {
		return &list{text: t}
	}
	expr, err := jmespath.Compile(text)
	return &list{expr: expr, err: err}
}

func (l *list) expression(s *scope) (*jmespath.Expression, error) {
	if l.text == nil {
		return l.expr, l.err
	}
	v, err := l.text.fill(s)
	if err != nil {
		return nil, err
	}
	text, err := textOf(v)
	if err != nil {
		return nil, err
	}
	return jmespath.Compile(text)
}

// elements evaluates the list. A value that is not a list counts as a list with
// that one element.
func (l *list) elements(s *scope) ([]any, *jmespath.Expression, error) {
	expr, err := l.expression(s)
	if err != nil {
		return nil, nil, err
	}
	v, err := s.query(expr, needs(expr.String()))
	if err != nil {
		return nil, nil, err
	}
	if elements, ok := v.([]any); ok {
		return elements, expr, nil
	}
	return []any{v}, expr, nil
}

// A loop is an entry of validate.foreach.
type loop struct {
	list   *list
	scope  *bool
	clause *clause
}

func newLoops(entries []*document.ForeachValidate) []*loop {
	var loops []*loop
	for _, f := range entries {
		c := &clause{pointer: f.Pointer, entries: newEntries(f.Context), preconditions: newBlock(f.Preconditions), loops: newLoops(f.Foreach)}
		c.denies, c.deny = newDeny(f.Deny)
		if f.HasPattern {
			c.pattern = newComparison(newTemplate(f.Pattern))
		}
		c.anyPattern = newComparisons(f.AnyPattern)
		loops = append(loops, &loop{list: newList(f.List), scope: f.ElementScope, clause: c})
	}
	return loops
}

// evaluateLoops evaluates all entries of a foreach. It returns nil if no
// element got a verdict.
func (r *run) evaluateLoops(loops []*loop, s *scope, at *element) *verdict {
	applied := 0
	r.nesting++
	defer func() { r.nesting-- }()
	for _, l := range loops {
		elements, expr, err := l.list.elements(s)
		traced := s.review.trace.list(l.clause.pointer, s, expr, elements, err)
		switch {
		case jmespath.IsNotFound(err) || err != nil && applied > 0:
			continue
		case err != nil:
			return broken("failed to evaluate list", err)
		}
		for i, e := range elements {
			if e == nil {
				continue
			}
			traced.begin(i, e)
			v := r.evaluateElement(l, expr, s, at, i, e)
			traced.end(v)
			if v == nil || v.status == StatusSkip || excused(v) {
				continue
			}
			if v.status != StatusPass {
				return v
			}
			applied++
		}
	}
	switch err := r.review.spend(0); {
	case err != nil:
		return broken("failed to process foreach", err)
	case applied == 0:
		return nil
	}
	return &verdict{status: StatusPass, message: "rule passed"}
}

// excused reports whether an element counts as skipped, because its
// preconditions, or nested ones, could not be evaluated.
func excused(v *verdict) bool {
	return v.status == StatusError && strings.Contains(v.message, "failed to evaluate preconditions")
}

func (r *run) evaluateElement(l *loop, expr *jmespath.Expression, s *scope, at *element, i int, e any) *verdict {
	if r.elements++; r.elements > maxElements {
		return broken("failed to process foreach", fmt.Errorf("it has more than %d elements", maxElements))
	}
	if err := r.review.spend(0); err != nil {
		return broken("failed to process foreach", err)
	}
	where := s.pointerOf(expr, i, e)
	at, err := scoped(l.scope, at, e, where)
	if err != nil {
		return failure(broken("failed to process foreach", err))
	}
	inner := s.inner(elementNames(r.nesting-1, i, e, where), l.clause.entries)
	v := l.clause.evaluate(r, inner, at)
	if v == nil || v.status == StatusPass || v.status == StatusSkip {
		return v
	}
	return failure(v)
}

// failure returns the verdict of a foreach after an element failed.
func failure(v *verdict) *verdict {
	v.message = "validation failure: " + v.message
	return v
}

// scoped returns the value that patterns match inside an element: the element itself
// if it is a map, unless elementScope is false, and otherwise the value that they
// match outside of the foreach.
func scoped(scope *bool, outer *element, e any, where func() string) (*element, error) {
	m, ok := e.(map[string]any)
	switch {
	case scope != nil && *scope && !ok:
		return nil, errScope
	case scope != nil && !*scope, !ok:
		return outer, nil
	default:
		return &element{value: m, pointer: where}, nil
	}
}

// pointerOf returns a function that finds an element's pointer in the object
// when it is first called.
func (s *scope) pointerOf(expr *jmespath.Expression, i int, e any) func() string {
	var at string
	done := false
	return func() string {
		if !done {
			at, done = s.elementPointer(expr, i, e), true
		}
		return at
	}
}

// elementNames returns the names that foreach binds for an element.
func elementNames(nesting, i int, e any, where func() string) []binding {
	depth := strconv.Itoa(nesting)
	return []binding{
		{name: "element", value: e, pointer: where},
		{name: "element" + depth, value: e, pointer: where},
		{name: "elementIndex", value: int64(i)},
		{name: "elementIndex" + depth, value: int64(i)},
	}
}
