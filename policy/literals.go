package policy

import (
	"regexp"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// literalsFirst moves to the front the origins of the part of the string that the
// failure is about: of `image: repo:latest`, the tag rather than the repository.
// The part is the one that matches Result.Literals, else the one that the message
// quotes.
func literalsFirst(r *Result, o *render.Object, field string, origins []render.Origin) []render.Origin {
	if r.Outcome != Fail || len(origins) < 2 {
		return origins
	}
	value, _ := render.Lookup(o.Object, field)
	text, ok := value.(string)
	if !ok {
		return origins
	}
	for _, s := range slices.Concat(r.Literals, quoted(r.Message)) {
		part := partOf(text, s)
		if part == "" || part == text {
			continue
		}
		made := o.Part(field, part)
		first := slices.DeleteFunc(slices.Clone(origins), func(x render.Origin) bool { return !slices.Contains(made, x) })
		if len(first) > 0 && len(first) < len(origins) {
			rest := slices.DeleteFunc(slices.Clone(origins), func(x render.Origin) bool { return slices.Contains(made, x) })
			return append(first, rest...)
		}
	}
	return origins
}

// partOf returns the first match of literal in text. literal may be a regular
// expression.
func partOf(text, literal string) string {
	if strings.Contains(text, literal) {
		return literal
	}
	if regexp.QuoteMeta(literal) == literal || len(literal) > 1000 {
		return ""
	}
	if x, err := regexp.Compile(literal); err == nil {
		return x.FindString(text)
	}
	return ""
}

// quoted returns the quoted words of a message.
func quoted(message string) []string {
	var words []string
	for _, m := range quotedWords.FindAllStringSubmatch(message, -1) {
		words = append(words, m[1]+m[2]+m[3])
	}
	return words
}

var quotedWords = regexp.MustCompile("'([^'\\s]+)'|\"([^\"\\s]+)\"|`([^`\\s]+)`")
