package jmespath

import (
	"maps"
	"math"
	"slices"
)

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
