package lsp

import (
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func TestCharacter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line         string
		column       int
		utf8, utf16  int
		offset, back int // of the position in UTF-16, and of the one behind
	}{
		{"abc", 1, 0, 0, 0, 1},
		{"abc", 4, 3, 3, 3, 3},
		{"abc", 9, 3, 3, 3, 3},
		{"ä: 1", 2, 2, 1, 2, 3},
		{"日本: x", 5, 8, 4, 8, 9},
		{"😀😀: x", 2, 4, 2, 4, 4}, // the one behind is within a pair
		{"e\u0301=", 3, 3, 2, 3, 4},
		{"", 1, 0, 0, 0, 0},
	} {
		if got := UTF8.Character(c.line, c.column); got != c.utf8 {
			t.Errorf("%q column %d: character %d in UTF-8, want %d", c.line, c.column, got, c.utf8)
		}
		got := UTF16.Character(c.line, c.column)
		if got != c.utf16 {
			t.Errorf("%q column %d: character %d in UTF-16, want %d", c.line, c.column, got, c.utf16)
		}
		for _, e := range []Encoding{UTF8, UTF16} {
			want := min(c.column, utf8.RuneCountInString(c.line)+1)
			if back := e.Column(c.line, e.Character(c.line, c.column)); back != want {
				t.Errorf("%q: column %d is %d after its character in %s", c.line, want, back, e)
			}
		}
		if at, back := UTF16.offset(c.line, got), UTF16.offset(c.line, got+1); at != c.offset || back != c.back {
			t.Errorf("%q character %d: offset %d and %d behind it, want %d and %d", c.line, got, at, back, c.offset, c.back)
		}
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	at := func(l1, c1, l2, c2 int) *Range { return &Range{Position{l1, c1}, Position{l2, c2}} }
	for _, c := range []struct {
		text   string
		change contentChange
		want   string
	}{
		{"old", contentChange{nil, "new"}, "new"},
		{"a: 1\nb: 2\n", contentChange{at(1, 3, 1, 4), "3"}, "a: 1\nb: 3\n"},
		{"a: 😀x\nb: 2\n", contentChange{at(0, 5, 0, 6), "y"}, "a: 😀y\nb: 2\n"},
		{"a\r\nb\rc", contentChange{at(1, 0, 2, 1), "d"}, "a\r\nd"},
		{"a\n", contentChange{at(1, 0, 1, 0), "b\n"}, "a\nb\n"},
		{"a\nb", contentChange{at(0, 1, 1, 0), ""}, "ab"},
		{"a", contentChange{at(7, 7, 9, 9), "b"}, "ab"},
		{"abc", contentChange{at(0, 2, 0, 1), "x"}, "abxc"},
		{"abc", contentChange{at(-1, -5, 0, 1), "x"}, "xbc"},
	} {
		if got := UTF16.apply(c.text, c.change); got != c.want {
			t.Errorf("%q with %+v is %q, want %q", c.text, c.change, got, c.want)
		}
	}
}

// FuzzEdit holds that the edit between two texts makes one of the other, that positions
// lead back to their offsets, and that characters are those of package utf16.
func FuzzEdit(f *testing.F) {
	for _, s := range [][2]string{{"", "a\n"}, {"a\nb\nc", "a\nc"}, {"é😀\r\n日\rx", "é😁\r\n日\rx"}, {"a: 1\n", "a: 1\nb: 2"}, {"\r", "\r\n"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		before, after = strings.ToValidUTF8(before[:min(len(before), 200)], "?"), strings.ToValidUTF8(after[:min(len(after), 200)], "?")
		for _, e := range []Encoding{UTF8, UTF16} {
			edit := e.edit(before, after)
			if got := e.apply(before, contentChange{&edit.Range, edit.NewText}); got != after {
				t.Fatalf("%s: %q with %+v is %q, want %q", e, before, edit, got, after)
			}
			for at := range before {
				if at > 0 && before[at-1:at+1] == "\r\n" {
					continue // there is no position within a line's end
				}
				p := e.positionAt(before, at)
				if back := e.offsetIn(before, p); back != at {
					t.Fatalf("%s: offset %d of %q is %+v, which is offset %d", e, at, before, p, back)
				}
			}
		}
		line, _, _ := strings.Cut(before, "\n")
		if n := utf8.RuneCountInString(line); UTF16.Character(line, n+1) != len(utf16.Encode([]rune(line))) {
			t.Fatalf("%q has %d characters", line, UTF16.Character(line, n+1))
		}
	})
}

func TestFiles(t *testing.T) {
	t.Parallel()
	r := root{"/real/repo", "/home/me/repo"}
	for uri, want := range map[string]string{
		"file:///home/me/repo/a/b.yaml":             "a/b.yaml",
		"file://localhost/real/repo/b.yaml":         "b.yaml",
		"file:///home/me/repo/a%20b/%E6%97%A5.yaml": "a b/日.yaml",
		"file:///home/me/repo/../repo/b.yaml":       "b.yaml",
	} {
		if got, err := r.name(uri); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", uri, got, err, want)
		}
	}
	for _, uri := range []string{
		"file:///etc/passwd", "file:///home/me/repo/../../etc/passwd", "file:///home/me/repo/..%2f..%2fx", "file://server/share/x", "untitled:1", "https://example.org/home/me/repo/x",
		"file:home/me/repo/x", "file:///home/me/repo/%00", "file:///home/me/repo/%zz", "", "\x00",
	} {
		if got, err := r.name(uri); err == nil {
			t.Errorf("%q: is %q", uri, got)
		}
	}
	if got := r.uri("a b/日.yaml"); got != "file:///home/me/repo/a%20b/%E6%97%A5.yaml" {
		t.Error(got)
	}
	if got := r.uri("../x"); got != "" {
		t.Error(got)
	}
}
