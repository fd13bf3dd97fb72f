package render

import (
	"hash/maphash"
	"math/bits"
	"reflect"
)

// A sharer replaces equal maps and lists below objects by one of them. Objects of one
// file are often alike, and what they share takes memory once. The objects themselves
// and their metadata stay their own.
type sharer struct {
	seed  maphash.Seed
	known map[uint64]any
}

// share makes objects that nobody else holds yet share their equal parts.
func share(objects []*Object) {
	if len(objects) < 2 {
		return
	}
	s := sharer{seed: maphash.MakeSeed(), known: make(map[uint64]any)}
	for _, o := range objects {
		for key, v := range o.Object {
			if meta, ok := v.(map[string]any); ok && key == "metadata" {
				s.parts(meta)
			} else if one, _ := s.one(v); !identical(one, v) {
				o.Object[key] = one
			}
		}
	}
}

// one returns the value to use instead of v, which is equal to it, and a hash.
func (s *sharer) one(v any) (any, uint64) {
	var sum uint64
	switch x := v.(type) {
	case map[string]any:
		sum = s.parts(x) + 1
	case []any:
		sum = uint64(len(x)) + 2
		for i, e := range x {
			one, h := s.one(e)
			if !identical(one, e) {
				x[i] = one
			}
			sum = bits.RotateLeft64(sum, 5)*0x9e3779b97f4a7c15 + h
		}
	default:
		return v, maphash.Comparable(s.seed, v)
	}
	known, ok := s.known[sum]
	if !ok {
		s.known[sum] = v
		return v, sum
	}
	if alike(known, v) {
		return known, sum
	}
	return v, sum
}

// parts shares the values of a map and returns a hash of it.
func (s *sharer) parts(m map[string]any) uint64 {
	sum := uint64(len(m))
	for key, v := range m {
		one, h := s.one(v)
		if !identical(one, v) {
			m[key] = one
		}
		sum += (maphash.String(s.seed, key) ^ bits.RotateLeft64(h, 17)) * 0x9e3779b97f4a7c15
	}
	return sum
}

// alike reports whether maps or lists are equal whose parts are shared already.
func alike(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, v := range a {
			if w, ok := b[key]; !ok || !identical(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !identical(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	return false
}

// identical reports whether two values are the same map or list, or equal scalars.
func identical(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	case []any:
		b, ok := b.([]any)
		return ok && len(a) == len(b) && reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
