// Package gotemplate executes Go templates of the repository with the functions of sprig. A
// template that needs more than the limits is an error, never a hang, and functions that look at
// the process or the clock fail.
package gotemplate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// Limits of a template.
const (
	maxText  = 1 << 20   // bytes of a template's output, or of a function's result
	maxParts = 100_000   // maps, lists and scalars in a function's result
	maxDepth = 100       // nested maps and lists in a function's result
	maxSteps = 1_000_000 // loop iterations and function calls in one execution
	maxCalls = 500       // nested calls of templates
	maxTpls  = 3         // nested calls of tpl, as in Argo CD
)

// Options configure the parsing of a template.
type Options struct {
	Options     []string // of text/template, such as "missingkey=error"
	Left, Right string   // delimiters; "" is {{ and }}
	Data        string   // name of a function that returns the parameters; "" for none
	Tpl         bool     // the function tpl renders a text as a template
	Operator    bool     // the functions are those of flux-operator, not of Argo CD
}

// A Template is parsed once and may be executed many times, by one goroutine at
// a time.
type Template struct {
	Uses [][]string // paths of the parameters in its text

	ctx    context.Context
	text   string
	tree   *template.Template
	data   any  // the parameters of the current execution
	byName bool // a function returns the parameters, and dot is nil
	steps  int
	depth  int // of nested template calls
	tpls   int // nested calls of tpl
}

// Parse parses a template.
func Parse(ctx context.Context, text string, o Options) (*Template, error) {
	if !valid(o.Options) {
		return nil, fmt.Errorf("goTemplateOptions has an option that Go's templates don't know: %s", strings.Join(o.Options, ", "))
	}
	t := &Template{ctx: ctx, text: text}
	fns := t.functions()
	if o.Operator {
		t.operator(fns)
	}
	if o.Data != "" {
		t.byName = true
		fns[o.Data] = func() any { return t.data }
	}
	if o.Tpl {
		fns["tpl"] = t.guard(t.tpl)
	}
	tree, err := template.New("").Delims(o.Left, o.Right).Funcs(fns).Option(o.Options...).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("template can't be parsed: %w", Brief(err))
	}
	t.tree = tree
	t.prepare(tree, nil)
	return t, nil
}

// prepare reads and changes the parsed templates, except known ones.
func (t *Template) prepare(tree *template.Template, known []*parse.Tree) {
	for _, defined := range tree.Templates() {
		if defined.Tree != nil && !slices.Contains(known, defined.Tree) {
			unsorted(defined.Root, false)
			t.read(defined.Root)
		}
	}
}

// tpl renders a text with the templates that this one defines.
func (t *Template) tpl(text string, params any) (string, error) {
	if t.tpls++; t.tpls > maxTpls {
		return "", fmt.Errorf("calls tpl to a depth of more than %d", maxTpls)
	}
	uses := t.Uses
	defer func() { t.tpls, t.Uses = t.tpls-1, uses }()
	tree, err := t.tree.Clone()
	if err != nil {
		return "", err
	}
	var known []*parse.Tree
	for _, defined := range tree.Templates() {
		known = append(known, defined.Tree)
	}
	if tree, err = tree.New("").Parse(text); err != nil {
		return "", fmt.Errorf("tpl can't parse its text: %w", Brief(err))
	}
	t.prepare(tree, known)
	out := &bounded{}
	if err := tree.Execute(out, params); err != nil {
		return "", Brief(err)
	}
	return strings.ReplaceAll(out.String(), "<no value>", ""), nil
}

// valid reports whether options are known to text/template, which panics at others.
func valid(options []string) bool {
	return !slices.ContainsFunc(options, func(o string) bool {
		return !slices.Contains([]string{"missingkey=default", "missingkey=invalid", "missingkey=zero", "missingkey=error"}, o)
	})
}

// read records the parameters that a template uses, and inserts calls that count each loop
// iteration and each call of a template.
func (t *Template) read(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		nodes := make([]parse.Node, 0, len(n.Nodes))
		for _, child := range n.Nodes {
			t.read(child)
			if child.Type() == parse.NodeTemplate {
				nodes = append(nodes, call("__enter", child.Position()), child, call("__leave", child.Position()))
			} else {
				nodes = append(nodes, child)
			}
		}
		n.Nodes = nodes
	case *parse.ActionNode:
		t.read(n.Pipe)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for _, cmd := range n.Cmds {
			for _, arg := range cmd.Args {
				t.read(arg)
			}
		}
	case *parse.ChainNode:
		t.read(n.Node)
	case *parse.FieldNode:
		t.Uses = append(t.Uses, n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			t.Uses = append(t.Uses, n.Ident[1:])
		}
	case *parse.TemplateNode:
		t.read(n.Pipe)
	case *parse.IfNode:
		t.branch(&n.BranchNode)
	case *parse.WithNode:
		t.branch(&n.BranchNode)
	case *parse.RangeNode:
		t.branch(&n.BranchNode)
		n.List.Nodes = append([]parse.Node{call("__step", n.Pos)}, n.List.Nodes...)
	}
}

