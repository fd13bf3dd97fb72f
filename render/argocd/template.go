package argocd

import (
	"context"
	"errors"
	"regexp"
	"strings"

	"github.com/preadmit/preadmit/render/internal/gotemplate"
)

// maxElements is how many sets of parameters a generator may make.
const maxElements = 20_000

// An engine renders the templates of one ApplicationSet. It caches parsed
// templates and is not safe for concurrent use.
type engine struct {
	ctx       context.Context
	golang    bool // goTemplate
	options   []string
	templates map[string]*compiled
}

// A compiled is a parsed template.
type compiled struct {
	tree *gotemplate.Template // for a Go template
	text []string             // for a fasttemplate: the text around its tags
	tags []string
	uses [][]string // paths of the parameters that it names
	err  error
}

// replace renders a text with parameters. It also returns the paths of the
// parameters that the text names.
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
		result, err := c.tree.Execute(params)
		return result, c.uses, err
	case c.text == nil:
		return text, nil, nil
	}
	return c.fill(params), c.uses, nil
}

// lines returns for each line of a text's rendered form the line of the text
// that wrote it, or nil if that is not known.
func (e *engine) lines(text string, params map[string]any) []int {
	rendered, _, err := e.replace(text, params)
	if err != nil {
		return nil
	}
	if c := e.templates[text]; c != nil && c.tree != nil {
		lines, err := c.tree.Lines(params)
		if err != nil {
			return nil
		}
		return lines
	}
	n := strings.Count(text, "\n")
	if strings.Count(rendered, "\n") != n {
		return nil
	}
	lines := make([]int, n+1)
	for i := range lines {
		lines[i] = i
	}
	return lines
}

func (e *engine) compile(text string) *compiled {
	if e.golang {
		return e.compileGo(text)
	}
	return compileFast(text)
}

// templated is Argo CD's test for a text with tags: both braces are on one
// line.
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

// fill replaces tags by parameters. A tag stays as it is if it names no
// parameter, or one that is no text.
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
	t, err := gotemplate.Parse(e.ctx, text, gotemplate.Options{Options: e.options, Tpl: true})
	if err != nil {
		return &compiled{err: err}
	}
	return &compiled{tree: t, uses: t.Uses}
}
