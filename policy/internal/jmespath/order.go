package jmespath

import (
	"cmp"
	"slices"
)

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
