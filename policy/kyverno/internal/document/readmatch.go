package document

import (
	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// match reads a match or exclude block. Fields outside any and all form one
// filter.
func match(x field) *Match {
	m := &Match{}
	for _, x := range x.at("any").list() {
		m.Any = append(m.Any, filter(x))
	}
	for _, x := range x.at("all").list() {
		m.All = append(m.All, filter(x))
	}
	if len(m.Any) == 0 && len(m.All) == 0 {
		if f := filter(x); f.NamesObjects() || f.listsUsers {
			m.All = []*Filter{f}
		}
	}
	return m
}

func filter(x field) *Filter {
	f := &Filter{}
	reader{}.decode(x, f)
	f.sort()
	f.listsUsers = x.at("roles").isSet() || x.at("clusterRoles").isSet() || x.at("subjects").isSet()
	if name := x.at("resources").text("name"); name != "" {
		f.both = len(f.Names) > 0
		f.Names = append(f.Names, name)
	}
	return f
}

// SelectorOf reads a label selector from a JSON value. It returns nil for nil.
func SelectorOf(value any) *Selector { return selector(field{value: value}) }

func selector(x field) *Selector {
	if !x.isSet() {
		return nil
	}
	s := &Selector{}
	reader{}.decode(x, s)
	return s
}

// manyKinds is the number of selectors from which on they are looked up by kind.
const manyKinds = 16

// sort groups the selectors of a filter that has many by the kind that they
// name, and those with wildcards under "".
func (f *Filter) sort() {
	if len(f.Kinds) < manyKinds {
		return
	}
	f.byKind = make(map[string][]KindSelector)
	for _, k := range f.Kinds {
		key := k.Kind
		if pattern.HasWildcard(key) {
			key = ""
		}
		f.byKind[key] = append(f.byKind[key], k)
	}
}