// call returns the syntax node for calling a function without arguments.
func call(name string, pos parse.Pos) parse.Node {
	return &parse.ActionNode{NodeType: parse.NodeAction, Pos: pos, Pipe: &parse.PipeNode{
		NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{{
			NodeType: parse.NodeCommand, Pos: pos, Args: []parse.Node{parse.NewIdentifier(name).SetPos(pos)},
		}},
	}}
}

func (t *Template) branch(n *parse.BranchNode) {
	t.read(n.Pipe)
	t.read(n.List)
	t.read(n.ElseList)
}

// Execute renders the template with parameters.
func (t *Template) Execute(params any) (string, error) {
	t.steps, t.depth, t.tpls, t.data = 0, 0, 0, params
	out := &bounded{}
	dot := params
	if t.byName {
		dot = nil
	}
	if err := t.tree.Execute(out, dot); err != nil {
		return "", fmt.Errorf("template fails: %w", Brief(err))
	}
	return out.String(), nil
}

// step counts a step and returns an error beyond the limit, so that every template ends.
func (t *Template) step() (string, error) {
	t.steps++
	if t.steps > maxSteps {
		return "", fmt.Errorf("takes more than %d steps", maxSteps)
	}
	if t.steps%1024 == 0 && t.ctx.Err() != nil {
		return "", t.ctx.Err()
	}
	return "", nil
}

// enter counts a nested template call. The limit of text/template itself takes minutes to reach in
// loops.
func (t *Template) enter() (string, error) {
	if t.depth++; t.depth > maxCalls {
		return "", fmt.Errorf("has templates that call each other to a depth of more than %d", maxCalls)
	}
	return t.step()
}

func (t *Template) leave() string {
	t.depth--
	return ""
}

// bounded collects output up to maxText.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxText {
		return 0, errLong
	}
	return b.Builder.Write(p)
}

var errLong = fmt.Errorf("makes a text of more than %d MiB", maxText>>20)

// Brief removes the position that text/template adds to the errors of a template without a name:
// `template: :1:2: executing "" at <.x>: `.
func Brief(err error) error {
	text := templatePlace.ReplaceAllString(err.Error(), "")
	return errors.New(hookName.ReplaceAllString(text, "$1"))
}

// hookName matches the prefix __ of functions that replace sprig's.
var hookName = regexp.MustCompile(`(^at <|calling |\()__`)

var templatePlace = regexp.MustCompile(`^template: (?:base)?:\d+(?::\d+)?: (?:executing "" )?`)

// Lines executes the template and returns, for each line of its output, the line of the template
// that wrote the beginning. Both count from 0.
func (t *Template) Lines(params any) ([]int, error) {
	t.steps, t.depth, t.tpls, t.data = 0, 0, 0, params
	w := &lineWriter{texts: make(map[*byte]int), lines: []int{0}}
	for _, defined := range t.tree.Templates() {
		if defined.Tree != nil {
			w.learn(t.text, defined.Root)
		}
	}
	err := t.tree.Execute(w, params)
	return w.lines, err
}

// A lineWriter records the template line of each output line. text/template writes the texts
// between actions from its syntax tree without copying them, so the address of their first byte
// identifies them.
type lineWriter struct {
	bounded
	texts map[*byte]int // first lines of the texts, by the address of their first byte
	at    int           // current line of the template
	lines []int
}

// learn records the lines on which the texts of a template begin.
func (l *lineWriter) learn(text string, n parse.Node) {
	branch := func(b *parse.BranchNode) {
		l.learn(text, b.List)
		l.learn(text, b.ElseList)
	}
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			l.learn(text, child)
		}
	case *parse.TextNode:
		if len(n.Text) > 0 && int(n.Pos) <= len(text) {
			l.texts[&n.Text[0]] = strings.Count(text[:n.Pos], "\n")
		}
	case *parse.IfNode:
		branch(&n.BranchNode)
	case *parse.WithNode:
		branch(&n.BranchNode)
	case *parse.RangeNode:
		branch(&n.BranchNode)
	}
}

// Write implements io.Writer.
func (l *lineWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	line, isText := l.texts[&p[0]]
	if isText {
		l.at = line
		if l.Len() == 0 {
			l.lines[0] = line
		}
	}
	for _, c := range p {
		if c != '\n' {
			continue
		}
		if isText {
			l.at++
		}
		l.lines = append(l.lines, l.at)
	}
	return l.bounded.Write(p)
}
