package argocd

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

// What the templates of an ApplicationSet may take. One that needs more is an
// error, never a hang.
const (
	maxText     = 1 << 20   // bytes that a template writes, or that a function makes
	maxParts    = 100_000   // of a value that a function makes
	maxDepth    = 100       // maps and lists within one another in such a value
	maxSteps    = 1_000_000 // rounds of loops and calls of functions, of one template
	maxElements = 20_000    // sets of parameters that a generator makes
)

// An engine renders the templates of one ApplicationSet. It keeps the parsed
// ones and is not safe for concurrent use.
type engine struct {
	ctx       context.Context
	golang    bool // goTemplate
	options   []string
	templates map[string]*compiled
	steps     int
}

// A compiled is a template that was parsed once.
type compiled struct {
	tree *template.Template // of a Go template
	text []string           // of a fasttemplate: what is around its tags
	tags []string
	uses [][]string // the parameters that it names, as paths
	err  error
}

// replace renders a text with parameters. It returns the paths of those that the
// text names.
func (e *engine) replace(text string, params map[string]any) (string, [][]string, error) {
	if !strings.Contains(text, "{{") {
		return text, nil, nil
	}
	c := e.templates[text]
	if c == nil {
		c = e.compile(text)
		e.templates[text] = c
	}
	switch {
	case c.err != nil:
		return "", nil, c.err
	case c.tree != nil:
		result, err := e.execute(c.tree, params)
		return result, c.uses, err
	case c.text == nil:
		return text, nil, nil
	}
	return c.fill(params), c.uses, nil
}

func (e *engine) compile(text string) *compiled {
	if e.golang {
		return e.compileGo(text)
	}
	return compileFast(text)
}

// templated is Argo CD's test for a text with tags: both on one line.
var templated = regexp.MustCompile(".*{{.*}}.*")

func compileFast(text string) *compiled {
	c := &compiled{}
	if !templated.MatchString(text) {
		return c
	}
	for rest := text; ; {
		before, after, ok := strings.Cut(rest, "{{")
		c.text = append(c.text, before)
		if !ok {
			return c
		}
		tag, more, ok := strings.Cut(after, "}}")
		if !ok {
			return &compiled{err: errors.New("template has {{ without }}")}
		}
		c.tags = append(c.tags, tag)
		if name := strings.TrimSpace(tag); name != "" {
			c.uses = append(c.uses, []string{name})
		}
		rest = more
	}
}

// fill puts parameters in place of tags. A tag that names no parameter, or one
// that is no text, stays as it is.
func (c *compiled) fill(params map[string]any) string {
	var b strings.Builder
	for i, text := range c.text {
		b.WriteString(text)
		if i == len(c.tags) {
			break
		}
		name := strings.TrimSpace(c.tags[i])
		if value, ok := params[name].(string); ok && name != "" {
			b.WriteString(value)
		} else {
			b.WriteString("{{" + c.tags[i] + "}}")
		}
	}
	return b.String()
}

func (e *engine) compileGo(text string) *compiled {
	if !valid(e.options) {
		return &compiled{err: fmt.Errorf("goTemplateOptions has an option that Go's templates don't know: %s", strings.Join(e.options, ", "))}
	}
	t, err := template.New("").Funcs(e.functions()).Option(e.options...).Parse(text)
	if err != nil {
		return &compiled{err: fmt.Errorf("template can't be parsed: %w", brief(err))}
	}
	c := &compiled{tree: t}
	for _, defined := range t.Templates() {
		if defined.Tree != nil {
			c.read(defined.Root)
		}
	}
	return c
}

// valid reports whether options are those of text/template, which panics at
// others.
func valid(options []string) bool {
	return !slices.ContainsFunc(options, func(o string) bool {
		return !slices.Contains([]string{"missingkey=default", "missingkey=invalid", "missingkey=zero", "missingkey=error"}, o)
	})
}

// read notes which parameters a template names, and has each round of a loop
// and each call of a template count as a step.
func (c *compiled) read(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			c.read(child)
		}
	case *parse.ActionNode:
		c.read(n.Pipe)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for _, cmd := range n.Cmds {
			for _, arg := range cmd.Args {
				c.read(arg)
			}
		}
	case *parse.ChainNode:
		c.read(n.Node)
	case *parse.FieldNode:
		c.uses = append(c.uses, n.Ident)
	case *parse.VariableNode:
		if n.Ident[0] == "$" && len(n.Ident) > 1 {
			c.uses = append(c.uses, n.Ident[1:])
		}
	case *parse.TemplateNode:
		c.read(n.Pipe)
	case *parse.IfNode:
		c.branch(&n.BranchNode)
	case *parse.WithNode:
		c.branch(&n.BranchNode)
	case *parse.RangeNode:
		c.branch(&n.BranchNode)
		step := parse.NewIdentifier("__step").SetPos(n.Pos)
		n.List.Nodes = append([]parse.Node{&parse.ActionNode{
			NodeType: parse.NodeAction, Pos: n.Pos,
			Pipe: &parse.PipeNode{NodeType: parse.NodePipe, Pos: n.Pos, Cmds: []*parse.CommandNode{{
				NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{step},
			}}},
		}}, n.List.Nodes...)
	}
}

func (c *compiled) branch(n *parse.BranchNode) {
	c.read(n.Pipe)
	c.read(n.List)
	c.read(n.ElseList)
}

func (e *engine) execute(t *template.Template, params map[string]any) (string, error) {
	e.steps = 0
	out := &bounded{}
	if err := t.Execute(out, params); err != nil {
		return "", fmt.Errorf("template fails: %w", brief(err))
	}
	return out.String(), nil
}

// step counts what a template does, so that it ends.
func (e *engine) step() (string, error) {
	e.steps++
	if e.steps > maxSteps {
		return "", fmt.Errorf("takes more than %d steps", maxSteps)
	}
	if e.steps%1024 == 0 && e.ctx.Err() != nil {
		return "", e.ctx.Err()
	}
	return "", nil
}

// bounded is a text that may not grow beyond maxText.
type bounded struct{ strings.Builder }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxText {
		return 0, errLong
	}
	return b.Builder.Write(p)
}

var errLong = fmt.Errorf("makes a text of more than %d MiB", maxText>>20)

// brief leaves out of an error of a template what text/template says of a
// template without a name: `template: :1:2: executing "" at <.x>: `.
func brief(err error) error {
	text := templatePlace.ReplaceAllString(err.Error(), "")
	return errors.New(text)
}

var templatePlace = regexp.MustCompile(`^template: (?:base)?:\d+(?::\d+)?: (?:executing "" )?`)
