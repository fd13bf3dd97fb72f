package kyverno

import (
	"maps"
	"math"
	"slices"
)

// Kyverno decodes every JSON number as float64. Objects here hold whole numbers
// as int64. JMESPath and conditions distinguish the two, so their values must
// be converted to Kyverno's form, and values for objects must be converted
// back.

// floats returns a value with every number as float64. Parts without other
// numbers are shared.
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

// maxExact is the limit below which float64 holds every whole number exactly.
const maxExact = 1 << 53

// integers returns a value with every whole number as int64. Parts without
// other numbers are shared.
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
