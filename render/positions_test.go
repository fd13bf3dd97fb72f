package render

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// textAt cuts a span out of a file without any of the package's own code.
func textAt(data []byte, s Span) string {
	if s.Line == 0 {
		return ""
	}
	lines := strings.SplitAfter(strings.TrimPrefix(string(data), "\ufeff"), "\n")
	var b strings.Builder
	for i := s.Line; i <= s.EndLine && i <= len(lines); i++ {
		line := strings.TrimPrefix(lines[i-1], "\ufeff")
		from, to := 0, len(line)
		if i == s.Line {
			from = byteAt(line, s.Column)
		}
		if i == s.EndLine {
			to = byteAt(line, s.EndColumn)
		}
		b.WriteString(line[from:to])
	}
	return b.String()
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
func checkPlaces(t *testing.T, data []byte, doc Document) int {
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
		if text := textAt(data, key); key != (Span{}) && !keyIs(text, path[len(path)-1]) {
			t.Errorf("%s: %q: key at %v is %q", doc.Span, pointer, key, text)
		}
		if text := textAt(data, value); !textIs(text, v) {
			t.Errorf("%s: %q: value at %v is %q, want %v", doc.Span, pointer, value, text, v)
		}
		if origins := doc.Positions.At(pointer); len(origins) == 0 || origins[0].Line != origins[0].EndLine || origins[0].Line < doc.Span.Line {
			t.Errorf("%s: %q: origins %v", doc.Span, pointer, origins)
		}
	})
	return n
}

func keyIs(text, key string) bool {
	m, err := sigsDecode([]byte("{? " + text + " : 1}"))
	if err != nil {
		m, err = sigsDecode([]byte(text + ": 1"))
	}
	_, ok := m.(map[string]any)[key]
	return err == nil && ok || strings.HasPrefix(text, "*")
}

func textIs(text string, v any) bool {
	switch v.(type) {
	case map[string]any:
		return strings.HasPrefix(text, "{") == strings.HasSuffix(text, "}") || !strings.HasPrefix(text, "{")
	case []any:
		return strings.HasPrefix(text, "[") == strings.HasSuffix(text, "]") || !strings.HasPrefix(text, "[")
	}
	if s, ok := v.(string); ok && strings.HasPrefix(text, "|") || strings.HasPrefix(text, ">") {
		return ok && len(strings.Fields(text)) == 1 && s != text
	}
	for _, tag := range []string{"", "!!str ", "!!float ", "!!int ", "!!bool ", "!!binary "} {
		if got, err := sigsDecode([]byte(tag + text)); err == nil && cmp.Equal(got, v) {
			return true
		}
	}
	return false
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
		docs, _ := Documents(name, data, YAML11)
		for _, doc := range docs {
			fields += checkPlaces(t, data, doc)
		}
	})
	t.Logf("%d fields", fields)
}
