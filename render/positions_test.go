package render

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// A page is a file's lines, to cut spans out of without any of the package's
// own code.
type page []string

func newPage(data []byte) page {
	lines := strings.SplitAfter(string(data), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "\ufeff")
	}
	return lines
}

func (p page) text(s Span) string {
	if s.Line == 0 || s.EndLine > len(p) {
		return ""
	}
	if s.Line == s.EndLine {
		line := p[s.Line-1]
		return line[byteAt(line, s.Column):byteAt(line, s.EndColumn)]
	}
	first, last := p[s.Line-1], p[s.EndLine-1]
	return first[byteAt(first, s.Column):] + strings.Join(p[s.Line:s.EndLine-1], "") + last[:byteAt(last, s.EndColumn)]
}

func byteAt(line string, column int) int {
	off := 0
	for ; column > 1 && off < len(line); column-- {
		_, size := utf8.DecodeRuneInString(line[off:])
		off += size
	}
	return off
}

// checkPlaces holds every field of a document against its text.
func checkPlaces(t *testing.T, page page, doc Document) int {
	t.Helper()
	n := 0
	walkValue(doc.Value, "", func(pointer string, v any) {
		n++
		key, value, ok := doc.Positions.Field(pointer)
		if !ok {
			t.Errorf("%s: %q has no place", doc.Span, pointer)
			return
		}
		path := Path(pointer)
		if text := page.text(key); key != (Span{}) && !keyIs(text, path[len(path)-1]) {
			t.Errorf("%s: %q: key at %v is %q", doc.Span, pointer, key, text)
		}
		if text := page.text(value); !textIs(text, v) {
			t.Errorf("%s: %q: value at %v is %q, want %v", doc.Span, pointer, value, text, v)
		}
		if origins := doc.Positions.At(pointer); len(origins) == 0 || origins[0].Line != origins[0].EndLine || origins[0].Line < doc.Span.Line {
			t.Errorf("%s: %q: origins %v", doc.Span, pointer, origins)
		}
	})
	return n
}

func keyIs(text, key string) bool {
	if text == key || strings.HasPrefix(text, "*") {
		return true
	}
	if strings.HasPrefix(text, "|") || strings.HasPrefix(text, ">") { // the header of a block
		return len(strings.Fields(text)) == 1
	}
	for _, form := range []string{"{? " + text + " : 1}", text + ": 1", "? " + text + "\n: 1", "{" + text + "}"} {
		v, _ := sigsDecode([]byte(form))
		m, _ := v.(map[string]any)
		if _, ok := m[key]; ok {
			return true
		}
	}
	return false
}

// textIs holds the text of a value against the value.
func textIs(text string, v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return strings.HasPrefix(text, "{") == strings.HasSuffix(text, "}") || !strings.HasPrefix(text, "{")
	case []any:
		return strings.HasPrefix(text, "[") == strings.HasSuffix(text, "]") || !strings.HasPrefix(text, "[")
	case string:
		if strings.HasPrefix(text, "|") || strings.HasPrefix(text, ">") {
			return len(strings.Fields(text)) == 1
		}
		var unquoted string
		if json.Unmarshal([]byte(text), &unquoted) == nil && unquoted == v {
			return true
		}
		if text == v && (shapelessText(text)) {
			return true
		}
	}
	if strings.HasSuffix(text, ":") || text == "-" { // plain scalars in flow style alone
		got, err := sigsDecode([]byte("[" + text + "]"))
		return err == nil && cmp.Equal(got, any([]any{v}))
	}
	for _, tag := range []string{"", "!!str ", "!!float ", "!!int ", "!!bool ", "!!null ", "!!binary "} {
		if got, err := sigsDecode([]byte(tag + text)); err == nil && cmp.Equal(got, v) {
			return true
		}
	}
	return false
}

// shapelessText tells plain words, which need no decoding to be themselves.
func shapelessText(text string) bool {
	return text != "" && text[0] >= 'A' && !strings.ContainsAny(text, "\n:#'\"\\{}[]~|>&*!%@`") && len(text) > 5
}

func walkValue(v any, pointer string, f func(string, any)) {
	f(pointer, v)
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			walkValue(e, pointer+Pointer(k), f)
		}
	case []any:
		for i, e := range v {
			walkValue(e, pointer+Pointer(i), f)
		}
	}
}

func TestPlacesOfCorpora(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("reads every file of the corpora")
	}
	fields := 0
	eachShared(t, func(name string, data []byte) {
		if len(data) > 1<<20 {
			return
		}
		page := newPage(data)
		docs, _ := Documents(name, data, YAML11)
		for _, doc := range docs {
			fields += checkPlaces(t, page, doc)
		}
	})
	t.Logf("%d fields", fields)
}
