package kyverno

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
)

// A template is a parsed JSON value of a policy that may contain variables.
// References ($(./../name)) are resolved when it is parsed.
type template struct {
	root   node
	static bool // there are no variables; root is a fixed
	err    error
}

// A node is a part of a template.
type node interface {
	fill(*filling) (any, error)
}

// Limits of substitution.
const (
	maxText     = 2 << 20 // bytes of one string; the size limit of Kyverno's context
	maxNesting  = 128     // nesting of a template
	maxProduced = 100_000 // values that one substitution inserts
	maxExpanded = 256     // inserted maps and lists that contain variables themselves

	bytesPerStep = 8 // bytes of text that cost as much as a step of a search
)

// A variable is the text between {{ and }}.
type variable struct {
	source   string // expression as quoted in errors
	here     bool   // {{ @ }}: the object's value at the variable's own path
	shallow  bool   // {{- }}: variables in its value are not substituted
	path     []string
	expr     *jmespath.Expression
	onDelete *jmespath.Expression // expr with request.oldObject instead of request.object
	needs    string               // what it asks of the live request
	err      error
}

var (
	escaped   = regexp.MustCompile(`\\\{\{(?:\{[^{}]*\}|[^{}])*\}\}`)
	aboutUser = regexp.MustCompile(`request\.(userInfo|roles|clusterRoles)\b`)

	// aboutOptions matches reads of options, except of the fields that are always known.
	aboutOptions = regexp.MustCompile(`\brequest\.options\b(?:$|[^.]|\.(?:[^ak]|a[^p]|k[^i]))`)
)

// newTemplate parses a template. path is its place in the document, which is
// needed only for {{ @ }}.
func newTemplate(value any, path ...string) *template {
	resolved, err := resolveReferences(value)
	if err != nil {
		return &template{err: err}
	}
	root, err := newNode(resolved, slices.Clip(path))
	if err != nil {
		return &template{err: err}
	}
	_, static := root.(fixed)
	return &template{root: root, static: static}
}

// elements returns the templates of the n elements of a list.
func (t *template) elements(n int) []*template {
	all := make([]*template, n)
	for i := range all {
		e := &template{err: t.err}
		switch root := t.root.(type) {
		case fixed:
			e.root = fixed{root.value.([]any)[i]}
		case listNode:
			e.root = root[i]
		}
		_, e.static = e.root.(fixed)
		all[i] = e
	}
	return all
}

func newNode(value any, path []string) (node, error) {
	if len(path) > maxNesting {
		return nil, fmt.Errorf("a value with variables nests deeper than %d levels", maxNesting)
	}
	switch t := value.(type) {
	case string:
		return newText(t, path), nil
	case []any:
		return newListNode(t, path)
	case map[string]any:
		return newMapNode(t, path)
	default:
		return fixed{value}, nil
	}
}

// fixed is a value without variables.
type fixed struct{ value any }

func (f fixed) fill(*filling) (any, error) { return f.value, nil }

type listNode []node

func newListNode(list []any, path []string) (node, error) {
	nodes, values, static := make(listNode, len(list)), make([]any, len(list)), true
	for i, e := range list {
		n, err := newNode(e, append(slices.Clip(path), fmt.Sprint(i)))
		if err != nil {
			return nil, err
		}
		nodes[i] = n
		f, ok := n.(fixed)
		values[i], static = f.value, static && ok
	}
	if static {
		return fixed{values}, nil
	}
	return nodes, nil
}

