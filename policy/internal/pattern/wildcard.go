package pattern

import (
	"strings"
	"unicode/utf8"
)

// Wildcard says whether * (any run, also an empty one) and ? (exactly one
// character) in a pattern make it the text. Nothing else is special, and an
// empty pattern is an empty text alone.
func Wildcard(pattern, text string) bool {
	p, t := 0, 0
	star, resume := -1, 0 // where the last * stands, and the text it has not eaten
	for t < len(text) {
		_, width := utf8.DecodeRuneInString(text[t:])
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, t
			p++
		case p < len(pattern) && pattern[p] == '?':
			p++
			t += width
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			_, width = utf8.DecodeRuneInString(text[resume:])
			resume += width
			p, t = star+1, resume
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// HasWildcard says whether a text holds * or ?.
func HasWildcard(s string) bool { return strings.ContainsAny(s, "*?") }
