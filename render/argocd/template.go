package argocd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"dario.cat/mergo"

	"github.com/preadmit/preadmit/render"
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
		t, err := gotemplate.Parse(e.ctx, text, gotemplate.Options{Options: e.options, Tpl: true})
		if err != nil {
			return &compiled{err: err}
		}
		return &compiled{tree: t, uses: t.Uses}
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

// A paramSet is a set of parameters that a generator makes, with the places
// where they are written.
type paramSet struct {
	values map[string]any // as Argo CD's templates see them
	layers []layer        // where they are written, in order of precedence
}

// A layer holds the places of some parameters of a set.
type layer struct {
	values map[string]any
	at     func(path []string) []render.Origin
}

// origins returns the places of the parameter at a path. Places of which only
// the file is known are returned only if there are no others.
func (p *paramSet) origins(path []string) []render.Origin {
	for n := len(path); n > 0; n-- {
		for _, l := range p.layers {
			if _, ok := at(l.values, path[:n]); ok {
				return l.at(path[:n])
			}
		}
	}
	return nil
}

// at returns the value at a path of a tree of the map and list types that
// parameters use.
func at(value any, path []string) (any, bool) {
	for _, key := range path {
		var ok bool
		switch v := value.(type) {
		case map[string]any:
			value, ok = v[key]
		case map[string]string:
			value, ok = v[key]
		case []any:
			if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(v) {
				value, ok = v[i], true
			}
		}
		if !ok {
			return nil, false
		}
	}
	return value, true
}

// copyParams returns a deep copy of parameters.
func copyParams(value any) any {
	return render.Replace(value, func(v any) any {
		if texts, ok := v.(map[string]string); ok {
			return maps.Clone(texts)
		}
		return v
	})
}

// addValues adds a generator's `values`, which may name the other parameters.
func (g *generation) addValues(p *paramSet, values map[string]string, pointer string) error {
	if len(values) == 0 {
		return nil
	}
	replaced := make(map[string]string, len(values))
	used := make(map[string][][]string)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		text, uses, err := g.replace(values[key], p.values)
		if err != nil {
			return g.errorAt(pointer+render.Pointer(key), err)
		}
		replaced[key], used[key] = text, uses
	}
	inner := paramSet{layers: p.layers}
	at := func(key string) []render.Origin {
		return g.templatePlaces(&inner, used[key], pointer+render.Pointer(key))
	}
	if g.golang {
		p.values["values"] = replaced
		p.layers = append([]layer{{map[string]any{"values": replaced}, func(path []string) []render.Origin {
			if len(path) > 1 {
				return at(path[1])
			}
			return g.places(pointer)
		}}}, p.layers...)
		return nil
	}
	flat := make(map[string]any, len(replaced))
	for key, text := range replaced {
		flat["values."+key] = text
	}
	maps.Copy(p.values, flat)
	p.layers = append([]layer{{flat, func(path []string) []render.Origin {
		return at(strings.TrimPrefix(path[0], "values."))
	}}}, p.layers...)
	return nil
}

// flatten flattens a tree to one level, with keys joined by dots and values as
// texts. Empty maps and lists disappear.
func flatten(tree map[string]any) map[string]string {
	flat := make(map[string]string)
	var walk func(key string, value any)
	walk = func(key string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for k, e := range v {
				walk(key+"."+k, e)
			}
		case map[string]string:
			for k, e := range v {
				walk(key+"."+k, e)
			}
		case []any:
			for i, e := range v {
				walk(key+"."+strconv.Itoa(i), e)
			}
		default:
			flat[key] = fmt.Sprint(value)
		}
	}
	for k, e := range tree {
		walk(k, e)
	}
	return flat
}

// combine combines two sets of a matrix.
func (g *generation) combine(a, b *paramSet) (*paramSet, error) {
	joined := &paramSet{values: make(map[string]any), layers: slices.Concat(a.layers, b.layers)}
	if g.golang {
		joined.values = copyParams(b.values).(map[string]any)
		return joined, merge(joined.values, copyParams(a.values).(map[string]any))
	}
	for k, v := range a.values {
		joined.values[k] = fmt.Sprint(v)
	}
	for _, k := range slices.Sorted(maps.Keys(b.values)) {
		text := fmt.Sprint(b.values[k])
		if was, ok := joined.values[k]; ok && was != text {
			return nil, fmt.Errorf("both generators of the matrix set %s, to different values", k)
		}
		joined.values[k] = text
	}
	return joined, nil
}

// override combines two sets of a merge: b wins.
func (g *generation) override(a, b *paramSet) (*paramSet, error) {
	joined := &paramSet{values: make(map[string]any), layers: slices.Concat(b.layers, a.layers)}
	if g.golang {
		joined.values = copyParams(a.values).(map[string]any)
		return joined, merge(joined.values, copyParams(b.values).(map[string]any))
	}
	maps.Copy(joined.values, a.values)
	maps.Copy(joined.values, b.values)
	return joined, nil
}

// merge merges maps with the library that Argo CD uses, since the library has its own notion of an
// empty value. The library panics at a map that it merges into a map of texts; Argo CD then
// generates nothing.
func merge(dst, src map[string]any) error {
	for _, key := range sortedKeys(src) {
		_, texts := dst[key].(map[string]string)
		if m, ok := src[key].(map[string]any); ok && texts && len(m) > 0 {
			return fmt.Errorf("both generators set %s, one of them by its option values, which Argo CD can't merge", key)
		}
	}
	return mergo.Merge(&dst, src, mergo.WithOverride)
}

// mergeKey returns the key by which the sets of a merge are matched.
func mergeKey(keys []string, values map[string]any) (string, error) {
	key := make(map[string]any, len(keys))
	for _, k := range keys {
		key[k] = values[k]
	}
	data, err := json.Marshal(key)
	return string(data), err
}