func (l listNode) fill(f *filling) (any, error) {
	list := make([]any, len(l))
	for i, n := range l {
		var err error
		if list[i], err = n.fill(f); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// A mapNode is a map, with its entries sorted by key.
type mapNode []mapEntry

type mapEntry struct{ key, value node }

func newMapNode(m map[string]any, path []string) (node, error) {
	nodes, static := make(mapNode, 0, len(m)), true
	for _, k := range slices.Sorted(maps.Keys(m)) {
		key := newText(k, path)
		value, err := newNode(m[k], append(slices.Clip(path), k))
		if err != nil {
			return nil, err
		}
		_, fixedKey := key.(fixed)
		_, fixedValue := value.(fixed)
		static = static && fixedKey && fixedValue
		nodes = append(nodes, mapEntry{key, value})
	}
	if !static {
		return nodes, nil
	}
	value, err := nodes.fill(nil)
	return fixed{value}, err
}

func (m mapNode) fill(f *filling) (any, error) {
	made := make(map[string]any, len(m))
	for _, e := range m {
		k, err := e.key.fill(f)
		if err != nil {
			return nil, err
		}
		key, ok := k.(string)
		if !ok {
			return nil, errors.New("expected string after substituting variables in a key")
		}
		if made[key], err = e.value.fill(f); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// A textNode is a string with variables.
type textNode struct {
	whole *variable // set if the string consists of one variable alone
	parts []textPart
	path  []string
}

// A textPart is literal text or a variable.
type textPart struct {
	literal  string
	variable *variable
}

func newText(s string, path []string) node {
	if !strings.Contains(s, "{{") {
		return fixed{s}
	}
	found := document.VariablePattern.FindAllStringSubmatchIndex(s, -1)
	if len(found) == 0 {
		return fixed{unescape(s)}
	}
	t := &textNode{path: path}
	last := 0
	for _, m := range found {
		start, end := m[4], m[5]
		v := newVariable(s[start:end], path)
		if start == 0 && end == len(s) {
			t.whole = v
			return t
		}
		t.parts = append(t.parts, textPart{literal: s[last:start]}, textPart{variable: v})
		last = end
	}
	t.parts = append(t.parts, textPart{literal: s[last:]})
	return t
}

// unescape removes the backslash of \{{ }} and restores the braces that shut
// replaced.
func unescape(s string) string {
	if strings.Contains(s, `\{{`) {
		s = escaped.ReplaceAllStringFunc(s, func(v string) string { return v[1:] })
	}
	return strings.ReplaceAll(s, shut, "{{")
}

// shut replaces {{ in a shallow variable's value, so that it is not substituted
// again.
const shut = "{\x00{"

func newVariable(text string, path []string) *variable {
	source := strings.ReplaceAll(strings.ReplaceAll(text, "{{", ""), "}}", "")
	v := &variable{path: path}
	if rest, ok := strings.CutPrefix(source, "-"); ok {
		v.shallow, source = true, rest
	}
	v.source = strings.TrimSpace(source)
	if v.source == "@" {
		v.here = true
		return v
	}
	v.needs = needs(v.source)
	v.expr, v.err = jmespath.Compile(v.source)
	v.onDelete = v.expr
	if v.err == nil && strings.Contains(v.source, "request.object") {
		v.onDelete, v.err = jmespath.Compile(old(v.source))
	}
	return v
}

func old(expression string) string {
	return strings.ReplaceAll(expression, "request.object", "request.oldObject")
}

// A filling substitutes the variables of a template.
type filling struct {
	scope    *scope
	produced int
	expanded int
	seen     func(*variable, string) // called with each variable and its expression, if set

	search func(*jmespath.Expression) (any, error) // evaluates expressions instead of the scope, if set
}

// fill returns the template's value with its variables substituted. The caller
// must not change it, because it may share parts with the policy and the
// object.
func (t *template) fill(s *scope) (any, error) {
	if t.err != nil {
		return nil, t.err
	}
	if f, ok := t.root.(fixed); ok {
		return f.value, nil
	}
	return t.root.fill(&filling{scope: s})
}

func (t *textNode) fill(f *filling) (any, error) {
	if t.whole != nil {
		return f.value(t.whole)
	}
	s, err := t.join(f)
	for pass := 1; err == nil && strings.Contains(s, "{{"); pass++ {
		next, ok := newText(s, t.path).(*textNode)
		if !ok {
			break
		}
		if pass == document.MaxPasses {
			return nil, fmt.Errorf("variables keep expanding to variables at path %s", t.at())
		}
		if next.whole != nil {
			return f.value(next.whole)
		}
		s, err = next.join(f)
	}
	if err != nil {
		return nil, err
	}
	return unescape(s), nil
}

// join concatenates the literals and the variables' values.
func (t *textNode) join(f *filling) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.variable == nil {
			b.WriteString(p.literal)
			continue
		}
		v, err := f.resolve(p.variable)
		if err != nil {
			return "", err
		}
		text, err := textOf(v)
		if err != nil {
			return "", err
		}
		if p.variable.shallow {
			text = strings.ReplaceAll(text, "{{", shut)
		}
		b.WriteString(text)
		if b.Len() > maxText {
			return "", fmt.Errorf("text with its variables is longer than %d bytes at path %s", maxText, t.at())
		}
	}
	return b.String(), f.scope.review.spend(b.Len() / bytesPerStep)
}

func (t *textNode) at() string { return pathText(t.path) }

// pathText formats a path as Kyverno does.
func pathText(path []string) string {
	var b strings.Builder
	for _, p := range path {
		b.WriteString("/" + strings.ReplaceAll(p, "/", `\/`))
	}
	return b.String()
}

// textOf formats a value for insertion into a string.
func textOf(v any) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return "", errors.New("a variable's value is not JSON")
	}
	return string(text), nil
}

