package jmespath

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

type kind uint8

const (
	end kind = iota
	identifier
	quoted
	number
	literal // `...`, whose text is the JSON within
	rawText // '...'
	dot
	star
	comma
	colon
	current // @
	expref  // &
	not
	pipe
	or
	and
	equal
	unequal
	less
	lessEqual
	greater
	greaterEqual
	flatten // []
	filter  // [?
	openBracket
	closeBracket
	openBrace
	closeBrace
	openParen
	closeParen
)

// A token's text is without quotes and escapes.
type token struct {
	kind kind
	text string
	at   int
}

// A lexer cuts an expression into tokens.
type lexer struct {
	text   string
	at     int
	tokens []token
}

func lex(expression string) ([]token, error) {
	l := &lexer{text: expression, tokens: make([]token, 0, 16)}
	for l.at < len(l.text) {
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	return append(l.tokens, token{kind: end, at: len(l.text)}), nil
}

func (l *lexer) fail(at int, format string, args ...any) error {
	return &SyntaxError{Expression: l.text, Offset: at, Message: fmt.Sprintf(format, args...)}
}

// next reads one token, or one character of white space.
func (l *lexer) next() error {
	c := l.text[l.at]
	switch {
	case c == ' ' || c == '\t' || c == '\n' || c == '\r':
		l.at++
		return nil
	case startsName(c):
		return l.run(identifier, func(c byte) bool { return startsName(c) || isDigit(c) })
	case isDigit(c):
		return l.run(number, isDigit)
	case c == '-' && l.at+1 < len(l.text) && isDigit(l.text[l.at+1]):
		return l.run(number, isDigit)
	case c == '"' || c == '\'' || c == '`':
		return l.delimited(c)
	}
	return l.symbol()
}

func startsName(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// run reads a character and those after it for which belongs is true.
func (l *lexer) run(k kind, belongs func(byte) bool) error {
	start := l.at
	l.at++
	for l.at < len(l.text) && belongs(l.text[l.at]) {
		l.at++
	}
	l.tokens = append(l.tokens, token{k, l.text[start:l.at], start})
	return nil
}

// delimited reads the text between two delimiters, in which a backslash escapes the
// next character.
func (l *lexer) delimited(delimiter byte) error {
	start := l.at
	for i := start + 1; i < len(l.text); i++ {
		switch l.text[i] {
		case '\\':
			i++
		case delimiter:
			l.at = i + 1
			return l.unquote(delimiter, start, l.text[start+1:i])
		}
	}
	return l.fail(start, "Unclosed delimiter: %c", delimiter)
}

func (l *lexer) unquote(delimiter byte, start int, text string) error {
	t := token{at: start}
	switch delimiter {
	case '\'':
		t.kind, t.text = rawText, strings.ReplaceAll(text, `\'`, `'`)
	case '`':
		t.kind, t.text = literal, strings.ReplaceAll(text, "\\`", "`")
	default:
		t.kind = quoted
		if err := json.Unmarshal([]byte(l.text[start:l.at]), &t.text); err != nil {
			return l.fail(start, "%s", err)
		}
	}
	l.tokens = append(l.tokens, t)
	return nil
}

// symbols lists the tokens of punctuation, longest first.
var symbols = []struct {
	text string
	kind kind
}{
	{"||", or},
	{"&&", and},
	{"==", equal},
	{"!=", unequal},
	{"<=", lessEqual},
	{">=", greaterEqual},
	{"[]", flatten},
	{"[?", filter},
	{".", dot},
	{"*", star},
	{",", comma},
	{":", colon},
	{"@", current},
	{"&", expref},
	{"!", not},
	{"|", pipe},
	{"<", less},
	{">", greater},
	{"[", openBracket},
	{"]", closeBracket},
	{"{", openBrace},
	{"}", closeBrace},
	{"(", openParen},
	{")", closeParen},
}

func (l *lexer) symbol() error {
	rest := l.text[l.at:]
	for _, s := range symbols {
		if strings.HasPrefix(rest, s.text) {
			l.tokens = append(l.tokens, token{s.kind, s.text, l.at})
			l.at += len(s.text)
			return nil
		}
	}
	for _, r := range rest {
		return l.fail(l.at, "Unknown char: %s", strconv.QuoteRuneToASCII(r))
	}
	return nil
}
