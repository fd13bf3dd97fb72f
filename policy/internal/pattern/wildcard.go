package pattern

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Wildcard reports whether a text matches a pattern, in which * matches any run
// of characters, also an empty one, and ? exactly one. No other character is
// special. An empty pattern matches only an empty text.
func Wildcard(pattern, text string) bool {
	head, rest, starred := strings.Cut(pattern, "*")
	end, ok := prefix(text, head)
	if !ok || !starred {
		return ok && end == len(text)
	}
	text = text[end:]
	for {
		segment, after, more := strings.Cut(rest, "*")
		if !more {
			return endsIn(text, segment)
		}
		if _, end, ok = find(text, segment); !ok {
			return false
		}
		text, rest = text[end:], after
	}
}

// AnyWildcard reports whether one of the patterns matches the text.
func AnyWildcard(patterns []string, text string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Wildcard(p, text) })
}

// HasWildcard reports whether a text contains * or ?.
func HasWildcard(s string) bool { return strings.ContainsAny(s, "*?") }

// Texts returns the parts of a pattern between its wildcards.
func Texts(pattern string) []string {
	return strings.FieldsFunc(pattern, func(c rune) bool { return c == '*' || c == '?' })
}

// prefix reports whether a text starts with a segment, in which ? is any
// character, and returns where the segment ends.
func prefix(text, segment string) (end int, ok bool) {
	if strings.IndexByte(segment, '?') < 0 {
		return len(segment), strings.HasPrefix(text, segment)
	}
	for i := range len(segment) {
		switch {
		case end == len(text):
			return 0, false
		case segment[i] == '?':
			_, width := utf8.DecodeRuneInString(text[end:])
			end += width
		case segment[i] != text[end]:
			return 0, false
		default:
			end++
		}
	}
	return end, true
}

// find returns where a segment first occurs in a text, which is the best place
// for the segments after it.
func find(text, segment string) (start, end int, ok bool) {
	if strings.IndexByte(segment, '?') < 0 {
		start = strings.Index(text, segment)
		return start, start + len(segment), start >= 0
	}
	for start <= len(text) {
		if n, ok := prefix(text[start:], segment); ok {
			return start, start + n, true
		}
		_, width := utf8.DecodeRuneInString(text[start:])
		start += max(width, 1)
	}
	return 0, 0, false
}

// endsIn reports whether a text ends in a segment.
func endsIn(text, segment string) bool {
	if strings.IndexByte(segment, '?') < 0 {
		return strings.HasSuffix(text, segment)
	}
	start := len(text)
	for range utf8.RuneCountInString(segment) {
		_, width := utf8.DecodeLastRuneInString(text[:start])
		start -= width
	}
	end, ok := prefix(text[start:], segment)
	return ok && start+end == len(text)
}
