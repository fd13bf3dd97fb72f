package kyverno

import (
	"maps"
	"math"
	"slices"
)

// In Kyverno's JSON every number is a float64, in ours whole ones are int64.
// What JMESPath and conditions see has to be Kyverno's, since they tell the
// two apart; what goes into objects has to be ours.

// floats is a value with every number a float64. It shares what has no others.
func floats(value any) any {
	return converted(value, func(v any) (any, bool) {
		switch n := v.(type) {
		case int64:
			return float64(n), true
		case int:
			return float64(n), true
		}
		return v, false
	})
}

// maxExact is where float64 stops having every whole number.
const maxExact = 1 << 53

// integers is a value with every whole number an int64. It shares what has no
// others.
func integers(value any) any {
	return converted(value, func(v any) (any, bool) {
		if n, ok := v.(float64); ok && n == math.Trunc(n) && math.Abs(n) < maxExact {
			return int64(n), true
		}
		return v, false
	})
}

func converted(value any, leaf func(any) (any, bool)) any {
	v, _ := convert(value, leaf)
	return v
}

func convert(value any, leaf func(any) (any, bool)) (any, bool) {
	switch t := value.(type) {
	case map[string]any:
		var made map[string]any
		for k, v := range t {
			n, changed := convert(v, leaf)
			if changed && made == nil {
				made = maps.Clone(t)
			}
			if changed {
				made[k] = n
			}
		}
		if made != nil {
			return made, true
		}
	case []any:
		var made []any
		for i, v := range t {
			n, changed := convert(v, leaf)
			if changed && made == nil {
				made = slices.Clone(t)
			}
			if changed {
				made[i] = n
			}
		}
		if made != nil {
			return made, true
		}
	default:
		return leaf(value)
	}
	return value, false
}
