package jmespath

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Limits of an expression. Published policies stay far below.
const (
	maxLength = 256 << 10
	maxDepth  = 500
)

// bindings are the powers with which operators bind their left operand, as in the
// parser that Kyverno uses; a token without a power ends an expression. Since ! binds
// more strongly than a dot there, !a.b is (!a).b, which is always null.
var bindings = [...]int{
	pipe: 1, or: 2, and: 3,
	equal: 5, unequal: 5, less: 5, lessEqual: 5, greater: 5, greaterEqual: 5,
	flatten: 9, star: 20, filter: 21, dot: 40, not: 45, openBrace: 50, openBracket: 55, openParen: 60,
	closeParen: 0,
}

// A parser is a top-down operator precedence parser. After the first error, which it
// keeps, all tokens read as the end.
type parser struct {
	text   string
	tokens []token
	at     int
	nested int
	err    error
}

func parse(expression string) (node, error) {
	if len(expression) > maxLength {
		return nil, &SyntaxError{Offset: maxLength, Message: fmt.Sprintf("an expression of %d bytes is longer than %d", len(expression), maxLength)}
	}
	tokens, err := lex(expression)
	if err != nil {
		return nil, err
	}
	p := &parser{text: expression, tokens: tokens}
	n := p.expression(0)
	if p.err == nil && p.kind() != end {
		p.fail("Unexpected token at the end of the expression: %s", p.show())
	}
	if p.err != nil {
		return nil, p.err
	}
	return n, nil
}

func (p *parser) kind() kind { return p.tokens[p.at].kind }

// ahead returns the kind of the token after the current one.
func (p *parser) ahead() kind { return p.tokens[min(p.at+1, len(p.tokens)-1)].kind }

func (p *parser) take() token {
	t := p.tokens[p.at]
	if p.at < len(p.tokens)-1 {
		p.at++
	}
	return t
}

func (p *parser) want(k kind, name string) {
	if p.kind() != k {
		p.fail("Expected %s, received: %s", name, p.show())
		return
	}
	p.take()
}

// fail keeps the first error and skips to the end.
func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = &SyntaxError{Expression: p.text, Offset: p.tokens[p.at].at, Message: fmt.Sprintf(format, args...)}
	}
	p.at = len(p.tokens) - 1
}

func (p *parser) show() string {
	if p.kind() == end {
		return "the end"
	}
	return clip(p.tokens[p.at].text, 64)
}

// expression parses operators that bind more strongly than the power.
func (p *parser) expression(power int) node {
	if p.nested++; p.nested > maxDepth {
		p.fail("an expression nests deeper than %d", maxDepth)
	}
	defer func() { p.nested-- }()
	n := p.prefix()
	for long := p.nested; p.err == nil && power < bindings[p.kind()]; {
		// A chain a.b.c is as deep as it is long.
		if long++; long > maxDepth {
			p.fail("an expression nests deeper than %d", maxDepth)
		}
		n = p.infix(n)
	}
	return n
}

// prefix parses the beginning of an expression.
func (p *parser) prefix() node {
	if p.err != nil {
		return here{}
	}
	t := p.tokens[p.at]
	switch t.kind {
	case end:
		p.fail("Incomplete expression")
		return here{}
	case literal, rawText, identifier, quoted, current:
		return p.atom()
	case expref:
		p.take()
		start := p.at
		return &reference{p.expression(0), p.cost(start)}
	case not:
		p.take()
		return &negation{p.expression(bindings[not])}
	case openParen:
		p.take()
		n := p.expression(0)
		p.want(closeParen, "rparen")
		return n
	case openBrace:
		p.take()
		return p.hash()
	case star, filter, flatten, openBracket:
		return p.bracketed()
	}
	p.fail("Invalid token: %s", p.show())
	return here{}
}

func (p *parser) atom() node {
	t := p.take()
	switch t.kind {
	case literal:
		var v any
		if err := json.Unmarshal([]byte(t.text), &v); err != nil {
			p.at--
			p.fail("%s", err)
		}
		return &constant{v}
	case rawText:
		return &constant{t.text}
	case current:
		if p.kind() == openParen {
			p.fail("Invalid token: (")
		}
		return here{}
	}
	if p.kind() == openParen {
		if t.kind == quoted {
			p.fail("Can't have quoted identifier as function name.")
			return here{}
		}
		return p.call(t.text)
	}
	return &field{name: t.text, missing: &NotFoundError{Key: t.text}}
}

// bracketed parses a bracket or star that applies to the current value.
func (p *parser) bracketed() node {
	switch {
	case p.kind() == star:
		p.take()
		if p.kind() == closeBracket {
			return &values{of: here{}, each: here{}, cost: 1}
		}
		start := p.at
		return &values{here{}, p.rest(bindings[star]), p.cost(start)}
	case p.kind() == openBracket && p.ahead() != number && p.ahead() != colon && !p.starInBrackets():
		p.take()
		return p.list()
	}
	return p.infix(here{})
}