// value returns the value of a variable that is the whole string. It keeps its
// type, and variables in a map or list are substituted.
func (f *filling) value(v *variable) (any, error) {
	value, err := f.resolve(v)
	if err != nil || v.shallow {
		return value, err
	}
	switch value.(type) {
	case map[string]any, []any:
		if !holds(value, "{{", 0) {
			return value, nil
		}
		return f.expand(value, v.path)
	}
	return value, nil
}

// holds reports whether any string or key in a value contains a mark, such as the braces
// of variables.
func holds(value any, mark string, depth int) bool {
	if depth > maxNesting {
		return false
	}
	switch t := value.(type) {
	case string:
		return strings.IndexByte(t, mark[0]) >= 0 && strings.Contains(t, mark)
	case []any:
		for _, e := range t {
			if holds(e, mark, depth+1) {
				return true
			}
		}
	case map[string]any:
		for k, e := range t {
			if strings.Contains(k, mark) || holds(e, mark, depth+1) {
				return true
			}
		}
	}
	return false
}

func (f *filling) expand(value any, path []string) (any, error) {
	if f.expanded++; f.expanded > maxExpanded {
		return nil, fmt.Errorf("variables keep expanding to variables at path %s", pathText(path))
	}
	n, err := newNode(value, path)
	if err != nil {
		return nil, err
	}
	return n.fill(f)
}

// resolve returns a variable's value.
func (f *filling) resolve(v *variable) (any, error) {
	if f.produced++; f.produced > maxProduced {
		return nil, fmt.Errorf("more than %d variables are substituted", maxProduced)
	}
	if err := f.scope.review.ctx.Err(); err != nil {
		return nil, err
	}
	expr, source, err := v.expression(f.scope)
	if err != nil {
		return nil, fmt.Errorf("failed to resolve %s at path %s: JMESPath query failed: %w", source, pathText(v.path), err)
	}
	if f.seen != nil {
		f.seen(v, source)
	}
	value, err := f.evaluate(expr, v.needs)
	if err != nil {
		return nil, fmt.Errorf("failed to resolve %s at path %s: %w", source, pathText(v.path), err)
	}
	return value, nil
}

func (f *filling) evaluate(expr *jmespath.Expression, needs string) (any, error) {
	if f.search == nil {
		return f.scope.query(expr, needs)
	}
	value, err := f.search(expr)
	if open := f.scope.review.unknown(needs); open != nil {
		return nil, open
	}
	if err != nil {
		return nil, err
	}
	return value, f.scope.review.spend(0)
}

// expression returns the variable's expression and its text, adapted to the
// request's operation.
func (v *variable) expression(s *scope) (*jmespath.Expression, string, error) {
	deleting := s.review.operation == opDelete
	switch {
	case v.here:
		source := s.place(v.path)
		if deleting {
			source = old(source)
		}
		expr, err := jmespath.Compile(source)
		return expr, source, err
	case deleting:
		return v.onDelete, old(v.source), v.err
	default:
		return v.expr, v.source, v.err
	}
}

// place returns the JMESPath of {{ @ }}: the object's field at the variable's
// path in the rule, less its first two steps, or less those up to foreach.
func (s *scope) place(path []string) string {
	if i := slices.Index(path, "foreach"); i >= 0 {
		path = path[i+1:]
	}
	path = path[min(2, len(path)):]
	root := "request.object"
	if _, ok, _ := s.Lookup("target"); ok {
		root = "target"
	}
	var b strings.Builder
	b.WriteString(root)
	for _, p := range path {
		if digits(p) {
			b.WriteString("[" + p + "]")
			continue
		}
		b.WriteString("." + quoteName(p))
	}
	return b.String()
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// quoteName quotes a name for JMESPath if needed.
func quoteName(name string) string {
	text, _ := json.Marshal(name)
	return string(text)
}
