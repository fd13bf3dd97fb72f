package kustomize

import (
	"strconv"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// A mark is the place of a node in the tagged build. The marks of an object are
// in the order of its value, maps by sorted keys. They take a fraction of the
// memory of the nodes.
type mark struct {
	line, column int32
	size         int32 // number of marks, this one and those inside it
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
		(*m)[i].line, (*m)[i].column = int32(n.Line), int32(n.Column)
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

// markAt returns the line and column of the mark at a path of a value, 0 when
// there is none, and how many elements of the path lead to the mark.
func markAt(marks []mark, value any, path []string) (line, column, depth int) {
	if len(marks) == 0 {
		return 0, 0, 0
	}
	at := int32(0)
	for depth, key := range path {
		if marks[at].size == 1 {
			return int(marks[at].line), int(marks[at].column), depth
		}
		at++ // the first mark inside it
		switch v := value.(type) {
		case map[string]any:
			for _, k := range sorted(v) {
				if k == key {
					break
				}
				at += marks[at].size
			}
			value = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(v) {
				return 0, 0, 0
			}
			for range i {
				at += marks[at].size
			}
			value = v[i]
		default:
			return 0, 0, 0
		}
	}
	return int(marks[at].line), int(marks[at].column), len(path)
}
