package rego

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"go.yaml.in/yaml/v3"
)

// yamlText is a guard for functions that read YAML: decoding an alias takes as much
// memory as its value.
func yamlText(operands []*ast.Term) int {
	text := textOf(operands[0])
	n := product(len(text), 64)
	if n > maxAllocated || !strings.Contains(text, "*") {
		return n
	}
	var doc yaml.Node
	if yaml.Unmarshal([]byte(text), &doc) != nil {
		return n // the function returns the error
	}
	written := writtenOut{known: map[*yaml.Node]int{}}
	return min(tooMuch, n+product(written.size(&doc), 4))
}

// writtenOut counts the bytes of YAML with its aliases expanded.
type writtenOut struct{ known map[*yaml.Node]int }

func (w *writtenOut) size(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	if size, ok := w.known[n]; ok {
		return size // 0 for an alias within its own anchor, which the function refuses
	}
	w.known[n] = 0
	size := 8 + len(n.Value) + w.size(n.Alias)
	for _, c := range n.Content {
		size = min(tooMuch, size+w.size(c))
	}
	w.known[n] = size
	return size
}

// occurrences is a guard for functions that return the place of each occurrence of a
// text.
func occurrences(operands []*ast.Term) int {
	const place = 96 // bytes of a number in a list
	text := textOf(operands[0])
	return len(text) + product(strings.Count(text, textOf(operands[1])), place)
}
