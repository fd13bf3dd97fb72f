package mutator

import (
	"errors"
	"fmt"
	"slices"

	"github.com/preadmit/preadmit/render"
)

// modifySet reads a ModifySet, which adds values to a list or removes them.
func (c *checker) modifySet(m *Mutator) {
	var p struct {
		PathTests []pathTest `json:"pathTests,omitempty"`
		Operation string     `json:"operation,omitempty"`
		Values    struct {
			FromList []any `json:"fromList,omitempty"`
		} `json:"values,omitempty"`
	}
	spec, ok := c.spec(m, &p)
	if !ok {
		return
	}
	c.kinds(m, spec.ApplyTo)
	c.notMetadata(m)
	if m.location.last().list {
		c.add("/spec/location", errors.New("location ends with elements of a list: it must be that of a list of values"))
	}
	m.tests = c.newPathTests(m.location, p.PathTests)
	if !slices.Contains([]string{"", "merge", "prune"}, p.Operation) {
		c.add("/spec/parameters/operation", fmt.Errorf("operation %q is neither merge nor prune", p.Operation))
	}
	m.terminal = shapeSet
	m.set = newSetSetter(p.Values.FromList, p.Operation == "prune")
}

// A setSetter adds missing values to a list, or removes values from it.
type setSetter struct {
	values setValues
	gator  setValues // the same, as gator reads them
	prune  bool
}

type setValues struct {
	all     []any
	keys    []string // comparison keys of values
	weights []int
	has     map[string]bool // by key
}

func newSetSetter(values []any, prune bool) *setSetter {
	floats, _ := numbers(values).([]any)
	return &setSetter{newSetValues(values), newSetValues(floats), prune}
}

func newSetValues(values []any) setValues {
	s := setValues{all: values, has: map[string]bool{}}
	for _, v := range values {
		key := exactKey(v)
		s.keys = append(s.keys, key)
		s.weights = append(s.weights, Weight(v))
		s.has[key] = true
	}
	return s
}

func (*setSetter) element() map[string]any { return nil }

func (s *setSetter) setField(x *application, object map[string]any, field string) (bool, error) {
	values := &s.values
	if x.written {
		values = &s.gator
	}
	old, was := object[field]
	list, ok := old.([]any)
	if err := x.bounds.step(len(list) + len(values.all)); err != nil {
		return false, err
	}
	switch {
	case !was && s.prune:
		return false, nil
	case !was:
		return true, values.fill(x, object, field)
	case !ok:
		return false, fmt.Errorf("it is %s, which can't be treated as a set", TypeName(old))
	case s.prune:
		rest := slices.DeleteFunc(slices.Clone(list), func(v any) bool { return values.has[exactKey(v)] })
		object[field] = rest
		return len(rest) < len(list), nil
	}
	return values.merge(x, object, field, list)
}

// fill creates the list with all values, including duplicates.
func (s *setValues) fill(x *application, object map[string]any, field string) error {
	for _, w := range s.weights {
		if err := x.bounds.add(w); err != nil {
			return err
		}
	}
	object[field] = render.Copy(append([]any{}, s.all...))
	return nil
}

func (s *setValues) merge(x *application, object map[string]any, field string, list []any) (bool, error) {
	has := make(map[string]bool, len(list)+len(s.all))
	for _, v := range list {
		has[exactKey(v)] = true
	}
	merged := slices.Clip(list)
	for i, v := range s.all {
		if has[s.keys[i]] {
			continue
		}
		if err := x.bounds.add(s.weights[i]); err != nil {
			return false, err
		}
		has[s.keys[i]] = true
		merged = append(merged, render.Copy(v))
	}
	object[field] = merged
	return len(merged) > len(list), nil
}
