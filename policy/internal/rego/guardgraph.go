package rego

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"
)

// reachable replaces graph.reachable: it returns the initial nodes and those that
// edges lead to. OPA's own visits a node as often as it is found, which is
// exponential in a graph of layers.
func reachable(_ topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
	graph, err := builtins.ObjectOperand(operands[0].Value, 1)
	if err != nil {
		return err
	}
	switch operands[1].Value.(type) {
	case *ast.Array, ast.Set:
	default:
		return builtins.NewOperandTypeErr(2, operands[1].Value, "{array, set}")
	}
	seen := ast.NewSet()
	var queue []*ast.Term
	visit := func(t *ast.Term) {
		if graph.Get(t) != nil && !seen.Contains(t) {
			seen.Add(t)
			queue = append(queue, t)
		}
	}
	eachNode(operands[1].Value, visit)
	for ; len(queue) > 0; queue = queue[1:] {
		eachNode(graph.Get(queue[0]).Value, visit)
	}
	return iter(ast.NewTerm(seen))
}

// eachNode calls f for the nodes that edges lead to, an array or a set.
func eachNode(v ast.Value, f func(*ast.Term)) {
	switch v.(type) {
	case *ast.Array, ast.Set:
		each(v, f)
	}
}

// maxPaths bounds the steps of all paths of a graph together.
const maxPaths = 1 << 20

// paths is a guard for graph.reachable_paths, which walks all paths.
func paths(operands []*ast.Term) int {
	graph, ok := operands[0].Value.(ast.Object)
	if !ok {
		return 0
	}
	left := maxPaths
	on := ast.NewSet()
	var walk func(t *ast.Term, depth int)
	walk = func(t *ast.Term, depth int) {
		left -= depth
		edges := graph.Get(t)
		if left < 0 || edges == nil || on.Contains(t) {
			return
		}
		on.Add(t)
		eachNode(edges.Value, func(n *ast.Term) {
			if left >= 0 {
				walk(n, depth+1)
			}
		})
		on = on.Diff(ast.NewSet(t))
	}
	eachNode(operands[1].Value, func(t *ast.Term) { walk(t, 1) })
	if left < 0 {
		return tooMuch
	}
	return product(maxPaths-left, 64)
}
