package runner

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// expressions evaluates what an action.yml has between ${{ and }}: contexts,
// strings, comparisons, !, && and ||, and the status functions.
type expressions struct {
	contexts map[string]any
	failed   func() bool
}

var (
	embedded = regexp.MustCompile(`\$\{\{(.*?)\}\}`)
	token    = regexp.MustCompile(`^\s*('(?:[^']|'')*'|[A-Za-z_][A-Za-z0-9_.-]*|&&|\|\||==|!=|!|\(|\)|[0-9]+)`)
	status   = regexp.MustCompile(`\b(success|failure|always|cancelled)\(\)`)
)

// condition is the value of an if: without a status function, only as long as
// nothing failed.
func (e *expressions) condition(s string) (bool, error) {
	if m := embedded.FindStringSubmatch(s); m != nil && m[0] == strings.TrimSpace(s) {
		s = m[1]
	}
	if s == "" {
		return !e.failed(), nil
	}
	v, err := e.evaluate(s)
	return truth(v) && (status.MatchString(s) || !e.failed()), err
}

// expand replaces the expressions in a string.
func (e *expressions) expand(s string) (string, error) {
	var failure error
	out := embedded.ReplaceAllStringFunc(s, func(m string) string {
		v, err := e.evaluate(m[3 : len(m)-2])
		if err != nil && failure == nil {
			failure = err
		}
		return text(v)
	})
	return out, failure
}

func (e *expressions) expandAll(m map[string]string) (map[string]string, error) {
	all := make(map[string]string, len(m))
	for k, v := range m {
		value, err := e.expand(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		all[k] = value
	}
	return all, nil
}

func (e *expressions) evaluate(s string) (any, error) {
	p := &parser{e: e}
	for rest := s; strings.TrimSpace(rest) != ""; {
		m := token.FindStringSubmatch(rest)
		if m == nil {
			return nil, fmt.Errorf("expression %q: can't read %q", s, rest)
		}
		p.tokens, rest = append(p.tokens, m[1]), rest[len(m[0]):]
	}
	v := p.or()
	if p.err == nil && len(p.tokens) > 0 {
		p.err = fmt.Errorf("%q is left over", p.tokens)
	}
	if p.err != nil {
		return nil, fmt.Errorf("expression %q: %w", s, p.err)
	}
	return v, nil
}

type parser struct {
	e      *expressions
	tokens []string
	err    error
}

func (p *parser) take(want string) bool {
	if len(p.tokens) == 0 || p.tokens[0] != want {
		return false
	}
	p.tokens = p.tokens[1:]
	return true
}

func (p *parser) or() any {
	v := p.and()
	for p.take("||") {
		if w := p.and(); !truth(v) {
			v = w
		}
	}
	return v
}

func (p *parser) and() any {
	v := p.compare()
	for p.take("&&") {
		if w := p.compare(); truth(v) {
			v = w
		}
	}
	return v
}

func (p *parser) compare() any {
	v := p.unary()
	for {
		switch {
		case p.take("=="):
			v = equal(v, p.unary())
		case p.take("!="):
			v = !equal(v, p.unary())
		default:
			return v
		}
	}
}

func (p *parser) unary() any {
	if p.take("!") {
		return !truth(p.unary())
	}
	if p.take("(") {
		v := p.or()
		if !p.take(")") {
			p.err = fmt.Errorf("no ) before %q", p.tokens)
		}
		return v
	}
	if len(p.tokens) == 0 {
		p.err = fmt.Errorf("it ends too early")
		return nil
	}
	t := p.tokens[0]
	p.tokens = p.tokens[1:]
	return p.operand(t)
}

func (p *parser) operand(t string) any {
	if t[0] == '\'' {
		return strings.ReplaceAll(t[1:len(t)-1], "''", "'")
	}
	if n, err := strconv.ParseFloat(t, 64); err == nil {
		return n
	}
	if t == "true" || t == "false" {
		return t == "true"
	}
	if p.take("(") {
		if !p.take(")") {
			p.err = fmt.Errorf("%s has arguments", t)
		}
		return p.status(t)
	}
	parts := strings.Split(t, ".")
	v, ok := p.e.contexts[parts[0]]
	if !ok {
		p.err = fmt.Errorf("no context %s", parts[0])
	}
	for _, part := range parts[1:] {
		m, _ := v.(map[string]any)
		v = m[part]
	}
	return v
}

func (p *parser) status(name string) any {
	switch name {
	case "always":
		return true
	case "success":
		return !p.e.failed()
	case "failure":
		return p.e.failed()
	case "cancelled":
		return false
	}
	p.err = fmt.Errorf("no function %s", name)
	return nil
}

func truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case float64:
		return v != 0
	}
	return true
}

// equal compares as GitHub does: strings without their case, unlike kinds as
// numbers.
func equal(a, b any) bool {
	x, isString := a.(string)
	y, areStrings := b.(string)
	if isString && areStrings {
		return strings.EqualFold(x, y)
	}
	return number(a) == number(b)
}

func number(v any) float64 {
	switch v := v.(type) {
	case nil:
		return 0
	case bool:
		if v {
			return 1
		}
		return 0
	case float64:
		return v
	case string:
		if v == "" {
			return 0
		}
		if n, err := strconv.ParseFloat(v, 64); err == nil {
			return n
		}
	}
	return math.NaN()
}

func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return "Object"
}
