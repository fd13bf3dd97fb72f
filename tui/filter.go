package tui

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A filter is a list of terms that must all hold: words that occur in a
// result's names, file or message, and field:value.
type filter []term

type term struct {
	field string // "" for a word
	value string // lower case
	not   bool
	exact bool // the value must be the whole field
}

// filterFields are the fields of terms, with their descriptions.
var filterFields = []struct{ name, doc string }{
	{"rule", "policy/rule"},
	{"kind", "the object's kind"},
	{"ns", "its namespace"},
	{"name", "its name"},
	{"unit", "the unit that it is of"},
	{"file", "the file to edit"},
	{"sev", "severity, or denied, warning, audit, error, unknown"},
	{"is", "open, new, known, suppressed, unknown, passed, fixed, staged, marked"},
}

// parseFilter parses a filter: words between blanks, "quoted words", with !
// before those that must not occur. Any text is a valid filter.
func parseFilter(s string) filter {
	var f filter
	for _, word := range splitWords(strings.ToLower(s)) {
		t := term{}
		t.value, t.not = strings.CutPrefix(word, "!")
		if field, value, ok := strings.Cut(t.value, ":"); ok && isField(field) {
			t.field, t.value = field, value
		} else if t.value == "new" || t.value == "open" {
			t.field = "is"
		}
		t.value = strings.ReplaceAll(t.value, `"`, "")
		if value, ok := strings.CutPrefix(t.value, "="); ok && t.field != "" {
			t.value, t.exact = value, true
		}
		if t.value != "" {
			f = append(f, t)
		}
	}
	return f
}

func isField(name string) bool {
	return slices.ContainsFunc(filterFields, func(f struct{ name, doc string }) bool { return f.name == name })
}

// splitWords splits at blanks that are not between quotes.
func splitWords(s string) []string {
	quoted := false
	return strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\t')
	})
}

func (f filter) match(e *entry) bool {
	for i := range f {
		if f[i].match(e) == f[i].not {
			return false
		}
	}
	return true
}

func (t *term) match(e *entry) bool {
	if t.exact {
		return slices.ContainsFunc(t.values(e), func(v string) bool { return strings.EqualFold(v, t.value) })
	}
	switch t.field {
	case "":
		return strings.Contains(e.text, t.value)
	case "rule":
		return contains(e.Policy, t.value) || contains(e.Rule, t.value) ||
			strings.Contains(t.value, "/") && contains(e.Policy+"/"+e.Rule, t.value)
	case "kind":
		return len(e.Object.Kind) >= len(t.value) && strings.EqualFold(e.Object.Kind[:len(t.value)], t.value)
	case "ns":
		return contains(e.Object.Namespace, t.value)
	case "name":
		return contains(e.Object.Name, t.value)
	case "unit":
		return contains(e.Object.Unit, t.value)
	case "file":
		return contains(e.file, t.value)
	case "sev":
		return strings.HasPrefix(string(e.Severity), t.value) || strings.HasPrefix(e.class, t.value) || strings.EqualFold(string(e.Action), t.value)
	default:
		return t.is(e)
	}
}

// values returns the values of the term's field in an entry.
func (t *term) values(e *entry) []string {
	switch t.field {
	case "rule":
		return []string{e.Policy, e.Rule, e.Policy + "/" + e.Rule}
	case "kind":
		return []string{e.Object.Kind}
	case "ns":
		return []string{e.Object.Namespace}
	case "name":
		return []string{e.Object.Name}
	case "unit":
		return []string{e.Object.Unit}
	case "file":
		return []string{e.file}
	case "sev":
		return []string{string(e.Severity), e.class, string(e.Action)}
	default:
		return []string{stateWords[e.state()]}
	}
}

func (t *term) is(e *entry) bool {
	switch t.value {
	case "staged":
		return e.accepted || e.restored
	case "marked":
		return e.marked
	case "unknown":
		return e.state() == isUndecided
	case "open":
		return e.state() == isNew
	}
	i := slices.Index(stateWords[:], t.value)
	return i >= 0 && e.state() == state(i)
}

// contains reports whether s contains a lower-case text, in any case.
func contains(s, lower string) bool {
	if strings.Contains(s, lower) {
		return true
	}
	for i := 0; i+len(lower) <= len(s); i++ {
		if s[i]|0x20 == lower[0]|0x20 && strings.EqualFold(s[i:i+len(lower)], lower) {
			return true
		}
	}
	return len(s) >= utf8.UTFMax && !isASCII(s) && strings.Contains(strings.ToLower(s), lower)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
