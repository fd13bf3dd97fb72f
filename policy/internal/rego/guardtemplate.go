package rego

import (
	"slices"
	"strings"
	"text/template/parse"

	"github.com/open-policy-agent/opa/v1/ast"
)

// template is a guard for strings.render_template. Templates may not call templates,
// nor store a text that they print, since both multiply output. The values that they
// range over count.
func template(operands []*ast.Term) int {
	text := textOf(operands[0])
	trees := map[string]*parse.Tree{}
	t := parse.New("template")
	t.Mode = parse.SkipFuncCheck
	if _, err := t.Parse(text, "", "", trees); err != nil {
		return 0 // not a template: the function returns the error
	}
	if len(trees) > 1 || isWide(text) || strings.Contains(text, "range") && counts(operands[1].Value) {
		return tooMuch
	}
	values := size(operands[1].Value, maxTree)
	return templateCost(t.Root, values)
}

// templateCost estimates how much a part of a template writes if no value is larger
// than values.
func templateCost(n parse.Node, values int) int {
	switch n := n.(type) {
	case nil:
		return 0
	case *parse.TextNode:
		return len(n.Text)
	case *parse.ListNode:
		return listCost(n, values)
	case *parse.ActionNode:
		if len(n.Pipe.Decl) > 0 && calls(n.Pipe) {
			return tooMuch
		}
		return product(values, len(n.String()))
	case *parse.IfNode:
		return branchCost(&n.BranchNode, values)
	case *parse.WithNode:
		return branchCost(&n.BranchNode, values)
	case *parse.RangeNode:
		if hasNumber(n.Pipe) {
			return tooMuch
		}
		return product(branchCost(&n.BranchNode, values), values+1)
	case *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
		return 0
	}
	return tooMuch
}

func listCost(n *parse.ListNode, values int) int {
	sum := 0
	if n == nil {
		return 0
	}
	for _, x := range n.Nodes {
		sum = min(sum+templateCost(x, values), tooMuch)
	}
	return sum
}

func branchCost(n *parse.BranchNode, values int) int {
	if calls(n.Pipe) && len(n.Pipe.Decl) > 0 || makesText(n.Pipe) {
		return tooMuch
	}
	return min(listCost(n.List, values)+listCost(n.ElseList, values), tooMuch)
}

// calls reports whether a pipe calls a function, which may return a text.
func calls(p *parse.PipeNode) bool { return len(p.Cmds) > 1 || makesText(p) }

// makesText reports whether a pipe calls a function that prints.
func makesText(p *parse.PipeNode) bool {
	return hasArgument(p, func(a parse.Node) bool {
		f, ok := a.(*parse.IdentifierNode)
		return ok && slices.Contains([]string{"print", "printf", "println", "html", "js", "urlquery"}, f.Ident)
	})
}

// hasNumber reports whether a pipe names a number, to which a range would count.
func hasNumber(p *parse.PipeNode) bool {
	return hasArgument(p, func(a parse.Node) bool { _, ok := a.(*parse.NumberNode); return ok })
}

// hasArgument reports whether is holds for a part of a pipe, or of a pipe in it.
func hasArgument(p *parse.PipeNode, is func(parse.Node) bool) bool {
	return slices.ContainsFunc(p.Cmds, func(c *parse.CommandNode) bool {
		return slices.ContainsFunc(c.Args, func(a parse.Node) bool {
			below, ok := a.(*parse.PipeNode)
			return is(a) || ok && hasArgument(below, is)
		})
	})
}

// counts reports whether a value holds a number to which a range would count for
// long.
func counts(v ast.Value) bool {
	if n, ok := v.(ast.Number); ok {
		f, _ := n.Float64()
		return f > 1000
	}
	found := false
	each(v, func(t *ast.Term) { found = found || counts(t.Value) })
	return found
}
