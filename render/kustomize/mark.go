package kustomize

import (
	"strconv"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// A mark is the place of a node in the tagged build. The marks of an object are
// in the order of its value, maps by sorted keys. They take a fraction of the
// memory of the nodes.
type mark struct {
	spot
	size int32 // number of marks, this one and those inside it
}

// marksOf returns the marks of a value that was decoded from a node.
func marksOf(value any, n *yaml.Node) []mark {
	var m marking
	m.add(value, n)
	return m
}

type marking []mark

func (m *marking) add(value any, n *yaml.Node) {
	i := len(*m)
	*m = append(*m, mark{})
	if n != nil {
		(*m)[i].spot = spotOf(n)
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
	}
	if n != nil && n.Kind == yaml.ScalarNode {
		value = nil // a hidden schema has one mark
	}
	switch v := value.(type) {
	case map[string]any:
		entry := entriesOf(n)
		for _, key := range sorted(v) {
			m.add(v[key], entry(key))
		}
	case []any:
		for j := range v {
			if n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == len(v) {
				m.add(v[j], n.Content[j])
			} else {
				m.add(v[j], nil)
			}
		}
	}
	(*m)[i].size = int32(len(*m) - i)
}

// entriesOf returns a function that finds the entries of a node by key.
func entriesOf(n *yaml.Node) func(key string) *yaml.Node {
	if n == nil {
		return func(string) *yaml.Node { return nil }
	}
	if len(n.Content) < 32 {
		return func(key string) *yaml.Node { return entryOf(n, key) }
	}
	byKey := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := len(n.Content) - 2; i >= 0 && n.Kind == yaml.MappingNode; i -= 2 {
		byKey[n.Content[i].Value] = n.Content[i+1]
	}
	return func(key string) *yaml.Node { return byKey[key] }
}

// markAt returns the spot of the mark at a path of a value, and how many elements of the
// path lead to the mark. ok is false if there is none.
func markAt(marks []mark, value any, path []string) (at spot, depth int, ok bool) {
	if len(marks) == 0 {
		return spot{}, 0, false
	}
	next := int32(0)
	for depth, key := range path {
		if marks[next].size == 1 {
			return marks[next].spot, depth, true
		}
		next++ // the first mark inside it
		switch v := value.(type) {
		case map[string]any:
			for _, k := range sorted(v) {
				if k == key {
					break
				}
				next += marks[next].size
			}
			value = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(v) {
				return spot{}, 0, false
			}
			for range i {
				next += marks[next].size
			}
			value = v[i]
		default:
			return spot{}, 0, false
		}
	}
	return marks[next].spot, len(path), true
}
