package jmespath

import (
	"regexp/syntax"
	"strings"
)

// maxRandom bounds the text that replaces a random one.
const maxRandom = 64 << 10

func random(s *search, a []val) (val, error) {
	source := a[0].v.(string)
	if source == "" {
		return val{}, plainf("random", "no pattern provided")
	}
	tree, err := parseRegex(source)
	if err != nil {
		return val{}, regexError("random", err, false)
	}
	var b strings.Builder
	if !example(tree, &b) {
		return val{}, errLongRandom
	}
	if s.options != nil && s.options.Decides {
		return val{}, &UndecidedError{Function: "random", Reason: "its text is another one each time"}
	}
	s.assume("random(%s) gives %q", clip(source, 128), clip(b.String(), 128))
	return s.newText(b.String())
}

var errLongRandom = &LimitError{Message: "a random text is longer than a search may make"}

// Example returns a short text that matches a regular expression, always the same one.
func Example(source string) (string, error) {
	tree, err := parseRegex(source)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if !example(tree, &b) {
		return "", errLongRandom
	}
	return b.String(), nil
}

// example writes the shortest text that matches a regular expression, of the first
// characters of its classes. It returns false if the text is too long.
func example(r *syntax.Regexp, b *strings.Builder) bool {
	switch r.Op {
	case syntax.OpLiteral:
		b.WriteString(string(r.Rune))
	case syntax.OpCharClass:
		b.WriteRune(plainRune(r.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('a')
	case syntax.OpCapture, syntax.OpPlus:
		return example(r.Sub[0], b)
	case syntax.OpAlternate:
		return example(r.Sub[0], b)
	case syntax.OpConcat:
		for _, sub := range r.Sub {
			if !example(sub, b) {
				return false
			}
		}
	case syntax.OpRepeat:
		for range r.Min {
			if !example(r.Sub[0], b) {
				return false
			}
		}
	}
	return b.Len() <= maxRandom
}

// plainRune returns a character of a class, a letter or a digit if possible.
func plainRune(class []rune) rune {
	for _, c := range "a0A" {
		for i := 0; i+1 < len(class); i += 2 {
			if class[i] <= c && c <= class[i+1] {
				return c
			}
		}
	}
	if len(class) == 0 {
		return 'a'
	}
	return class[0]
}
