package mutation

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A token is a word of an expression. Offsets are in bytes.
type token struct {
	kind     tokenKind
	from, to int
	text     string
	depth    int // of brackets around it
	mate     int // of a bracket: the index of its counterpart
}

type tokenKind uint8

const (
	wordToken tokenKind = iota
	numberToken
	stringToken
	operatorToken
	bracketToken
)

// A language describes how the tokens of an expression are written.
type language struct {
	comment string
	quotes  string // each begins and ends a string
	raw     string // quotes in which a backslash escapes nothing
	triple  bool   // quotes may be triple, and prefixed by r and b
}

var (
	celLanguage      = language{comment: "//", quotes: `"'`, triple: true}
	regoLanguage     = language{comment: "#", quotes: "\"`", raw: "`"}
	jmespathLanguage = language{quotes: "\"'`"}
)

var operatorTexts = []string{"==", "!=", "<=", ">=", "&&", "||", ":="}

// tokens splits an expression. ok is false if brackets or quotes don't match.
func (l language) tokens(s string) (all []token, ok bool) {
	var open []int
	for at := 0; at < len(s); {
		r, size := utf8.DecodeRuneInString(s[at:])
		t := token{from: at, to: at + size, depth: len(open), mate: -1}
		switch {
		case unicode.IsSpace(r):
			at += size
			continue
		case l.comment != "" && strings.HasPrefix(s[at:], l.comment):
			if i := strings.IndexByte(s[at:], '\n'); i >= 0 {
				at += i
				continue
			}
			return all, len(open) == 0
		case r == '_' || unicode.IsLetter(r):
			for t.to < len(s) && isWordByte(s[t.to]) {
				t.to++
			}
			if t.to < len(s) && l.triple && strings.Trim(strings.ToLower(s[at:t.to]), "rb") == "" && strings.IndexByte(l.quotes, s[t.to]) >= 0 {
				t.kind = stringToken
				if t.to = l.stringEnd(s, t.to, strings.ContainsAny(s[at:t.to], "rR")); t.to < 0 {
					return nil, false
				}
			}
		case r >= '0' && r <= '9':
			t.kind = numberToken
			for t.to < len(s) && (isWordByte(s[t.to]) || s[t.to] == '.' && t.to+1 < len(s) && s[t.to+1] >= '0' && s[t.to+1] <= '9') {
				t.to++
			}
		case strings.ContainsRune(l.quotes, r):
			t.kind = stringToken
			if t.to = l.stringEnd(s, at, strings.ContainsRune(l.raw, r)); t.to < 0 {
				return nil, false
			}
		case strings.ContainsRune("([{", r):
			t.kind = bracketToken
			open = append(open, len(all))
		case strings.ContainsRune(")]}", r):
			if len(open) == 0 {
				return nil, false
			}
			t.kind, t.mate = bracketToken, open[len(open)-1]
			open = open[:len(open)-1]
			t.depth = len(open)
			all[t.mate].mate = len(all)
		default:
			t.kind = operatorToken
			for _, o := range operatorTexts {
				if strings.HasPrefix(s[at:], o) {
					t.to = at + len(o)
				}
			}
		}
		t.text = s[t.from:t.to]
		all = append(all, t)
		at = t.to
	}
	return all, len(open) == 0
}

func isWordByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// stringEnd returns the end of the string whose quote is at an offset, or -1 if it
// has none.
func (l language) stringEnd(s string, at int, raw bool) int {
	quote := s[at : at+1]
	if l.triple && strings.HasPrefix(s[at:], strings.Repeat(quote, 3)) {
		quote = s[at : at+3]
	}
	for i := at + len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		}
	}
	return -1
}

// A change replaces a part of an expression.
type change struct {
	mutator  Mutator
	from, to int
	text     string
	words    string
	at       int // the token that it changes
}

// comparisons maps an operator to its opposite and to the one that differs only for
// equal operands.
var comparisons = map[string][]string{
	"==": {"!="}, "!=": {"=="},
	"<": {"<=", ">="}, "<=": {"<", ">"}, ">": {">=", "<="}, ">=": {">", "<"},
}

// compared changes the comparisons among tokens.
func compared(tokens []token) []change {
	var all []change
	for i, t := range tokens {
		if t.kind != operatorToken {
			continue
		}
		for _, to := range comparisons[t.text] {
			all = append(all, change{Comparison, t.from, t.to, to, t.text + " to " + to, i})
		}
	}
	return all
}

// constants changes the numbers, strings and booleans among tokens.
func constants(tokens []token) []change {
	var all []change
	for i, t := range tokens {
		text := ""
		switch t.kind {
		case numberToken:
			text = nextNumber(t.text)
		case stringToken:
			text = otherString(t.text)
		case wordToken:
			beside := i > 0 && (tokens[i-1].text == "==" || tokens[i-1].text == "!=" || tokens[i-1].text == ".")
			if text = map[string]string{"true": "false", "false": "true"}[t.text]; beside {
				continue // the opposite comparison is the same
			}
		}
		if text != "" {
			all = append(all, change{Constant, t.from, t.to, text, shortened(t.text) + " to " + shortened(text), i})
		}
	}
	return append(all, elements(tokens)...)
}

// elements leaves out each element of lists of literals that have several.
func elements(tokens []token) []change {
	var all []change
	for i, t := range tokens {
		if t.kind != bracketToken || t.mate < i || t.text == "(" || i > 0 && t.text == "[" && indexed(tokens[i-1]) {
			continue
		}
		inside := tokens[i+1 : t.mate]
		literals := len(inside) >= 3 && len(inside)%2 == 1
		for k, x := range inside {
			literals = literals && (k%2 == 1 && x.text == "," || k%2 == 0 && (x.kind == stringToken || x.kind == numberToken))
		}
		for k := 0; literals && k < len(inside); k += 2 {
			from, to := inside[k].from, inside[k].to
			if k+2 < len(inside) {
				to = inside[k+2].from
			} else {
				from = inside[k-2].to
			}
			all = append(all, change{Constant, from, to, "", shortened(inside[k].text) + " left out", i + 1 + k})
		}
	}
	return all
}

// indexed reports whether a bracket behind the token is an index.
func indexed(t token) bool {
	return t.kind == wordToken && t.text != "in" && t.text != "return" || t.kind == stringToken || t.text == ")" || t.text == "]" || t.text == "?"
}

func nextNumber(s string) string {
	digits := strings.TrimRight(s, "uU")
	suffix := s[len(digits):]
	if strings.Trim(digits, "0123456789") != "" || len(digits) > 17 {
		return ""
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return ""
	}
	return strconv.Itoa(n+1) + suffix
}

// otherString appends a letter to a string, in a regular expression before a final $.
func otherString(s string) string {
	quote := 1
	for _, q := range []string{`"""`, `'''`} {
		if strings.HasSuffix(s, q) && len(s) >= 6 {
			quote = 3
		}
	}
	body, end := s[:len(s)-quote], s[len(s)-quote:]
	if strings.HasSuffix(body, "$") {
		return strings.TrimSuffix(body, "$") + "x$" + end
	}
	return body + "x" + end
}

// shortened returns a token for messages.
func shortened(s string) string {
	const most = 40
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > most {
		return string([]rune(s)[:most]) + "…"
	}
	return s
}
