package jmespath

import (
	"fmt"
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
