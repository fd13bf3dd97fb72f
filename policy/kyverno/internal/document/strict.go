package document

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// The rules that errors of policies break.
const (
	ruleUnknownField = "unknown-field"
	ruleInvalid      = "invalid-policy"
)

// A shape is the schema of a field in a CustomResourceDefinition.
type shape struct {
	kind   string            // of the JSON value, in words; "" is any
	fields map[string]*shape // of a map; nil: any
	needs  []string          // required fields
	open   bool              // unknown fields are allowed
	items  *shape            // of a list, or of a map with any keys
	enum   []string
	max    int    // characters
	nested string // of a foreach in a foreach: "validate" or "mutate"
}

const (
	aMap     = "a map"
	aList    = "a list"
	aString  = "a string"
	aBoolean = "a boolean"
	aNumber  = "a whole number"
)

// A fault is an error of a policy, with its place in the object.
type fault struct {
	pointer, rule string
	message       string
	hint          string
	ignored       bool // Kyverno ignores it
}

// faults collects errors, at most one for each place.
type faults struct {
	all  []fault
	seen map[string]bool
}

func (f *faults) add(pointer, format string, args ...any) {
	f.addOnce(fault{pointer: pointer, rule: ruleInvalid, message: fmt.Sprintf(format, args...)})
}

// refuse reports whether Kyverno refuses the policy.
func (f *faults) refuse() bool {
	return slices.ContainsFunc(f.all, func(x fault) bool { return !x.ignored })
}

func (f *faults) addOnce(x fault) {
	if f.seen[x.pointer] || len(f.all) == MaxErrors {
		return
	}
	if f.seen == nil {
		f.seen = make(map[string]bool)
	}
	f.seen[x.pointer] = true
	f.all = append(f.all, x)
}

// MaxErrors bounds the reported errors of one policy.
const MaxErrors = 100

// err joins the faults, each at its place in the object.
func (f *faults) err(o *render.Object) error {
	errs := make([]error, len(f.all))
	for i, x := range f.all {
		pointer := x.pointer
		if x.rule == ruleUnknownField {
			pointer = render.KeyOf(pointer)
		}
		e := Invalid(o, o.Span(pointer), x.message)
		e.Rule, e.Hint, e.Warning = x.rule, x.hint, x.ignored
		errs[i] = e
	}
	return errors.Join(errs...)
}

// Invalid returns an error about a policy, at a place in it.
func Invalid(o *render.Object, at render.Span, message string) *render.Error {
	err := &policy.NamedError{Policy: o.GetName(), Err: errors.New(policy.Shorten(message, policy.MaxMessage))}
	return &render.Error{Span: at, Rule: ruleInvalid, Err: err}
}

// check compares a value with the shape. A null counts as missing, except in a list.
func (s *shape) check(value any, pointer string, f *faults) {
	if value != nil {
		s.checkItem(value, pointer, f)
	}
}

// checkItem compares a value that may not be null with the shape.
func (s *shape) checkItem(value any, pointer string, f *faults) {
	s = s.resolved()
	if s.kind == "" {
		return
	}
	if !s.is(value) {
		f.add(pointer, "%s is %s, not %s", Dotted(pointer), kindOf(value), s.kind)
		return
	}
	switch v := value.(type) {
	case map[string]any:
		s.checkMap(v, pointer, f)
	case []any:
		for i, item := range v {
			if s.items != nil {
				s.items.checkItem(item, pointer+"/"+strconv.Itoa(i), f)
			}
		}
	case string:
		if s.enum != nil && !slices.Contains(s.enum, v) {
			f.add(pointer, "%s is none of %s", Dotted(pointer), strings.Join(s.enum, ", "))
		}
		if s.max > 0 && utf8.RuneCountInString(v) > s.max {
			f.add(pointer, "%s is longer than %d characters", Dotted(pointer), s.max)
		}
	}
}

// resolved returns the shape. A foreach inside a foreach has the shape of the outer one.
func (s *shape) resolved() *shape {
	if s.nested == "" {
		return s
	}
	rule := shapes()["policy"].fields["spec"].fields["rules"].items
	inner := *rule.fields[s.nested].fields["foreach"].items
	inner.open = true
	return &inner
}

func (s *shape) is(value any) bool {
	got := kindOf(value)
	return got == s.kind || s.kind == aNumber && isWhole(value)
}

func isWhole(value any) bool {
	x, ok := value.(float64)
	return ok && x == float64(int64(x))
}

func (s *shape) checkMap(m map[string]any, pointer string, f *faults) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at := child(pointer, key)
		switch field := s.fields[key]; {
		case s.items != nil:
			s.items.check(m[key], at, f)
		case field != nil:
			field.check(m[key], at, f)
		case s.fields != nil && !s.open:
			f.addOnce(s.unknown(key, at))
		}
	}
	for _, key := range s.needs {
		if m[key] == nil {
			f.add(pointer, "%s has no %s", cmp.Or(Dotted(pointer), "the policy"), key)
		}
	}
}

// unknown returns the error about a field that the shape does not have, with a
// similar one as a suggestion.
func (s *shape) unknown(key, pointer string) fault {
	x := fault{pointer: pointer, rule: ruleUnknownField, message: fmt.Sprintf("unknown field %q", Dotted(pointer))}
	x.hint = render.DidYouMean(key, slices.Collect(maps.Keys(s.fields)))
	return x
}

// Dotted writes a pointer as Kubernetes writes paths: spec.rules[0].name.
func Dotted(pointer string) string {
	return policy.Shorten(render.FieldPath(pointer), policy.MaxMessage)
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return aMap
	case []any:
		return aList
	case string:
		return aString
	case bool:
		return aBoolean
	case int64:
		return aNumber
	}
	return "a number"
}
