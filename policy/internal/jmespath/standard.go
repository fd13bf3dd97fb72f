package jmespath

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// finite returns a number as a function's result, if JSON can hold it.
func finite(function string, x float64) (val, error) {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return val{}, errorf(function, "the result is not a number that JSON can hold")
	}
	return val{v: x}, nil
}

func abs(_ *search, a []val) (val, error)   { return val{v: math.Abs(a[0].v.(float64))}, nil }
func ceil(_ *search, a []val) (val, error)  { return val{v: math.Ceil(a[0].v.(float64))}, nil }
func floor(_ *search, a []val) (val, error) { return val{v: math.Floor(a[0].v.(float64))}, nil }

func average(_ *search, a []val) (val, error) {
	list := a[0].v.([]any)
	if len(list) == 0 {
		return val{}, nil
	}
	total := 0.0
	for _, x := range list {
		total += x.(float64)
	}
	return finite("avg", total/float64(len(list)))
}

// contains searches a text in a text, or a scalar in a list.
func contains(s *search, a []val) (val, error) {
	if in, ok := a[0].v.(string); ok {
		what, ok := a[1].v.(string)
		return val{v: ok && strings.Contains(in, what)}, s.spend(len(in) / 64)
	}
	list := a[0].v.([]any)
	if err := s.spend(len(list)); err != nil {
		return val{}, err
	}
	for i, x := range list {
		if sameScalar(x, a[1].v) {
			return val{true, s.derivedPlace(a[0].at.element(i), a[1].at)}, nil
		}
	}
	return val{v: false}, nil
}

func startsWith(_ *search, a []val) (val, error) {
	return val{v: strings.HasPrefix(a[0].v.(string), a[1].v.(string))}, nil
}

func endsWith(_ *search, a []val) (val, error) {
	return val{v: strings.HasSuffix(a[0].v.(string), a[1].v.(string))}, nil
}

func join(s *search, a []val) (val, error) {
	separator, list := a[0].v.(string), a[1].v.([]any)
	words := make([]string, len(list))
	for i, w := range list {
		words[i] = w.(string)
		if err := s.grow(len(words[i]) + len(separator)); err != nil {
			return val{}, err
		}
	}
	return val{v: strings.Join(words, separator)}, nil
}

// keys are sorted; Kyverno's order is random.
func keys(s *search, a []val) (val, error) {
	fields := a[0].v.(map[string]any)
	b := newBuilder(s, a[0], len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		b.add(val{key, a[0].at.field(key)})
	}
	return b.list(), s.spend(len(fields))
}

func fieldValues(s *search, a []val) (val, error) {
	fields := a[0].v.(map[string]any)
	b := newBuilder(s, a[0], len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		b.add(val{fields[key], a[0].at.field(key)})
	}
	return b.list(), s.spend(len(fields))
}

func length(s *search, a []val) (val, error) {
	switch v := a[0].v.(type) {
	case string:
		return val{v: float64(utf8.RuneCountInString(v))}, s.spend(len(v) / 64)
	case []any:
		return val{v: float64(len(v))}, nil
	}
	return val{v: float64(len(a[0].v.(map[string]any)))}, nil
}

func mapped(s *search, a []val) (val, error) {
	ref, list := a[0].v.(*reference), a[1].v.([]any)
	b := newBuilder(s, a[1], len(list))
	for i, x := range list {
		out, err := s.apply(ref, val{x, a[1].at.element(i)})
		if err != nil {
			return out, err
		}
		b.add(out)
	}
	return b.list(), nil
}

func merge(s *search, a []val) (val, error) {
	merged := map[string]any{}
	out := val{v: merged}
	if s.tracing {
		out.at = &place{fields: map[string]*place{}}
	}
	for _, m := range a {
		fields, ok := m.v.(map[string]any)
		if !ok {
			return val{}, plainf("merge", "Invalid type for an argument of merge, expected: %s", object)
		}
		if err := s.spend(len(fields)); err != nil {
			return val{}, err
		}
		for key, v := range fields {
			merged[key] = v
			if s.tracing {
				out.at.fields[key] = m.at.field(key)
			}
		}
	}
	return out, nil
}

func notNull(_ *search, a []val) (val, error) {
	for i, v := range a {
		if v.v == nil {
			continue
		}
		for _, skipped := range a[:i] {
			v.at = v.at.and(skipped.at)
		}
		return v, nil
	}
	return val{}, nil
}

func reverse(s *search, a []val) (val, error) {
	if text, ok := a[0].v.(string); ok {
		runes := []rune(text)
		slices.Reverse(runes)
		return val{v: string(runes)}, s.grow(len(text))
	}
	list := a[0].v.([]any)
	b := newBuilder(s, a[0], len(list))
	for i, v := range slices.Backward(list) {
		b.add(val{v, a[0].at.element(i)})
	}
	return b.list(), s.spend(len(list))
}

func toList(s *search, a []val) (val, error) {
	if _, ok := a[0].v.([]any); ok {
		return a[0], nil
	}
	b := newBuilder(s, a[0], 1)
	b.add(a[0])
	return b.list(), nil
}

