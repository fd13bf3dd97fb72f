package kyverno

import (
	"maps"
	"slices"
	"strings"
)

// mocked returns the values that a test supplies for a rule, as a tree, or nil
// if there are none.
func (r *review) mocked(rule *Rule) map[string]any {
	own := rule.Name
	if rule.Base != nil {
		own = rule.Base.Name
	}
	sets := []map[string]any{r.mocks.Variables, r.mocks.Rules[own], r.mocks.Foreach[own]}
	var tree map[string]any
	for _, set := range sets {
		if len(set) == 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(set)) {
			if tree == nil {
				tree = map[string]any{}
			}
			plant(tree, splitName(name), floats(set[name]))
		}
	}
	return tree
}

// splitName splits a dotted name. A quoted part keeps its dots.
func splitName(name string) []string {
	var parts []string
	var part strings.Builder
	quoted := false
	for _, c := range name {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '.' && !quoted:
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteRune(c)
		}
	}
	return append(parts, part.String())
}

func plant(tree map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		below, ok := tree[name].(map[string]any)
		if ok {
			below = maps.Clone(below)
		} else {
			below = map[string]any{}
		}
		tree[name] = below
		tree = below
	}
	tree[path[len(path)-1]] = value
}

// merge returns a map with the entries of both. Where both have a key, maps are
// merged and otherwise over wins. It changes neither argument.
func merge(under, over map[string]any) map[string]any {
	made := maps.Clone(under)
	for k, v := range over {
		inner, ok := v.(map[string]any)
		if below, both := made[k].(map[string]any); ok && both {
			made[k] = merge(below, inner)
			continue
		}
		made[k] = v
	}
	return made
}