func (p *parser) starInBrackets() bool {
	return p.ahead() == star && p.tokens[min(p.at+2, len(p.tokens)-1)].kind == closeBracket
}

// infix parses an operator and its right operand.
func (p *parser) infix(left node) node {
	t := p.take()
	switch t.kind {
	case dot:
		if p.kind() != star {
			return chained(left, p.afterDot(bindings[dot]))
		}
		p.take()
		start := p.at
		// In Kyverno x.*.a.b is (x.*.a).b, though *.a.b is *.(a.b).
		return &values{left, p.rest(bindings[dot]), p.cost(start)}
	case pipe:
		return &stages{left, p.expression(bindings[pipe])}
	case or:
		return &either{left, p.expression(bindings[or])}
	case and:
		return &both{left, p.expression(bindings[and])}
	case equal, unequal, less, lessEqual, greater, greaterEqual:
		return &comparison{t.kind, left, p.expression(bindings[t.kind])}
	case filter:
		return p.filter(left)
	case flatten:
		return p.project(&projection{of: left, flat: true}, bindings[flatten])
	case openBracket:
		return p.index(left)
	}
	p.at--
	p.fail("Unexpected token: %s", p.show())
	return left
}

// index reads [0], [1:2] or [*] of a value.
func (p *parser) index(left node) node {
	switch {
	case p.kind() == colon || p.kind() == number && p.ahead() == colon:
		return p.project(&projection{of: p.slice(left)}, bindings[star])
	case p.kind() == number:
		n := p.integer()
		p.want(closeBracket, "rbracket")
		return &element{left, n}
	}
	p.want(star, "star")
	p.want(closeBracket, "rbracket")
	return p.project(&projection{of: left}, bindings[star])
}

// project parses the rest of a projection.
func (p *parser) project(n *projection, power int) node {
	start := p.at
	n.each = p.rest(power)
	n.cost = p.cost(start)
	return n
}

// cost estimates the nodes that were parsed since a token.
func (p *parser) cost(start int) int { return 1 + (p.at-start)/2 }

func (p *parser) integer() int {
	n, err := strconv.Atoi(p.tokens[p.at].text)
	if err != nil {
		p.fail("%s", err)
	}
	p.take()
	return n
}

// slice reads up to three numbers and the colons between them.
func (p *parser) slice(left node) node {
	s := &slice{of: left}
	for part := 0; part < 3; part++ {
		if p.kind() == number {
			n := p.integer()
			s.parts[part] = &n
		}
		if p.kind() != colon {
			break
		}
		p.take()
	}
	p.want(closeBracket, "tColon or tNumber")
	return s
}

func (p *parser) filter(left node) node {
	start := p.at
	f := &projection{of: left, when: p.expression(0), each: here{}}
	p.want(closeBracket, "rbracket")
	if p.kind() != flatten {
		f.each = p.rest(bindings[filter])
	}
	f.cost = p.cost(start)
	return f
}

// rest parses the expression that a projection applies to its elements.
func (p *parser) rest(power int) node {
	switch {
	case bindings[p.kind()] < 10:
		return here{}
	case p.kind() == openBracket || p.kind() == filter:
		return p.expression(power)
	case p.kind() == dot:
		p.take()
		return p.afterDot(power)
	}
	p.fail("Error: unexpected token %s", p.show())
	return here{}
}

func (p *parser) afterDot(power int) node {
	switch p.kind() {
	case identifier, quoted, star:
		return p.expression(power)
	case openBracket:
		p.take()
		return p.list()
	case openBrace:
		p.take()
		return p.hash()
	}
	p.fail("Expected identifier, lbracket, or lbrace, received: %s", p.show())
	return here{}
}

// list reads a multiselect list after its bracket.
func (p *parser) list() node {
	m := &multiList{}
	for p.err == nil {
		m.members = append(m.members, p.expression(0))
		if p.kind() == closeBracket {
			break
		}
		p.want(comma, "comma")
	}
	p.want(closeBracket, "rbracket")
	return m
}

// hash reads a multiselect hash after its brace. As in Kyverno the commas
// between its members may be left out.
func (p *parser) hash() node {
	m := &multiHash{}
	for p.err == nil {
		if p.kind() != identifier && p.kind() != quoted {
			p.fail("Expected tQuotedIdentifier or tUnquotedIdentifier, received: %s", p.show())
			break
		}
		key := p.take()
		p.want(colon, "colon")
		m.keys, m.members = append(m.keys, key.text), append(m.members, p.expression(0))
		if p.kind() == closeBrace {
			break
		}
		if p.kind() == comma {
			p.take()
		}
	}
	p.want(closeBrace, "rbrace")
	return m
}

// call reads a function's arguments. As in Kyverno the commas between them may
// be left out, and one may follow the last.
func (p *parser) call(name string) node {
	p.take()
	c := &call{name: name, function: functions[name]}
	for p.err == nil && p.kind() != closeParen {
		c.args = append(c.args, p.expression(0))
		if p.kind() == comma {
			p.take()
		}
	}
	p.want(closeParen, "rparen")
	return c
}
