package rego

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"

	"github.com/open-policy-agent/opa/v1/ast"
	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
)

func concatenation(operands []*ast.Term) int {
	n := 0
	each(operands[1].Value, func(t *ast.Term) { n += textLen(t) })
	return n + product(textLen(operands[0]), length(operands[1].Value))
}

// templateString is a guard for Rego's own $"..." texts.
func templateString(operands []*ast.Term) int { return tree(1)(operands) }

// maxWidth bounds the width that a format may ask for.
const maxWidth = 1024

var width = regexp.MustCompile(`%[^a-zA-Z%]*[0-9]{4}|%[^a-zA-Z%]*\*`)

// isWide reports whether a format has a width beyond maxWidth, or takes its width
// from an argument.
func isWide(format string) bool {
	digits := 0
	for i := range len(format) {
		switch c := format[i]; {
		case c == '*':
			digits = 4
		case c >= '0' && c <= '9':
			digits++
		default:
			digits = 0
		}
		if digits >= 4 {
			return width.MatchString(format)
		}
	}
	return false
}

// formatting is a guard for sprintf: its widths, and arguments used more than once.
func formatting(operands []*ast.Term) int {
	format := textOf(operands[0])
	if isWide(format) {
		return tooMuch
	}
	n := tree(2)(operands[1:])
	if strings.Contains(format, "[") {
		n = product(n, strings.Count(format, "[")+1)
	}
	return len(format) + product(strings.Count(format, "%"), maxWidth/64) + n
}

// replacing is a guard for replace(text, old, new).
func replacing(operands []*ast.Term) int {
	text, old := textOf(operands[0]), textOf(operands[1])
	return len(text) + product(strings.Count(text, old), textLen(operands[2]))
}

// replacingAll is a guard for strings.replace_n(patterns, text): each byte may become
// the longest replacement.
func replacingAll(operands []*ast.Term) int {
	o, ok := operands[0].Value.(ast.Object)
	if !ok {
		return 0
	}
	text, n := textOf(operands[1]), textLen(operands[1])
	o.Foreach(func(k, v *ast.Term) {
		n += product(strings.Count(text, textOf(k)), textLen(v))
		n = min(n, tooMuch)
	})
	return n
}

// indented is a guard for indented JSON: each line begins with an indent for each
// level.
func indented(operands []*ast.Term) int {
	n := tree(2)(operands[:1])
	o, ok := operands[1].Value.(ast.Object)
	if !ok || n > maxAllocated {
		return n
	}
	each(o, func(t *ast.Term) {
		if l := textLen(t); l > 0 {
			n = product(n, l)
		}
	})
	return n
}

// maxWork bounds the steps of a regular expression's machine, some ten nanoseconds
// each.
const maxWork = 100 << 20

// matching is a guard for matching a pattern: its machine visits each byte in each of
// its states.
func matching(operands []*ast.Term) int {
	pattern, text := textOf(operands[0]), 1
	for _, o := range operands[1:] {
		text += textLen(o)
	}
	if product(states(pattern), text) > maxWork {
		return tooMuch
	}
	return 0
}

// states estimates the states of a pattern's machine.
func states(pattern string) int {
	n := len(pattern) + 1
	for _, m := range repeat.FindAllStringSubmatch(pattern, 16) {
		times, _ := strconv.Atoi(m[1])
		n = product(n, max(times, 1))
	}
	return n
}

var repeat = regexp.MustCompile(`\{(?:[0-9]*,)?([0-9]+)\}`)

// finding is a guard for functions that return a text for each match and each group.
func finding(operands []*ast.Term) int {
	if matching(operands[:2]) > maxAllocated {
		return tooMuch
	}
	groups := 1 + strings.Count(textOf(operands[0]), "(")
	return product(product(textLen(operands[1]), groups), 16)
}

// regexReplacing is a guard for regex.replace(text, pattern, value): the value may be
// inserted at each byte, beside the match's positions, and each $ in it may be the
// whole text once.
func regexReplacing(operands []*ast.Term) int {
	text, value := textLen(operands[0]), textOf(operands[2])
	if matching([]*ast.Term{operands[1], operands[0]}) > maxAllocated {
		return tooMuch
	}
	return text + product(text, len(value)+48) + product(text, strings.Count(value, "$"))
}

// intersecting is a guard for whether some text matches both of two globs, which
// takes more than their product.
func intersecting(operands []*ast.Term) int {
	if a, b := textLen(operands[0]), textLen(operands[1]); a > 256 || b > 256 {
		return tooMuch
	}
	return 0
}

// globbing is a guard for glob.match(pattern, delimiters, text), which backtracks for
// each star.
func globbing(operands []*ast.Term) int {
	pattern, text := textOf(operands[0]), textLen(operands[2])
	stars := strings.Count(pattern, "*") + strings.Count(pattern, "{") + strings.Count(pattern, ",")
	if product(product(len(pattern)+1, text+1), stars+1) > maxWork || stars > 8 && text > 4096 {
		return tooMuch
	}
	return 0
}

// schema is a guard for JSON schemas: the library would load the documents that one
// refers to, from the disk too.
func schema(operands []*ast.Term) int {
	for _, o := range operands {
		var x any
		if s, ok := o.Value.(ast.String); ok {
			_ = json.Unmarshal([]byte(s), &x) // not JSON: the function returns the error
		} else if size(o.Value, maxAllocated/64) < maxAllocated/64 {
			x = Plain(o.Value)
		} else {
			return tooMuch
		}
		if refersOut(x) {
			return outside
		}
	}
	return tree(64)(operands)
}

// refersOut reports whether a schema refers to a document outside of it.
func refersOut(x any) bool {
	for k, v := range render.Values(x) {
		if s, ok := v.(string); ok && pointsOut(k, s) {
			return true
		}
	}
	return false
}

// pointsOut reports whether a keyword of a schema names a document outside. The
// drafts' own schemas are part of the library.
func pointsOut(keyword, url string) bool {
	switch keyword {
	case "$ref":
		return !strings.HasPrefix(url, "#") && !strings.HasPrefix(url, "http://json-schema.org/draft-0")
	case "$id", "id", "$schema":
		return strings.HasPrefix(strings.ToLower(strings.TrimSpace(url)), "file:")
	}
	return false
}

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
