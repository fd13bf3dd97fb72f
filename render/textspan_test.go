package render

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestInside points at the `X` of strings in every style. In the wanted
// places, ~ is a string that can't be pointed into.
func TestInside(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, yaml, want string }{
		{"plain", "v: ab Xy.z", "1:7-1:9"},
		{"plain in flow", "w: {v: ab.Xy, u: 1}", ""},
		{"plain with properties", "v: !!str &a abX", "1:15-1:16"},
		{"plain folded", "v: a &&\n  b\n\n  (Xy)", "4:4-4:6"},
		{"dot", "v: ob.Xy", "1:7-1:9"},
		{"single", "v: 'ab X'", "1:8-1:9"},
		{"single with quotes", "v: 'a == ''b'' && X'", "1:19-1:20"},
		{"single folded", "v: 'a ==\n   ''b''\n   X'", "3:4-3:5"},
		{"double", `v: "ab X"`, "1:8-1:9"},
		{"double with escapes", `v: "a\"\\\x41\u00e9 \t\nX"`, "1:25-1:26"},
		{"double with a line break", "v: \"a \\\n   b X\"", "2:6-2:7"},
		{"unknown escape", `v: "a\eX"`, "~"},
		{"wide", "v: 'äöü€😀 X'", "1:11-1:12"},
		{"literal", "v: |\n  one\n\n    two X\n", "4:9-4:10"},
		{"literal with indicators", "v: |2- # comment\n    one\n  X", "3:3-3:4"},
		{"folded", "v: >-\n  one &&\n  two\n\n  X", "5:3-5:4"},
		{"windows", "v: |\r\n  one\r\n  Xy\r\n", "3:3-3:5"},
		{"alias", "u: &a ab.X\nv: *a", "1:10-1:11"},
		{"json", `{"v": "a\n\/\"X\""}`, "1:15-1:16"},
		{"bom", "\ufeffv: aX", "1:5-1:6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			docs, err := Documents("f", []byte(c.yaml), YAML11)
			ok(t, err)
			pointer := "/v"
			text, ok := Lookup(docs[0].Value, pointer)
			if !ok {
				pointer, c.want = "/w/v", "1:11-1:13"
				text, _ = Lookup(docs[0].Value, pointer)
			}
			s := text.(string)
			n := strings.IndexRune(s, 'X')
			got := "~"
			if span, ok := docs[0].Positions.Inside(pointer, s, utf8.RuneCountInString(s[:n])); ok {
				got = fmt.Sprintf("%d:%d-%d:%d", span.Line, span.Column, span.EndLine, span.EndColumn)
			}
			if got != c.want {
				t.Errorf("%q: %s, want %s", c.yaml, got, c.want)
			}
		})
	}
}

// TestInsideElsewhere says that there is no place in what is no such string.
func TestInsideElsewhere(t *testing.T) {
	t.Parallel()
	docs, err := Documents("f", []byte("v: abc\nm: {a: b}\nempty:\nlast: abc"), YAML11)
	ok(t, err)
	for _, c := range []struct {
		pointer, text string
		n             int
		want          bool
	}{
		{"/v", "abd", 2, false},
		{"/v", "abc", 3, true},
		{"/v", "abc", 4, false},
		{"/v", "abc", -1, false},
		{"/m", "b", 0, false},
		{"/none", "b", 0, false},
		{"/empty", "b", 0, false},
		{"/last", "abcdef", 5, false},
	} {
		if _, ok := docs[0].Positions.Inside(c.pointer, c.text, c.n); ok != c.want {
			t.Errorf("%v: %v", c, ok)
		}
	}
	if _, ok := (&Object{Provenance: File{}}).Inside("/v", "abc", 0); ok {
		t.Error("a file knows no characters")
	}
}

// FuzzInside reads back the character at each place that is told.
func FuzzInside(f *testing.F) {
	for _, s := range []string{"v: a.b", "v: >\n  a\n   b\n", "v: 'a''b'", `v: "a\"\n\u0041b"`, "v: |+\n\n  ä\n\n", "v: a\n  b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, yaml string) {
		docs, _ := Documents("f", []byte(yaml), YAML11)
		for _, d := range docs {
			v, _ := Lookup(d.Value, "/v")
			text, _ := v.(string)
			for n, r := range []rune(text) {
				span, ok := d.Positions.Inside("/v", text, n)
				if !ok || r == utf8.RuneError {
					continue
				}
				src := d.Positions.src
				from := src.offset(span.Line-1, span.Column)
				if got, _ := utf8.DecodeRune(src.data[from:]); got != r && got != '\\' {
					t.Fatalf("%q: character %d is %q, not %q", yaml, n, r, got)
				}
			}
		}
	})
}
