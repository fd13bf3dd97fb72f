package document

import (
	"regexp"
	"strings"

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

// isVersion matches a version, unlike a group or a kind.
var isVersion = regexp.MustCompile(`^(v\d+((alpha|beta)\d+)?|\*)$`)

// kindSelector parses an entry of kinds: Kind, version/Kind or
// group/version/Kind, each with an optional /subresource or .subresource. One
// with more parts selects nothing.
func kindSelector(s string) KindSelector {
	parts := strings.Split(s, "/")
	last := len(parts) - 1
	parts = append(parts[:last], strings.Split(parts[last], ".")...)
	k := KindSelector{Group: "*", Version: "*"}
	switch len(parts) {
	case 1:
		k.Kind = parts[0]
	case 2:
		k.twoParts(parts[0], parts[1])
	case 3:
		if isVersion.MatchString(parts[0]) {
			k.Version, k.Kind, k.Subresource = parts[0], parts[1], parts[2]
		} else {
			k.Group, k.Version, k.Kind = parts[0], parts[1], parts[2]
		}
	case 4:
		k.Group, k.Version, k.Kind, k.Subresource = parts[0], parts[1], parts[2], parts[3]
	default:
		return KindSelector{}
	}
	return k
}

func (k *KindSelector) twoParts(a, b string) {
	switch {
	case a == "*" && strings.ToLower(b) == b: // */scale, and */*
		k.Kind, k.Subresource = "*", b
	case isVersion.MatchString(a):
		k.Version, k.Kind = a, b
	default:
		k.Kind, k.Subresource = a, b
	}
}
