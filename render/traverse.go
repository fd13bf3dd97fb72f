package render

import (
	"iter"
	"maps"
	"reflect"
	"slices"
)

// The functions here walk values of JSON: maps, lists and scalars. A value must not contain itself;
// those that [Parse] returns never do.

// Values returns v and every value in it, the outer ones first, each with its key in a map;
// the key is "" for v itself and for elements of lists. The fields of a map come in any
// order.
func Values(v any) iter.Seq2[string, any] {
	return func(yield func(key string, v any) bool) { values("", v, yield) }
}

func values(key string, v any, yield func(string, any) bool) bool {
	if !yield(key, v) {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if !values(k, e, yield) {
				return false
			}
		}
	case []any:
		for _, e := range v {
			if !values("", e, yield) {
				return false
			}
		}
	}
	return true
}

// Fields returns v and every value in it with its JSON pointer, the outer ones first and
// maps in the order of their keys. pointer is that of v.
func Fields(v any, pointer string) iter.Seq2[string, any] {
	return func(yield func(pointer string, v any) bool) {
		fields(v, pointer, "", func(at, _ string, v any) bool { return yield(at, v) })
	}
}

// Texts returns the keys and strings in v with their JSON pointers, in the order of
// [Fields].
func Texts(v any, pointer string) iter.Seq2[string, string] {
	return func(yield func(pointer, text string) bool) {
		fields(v, pointer, "", func(at, key string, v any) bool {
			text, ok := v.(string)
			return (key == "" || yield(at, key)) && (!ok || yield(at, text))
		})
	}
}

func fields(v any, pointer, key string, yield func(pointer, key string, v any) bool) bool {
	if !yield(pointer, key, v) {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !fields(v[k], pointer+Pointer(k), k, yield) {
				return false
			}
		}
	case []any:
		for i, e := range v {
			if !fields(e, pointer+Pointer(i), "", yield) {
				return false
			}
		}
	}
	return true
}

// Copy returns a deep copy of v, in which no map or list is nil.
func Copy(v any) any { return Replace(v, func(v any) any { return v }) }

// Replace returns a deep copy of v in which leaf has replaced each value that is neither a
// map nor a list.
func Replace(v any, leaf func(v any) any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = Replace(e, leaf)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = Replace(e, leaf)
		}
		return list
	}
	return leaf(v)
}

// Equal reports whether two values are the same. It is reflect.DeepEqual for JSON, several
// times as fast.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		if reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() {
			return true
		}
		for key, value := range a {
			if other, there := b[key]; !there || !Equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && (a == nil) == (b == nil) && slices.EqualFunc(a, b, Equal)
	case nil, string, bool, int64, float64:
		return a == b
	}
	return reflect.DeepEqual(a, b)
}

// Keys returns the keys of two maps, sorted.
func Keys(a, b map[string]any) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
