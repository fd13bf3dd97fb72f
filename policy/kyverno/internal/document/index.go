package document

import (
	"maps"
	"slices"

	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// An Index finds the policies that may apply to objects of a kind.
type Index struct {
	byKind map[string][]*Policy // of kinds that some policy names
	any    []*Policy            // of every other kind
}

// NewIndex returns an index that keeps the order of the policies.
func NewIndex(policies []*Policy) *Index {
	x := &Index{byKind: make(map[string][]*Policy)}
	kinds := make([]kindSet, len(policies))
	for i, p := range policies {
		kinds[i] = p.kinds()
		for kind := range kinds[i].named {
			x.byKind[kind] = nil
		}
	}
	for i, p := range policies {
		for kind := range kinds[i].named {
			x.byKind[kind] = append(x.byKind[kind], p)
		}
		if len(kinds[i].wild) > 0 {
			x.any = append(x.any, p)
			x.addWild(p, kinds[i])
		}
	}
	return x
}

// addWild adds the policy to the kinds that its wildcards match.
func (i *Index) addWild(p *Policy, s kindSet) {
	for kind := range i.byKind {
		if !s.named[kind] && pattern.AnyWildcard(s.wild, kind) {
			i.byKind[kind] = append(i.byKind[kind], p)
		}
	}
}

// For returns the policies that may apply to objects of the kind, in order.
func (i *Index) For(kind string) []*Policy {
	if policies, ok := i.byKind[kind]; ok {
		return policies
	}
	return i.any
}

// Names reports whether some policy names the kind without wildcards.
func (i *Index) Names(kind string) bool {
	_, ok := i.byKind[kind]
	return ok
}

// A kindSet holds the kinds that a policy names, with and without wildcards.
type kindSet struct {
	named map[string]bool
	wild  []string
}

func (p *Policy) kinds() kindSet {
	s := kindSet{named: make(map[string]bool)}
	for _, r := range p.Rules {
		s.add(r.Match)
	}
	for _, kind := range slices.Sorted(maps.Keys(p.controllers)) {
		for _, r := range p.controllers[kind] {
			s.add(r.Match)
		}
	}
	return s
}

// MayMatch reports whether the block may select objects of a kind.
func (m *Match) MayMatch(kind string) bool {
	s := kindSet{named: make(map[string]bool)}
	s.add(m)
	return s.named[kind] || pattern.AnyWildcard(s.wild, kind)
}

func (k *kindSet) add(m *Match) {
	for _, f := range m.Filters() {
		if len(f.Kinds) == 0 {
			k.wild = append(k.wild, "*")
		}
		for _, kind := range f.Kinds {
			if pattern.HasWildcard(kind.Kind) {
				k.wild = append(k.wild, kind.Kind)
			} else {
				k.named[kind.Kind] = true
			}
		}
	}
}
