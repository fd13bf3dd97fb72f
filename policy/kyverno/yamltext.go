package kyverno

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A yamlWriter writes JSON values as YAML for people to read, with keys sorted.
// It stops when the text is longer than most.
type yamlWriter struct {
	b    strings.Builder
	most int
}

// yamlText formats a value as YAML. Beyond most bytes the text may end
// anywhere.
func yamlText(v any, most int) string {
	w := yamlWriter{most: most}
	w.value(v, 0, true)
	return w.b.String()
}

// value writes the value after a key, or after a dash (open), at a depth of
// indentation.
func (y *yamlWriter) value(v any, depth int, open bool) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			y.fields(v, depth, open)
			return
		}
	case []any:
		if len(v) > 0 {
			y.items(v, depth, open)
			return
		}
	}
	if !open {
		y.b.WriteByte(' ')
	}
	y.b.WriteString(scalarText(v, depth))
	y.b.WriteByte('\n')
}

func (y *yamlWriter) fields(m map[string]any, depth int, open bool) {
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if y.b.Len() > y.most {
			return
		}
		y.begin(depth, open && i == 0, i == 0)
		y.b.WriteString(scalarText(key, depth) + ":")
		_, isList := m[key].([]any)
		inner := depth + 1
		if isList { // dashes are not indented
			inner = depth
		}
		y.value(m[key], inner, false)
	}
}

func (y *yamlWriter) items(list []any, depth int, open bool) {
	for i, item := range list {
		if y.b.Len() > y.most {
			return
		}
		y.begin(depth, open && i == 0, i == 0)
		y.b.WriteString("- ")
		y.value(item, depth+1, true)
	}
}

// begin starts the line of a field or item. With open, the first one continues
// the current line.
func (y *yamlWriter) begin(depth int, open, first bool) {
	if open {
		return
	}
	if first {
		y.b.WriteByte('\n')
	}
	y.b.WriteString(strings.Repeat("  ", depth))
}

// plainText matches text that needs no quotes.
var plainText = regexp.MustCompile(`^[A-Za-z_/$(]([^:#'"{}\[\],&*!|>%@\x60\n\t\\]*[^:#'"{}\[\],&*!|>%@\x60\s\\])?$`)

// scalarText formats a scalar, or an empty map or list.
func scalarText(v any, depth int) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "{}"
	case []any:
		return "[]"
	case string:
		return stringText(v, depth)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// words are those that YAML does not read as strings.
var words = map[string]bool{
	"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "true": true, "false": true, "null": true,
}

func stringText(s string, depth int) string {
	switch {
	case plainText.MatchString(s) && !words[strings.ToLower(s)] && printable(s):
		return s
	case strings.Contains(s, "\n") && !strings.HasPrefix(s, " ") && printable(s):
		return literal(s, depth)
	case printable(s) && !strings.Contains(s, "\n"):
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	default:
		return strconv.Quote(s)
	}
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !strconv.IsPrint(r) })
}

// literal formats text of several lines as a block literal.
func literal(s string, depth int) string {
	indent := strings.Repeat("  ", max(depth, 1))
	end := "|-"
	if strings.HasSuffix(s, "\n") {
		end, s = "|", strings.TrimSuffix(s, "\n")
		if strings.HasSuffix(s, "\n") {
			end = "|+"
		}
	}
	return end + "\n" + indent + strings.ReplaceAll(s, "\n", "\n"+indent)
}
