package render

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// TestStringAt writes a mark at each place of documents. Where that is in a string, StringAt finds the string
// and its part before the mark.
func TestStringAt(t *testing.T) {
	t.Parallel()
	for _, yaml := range []string{
		"kind: A\nv:\n- object.a &&\n    b.c # comment\n- x: 'a == ''b''\n   c'\n  u: \"a\\\"\\\\ \\u00e9b  c\\n d\"\n",
		"kind: A\nv: |\n  object.a &&\n\n    b.c\n  d\nw: >-\n  a\n  b\n\n  c\nz: 1\n", "kind: A\nv: |2-\n    a\n  b  \n\n",
		"kind: A\nv: &a !!str ab  \nw: {a: b c, d: [e, 'f']}\n", "kind: A\r\nv: |\r\n  a\r\n  b\r\n", `{"kind": "A", "v": "a.b", "w": ["c"]}`,
		"\ufeffkind: A\nv: äö😀.b\n", "kind: A\n---\nkind: B\nv: a.\n---\nkind: C\n", "kind: A\nv:  \nw:\nx: ''\nu: |\n",
	} {
		found := 0
		for at := range len(yaml) {
			if !utf8.RuneStart(yaml[at]) {
				continue
			}
			marked, _ := Documents("f", []byte(yaml[:at]+"Ω"+yaml[at:]), YAML11)
			docs, err := Documents("f", []byte(yaml), YAML11)
			ok(t, err)
			start := strings.LastIndexByte(yaml[:at], '\n') + 1
			line, column := strings.Count(yaml[:at], "\n")+1, utf8.RuneCountInString(strings.TrimPrefix(yaml[start:at], "\ufeff"))+1
			for i, d := range docs {
				pointer, before, found1 := (&Object{Unstructured: &unstructured.Unstructured{Object: d.Value.(map[string]any)}, Provenance: d.Positions}).StringAt(line, column)
				if len(marked) != len(docs) {
					continue
				}
				for field, v := range Fields(marked[i].Value, "") {
					text, _ := v.(string)
					want, rest, here := strings.Cut(text, "Ω")
					was, _ := Lookup(d.Value, field)
					if s, _ := was.(string); !here || strings.Join(strings.Fields(want+rest), "") != strings.Join(strings.Fields(s), "") {
						continue
					}
					words, written := strings.Fields(want), want
					if want = strings.Join(words, " "); len(words) > 0 && strings.TrimSpace(written[len(written)-1:]) == "" {
						want += " "
					}
					if got := strings.Join(strings.Fields(before+"Ω"), " "); !found1 || pointer != field || got != strings.Join(strings.Fields(want+"Ω"), " ") {
						t.Errorf("%q: %v %s %q, want %s %q", yaml[:at], found1, pointer, before, field, want)
					}
					found++
				}
			}
		}
		if found < 3 {
			t.Errorf("%q: found in %d places", yaml, found)
		}
	}
}