// toNumber parses a text; null if it is not a number.
func toNumber(_ *search, a []val) (val, error) {
	switch v := a[0].v.(type) {
	case float64:
		return val{v: v}, nil
	case string:
		if x, err := strconv.ParseFloat(v, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
			return val{v: x}, nil
		}
	case int, int64:
		return val{}, plainf("to_number", "unknown type")
	}
	return val{}, nil
}

// toString returns texts as they are, other values as Go's JSON, with <, > and &
// escaped.
func toString(s *search, a []val) (val, error) {
	if text, ok := a[0].v.(string); ok {
		return val{v: text}, nil
	}
	if err := s.spendPrinted(a[0].v); err != nil {
		return val{}, err
	}
	text, err := json.Marshal(a[0].v)
	if err != nil {
		return val{}, plain("to_string", err)
	}
	return val{v: string(text)}, nil
}

// spendPrinted counts the values in v and their text, as if printed.
func (s *search) spendPrinted(v any) error {
	if err := s.spend(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		return s.grow(len(v) + 2)
	case map[string]any:
		for key, x := range v {
			if err := cmp.Or(s.grow(len(key)+4), s.spendPrinted(x)); err != nil {
				return err
			}
		}
	case []any:
		for _, x := range v {
			if err := s.spendPrinted(x); err != nil {
				return err
			}
		}
	}
	return s.grow(8)
}

func typeOf(_ *search, a []val) (val, error) {
	switch a[0].v.(type) {
	case nil:
		return val{v: "null"}, nil
	case bool:
		return val{v: "boolean"}, nil
	case float64:
		return val{v: "number"}, nil
	case string:
		return val{v: "string"}, nil
	case []any:
		return val{v: "array"}, nil
	case map[string]any:
		return val{v: "object"}, nil
	}
	return val{}, plainf("type", "unknown type")
}

// compareScalars orders two numbers or two texts. ok is false for other values.
func compareScalars(a, b any) (order int, ok bool) {
	switch a := a.(type) {
	case float64:
		if b, ok := b.(float64); ok {
			return cmp.Compare(a, b), true
		}
	case string:
		if b, ok := b.(string); ok {
			return cmp.Compare(a, b), true
		}
	}
	return 0, false
}

func largest(_ *search, a []val) (val, error)  { return extreme(a[0], 1), nil }
func smallest(_ *search, a []val) (val, error) { return extreme(a[0], -1), nil }

// extreme returns the first greatest element, or for sign -1 the first least one.
func extreme(of val, sign int) val {
	list := of.v.([]any)
	if len(list) == 0 {
		return val{}
	}
	best := 0
	for i, v := range list {
		if order, _ := compareScalars(v, list[best]); order*sign > 0 {
			best = i
		}
	}
	return val{list[best], of.at.element(best)}
}

func largestBy(s *search, a []val) (val, error)  { return extremeBy(s, a, 1) }
func smallestBy(s *search, a []val) (val, error) { return extremeBy(s, a, -1) }

func extremeBy(s *search, a []val, sign int) (val, error) {
	list, ref := a[0].v.([]any), a[1].v.(*reference)
	best, bestKey := 0, any(nil)
	for i, v := range list {
		if len(list) == 1 {
			break
		}
		key, err := s.apply(ref, val{v, a[0].at.element(i)})
		if err != nil {
			return key, err
		}
		if i == 0 {
			bestKey = key.v
		}
		order, ok := compareScalars(key.v, bestKey)
		if !ok {
			return val{at: key.at}, wrongKey(bestKey)
		}
		if order*sign > 0 {
			best, bestKey = i, key.v
		}
	}
	if len(list) == 0 {
		return val{}, nil
	}
	return val{list[best], a[0].at.element(best)}, nil
}

func wrongKey(wanted any) error {
	switch wanted.(type) {
	case float64:
		return plainf("max_by", "invalid type, must be number")
	case string:
		return plainf("max_by", "invalid type, must be string")
	}
	return plainf("max_by", "invalid type, must be number of string")
}

func sorted(s *search, a []val) (val, error) {
	list := a[0].v.([]any)
	return permuted(s, a[0], list)
}

func sortedBy(s *search, a []val) (val, error) {
	list, ref := a[0].v.([]any), a[1].v.(*reference)
	if len(list) < 2 {
		return a[0], nil
	}
	by := make([]any, len(list))
	for i, v := range list {
		key, err := s.apply(ref, val{v, a[0].at.element(i)})
		if err != nil {
			return key, err
		}
		by[i] = key.v
		if _, ok := compareScalars(key.v, key.v); !ok && i == 0 {
			return val{at: key.at}, plainf("sort_by", "invalid type, must be number of string")
		}
		if _, ok := compareScalars(key.v, by[0]); !ok {
			return val{at: key.at}, plainf("sort_by", "error in sort_by comparison")
		}
	}
	return permuted(s, a[0], by)
}

// permuted returns a list in the order of its keys, which must be comparable.
func permuted(s *search, of val, keys []any) (val, error) {
	if err := s.spend(8 * len(keys)); err != nil {
		return val{}, err
	}
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		c, _ := compareScalars(keys[i], keys[j])
		return c
	})
	list := of.v.([]any)
	b := newBuilder(s, of, len(list))
	for _, i := range order {
		b.add(val{list[i], of.at.element(i)})
	}
	return b.list(), nil
}
