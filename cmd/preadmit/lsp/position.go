package lsp

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// An Encoding is the unit in which the editor counts characters: bytes of UTF-8, or code
// units of UTF-16.
type Encoding string

// The encodings that the server can count in.
const (
	UTF8  Encoding = "utf-8"
	UTF16 Encoding = "utf-16"
)

// width returns the number of characters of a code point with the given size in UTF-8.
func (e Encoding) width(r rune, bytes int) int {
	switch {
	case e == UTF8:
		return bytes
	case r > 0xffff:
		return 2
	}
	return 1
}

// Character converts a column of a line, which counts code points from 1, to a character. Columns
// beyond the line become the line's end.
func (e Encoding) Character(line string, column int) int {
	n := 0
	for i := 1; i < column && line != ""; i++ {
		r, size := utf8.DecodeRuneInString(line)
		n += e.width(r, size)
		line = line[size:]
	}
	return n
}

// Column is the inverse of Character.
func (e Encoding) Column(line string, character int) int {
	return utf8.RuneCountInString(line[:e.offset(line, character)]) + 1
}

// offset returns the byte offset of a character in a line: the start of its code point, or the
// line's end.
func (e Encoding) offset(line string, character int) int {
	at := 0
	for at < len(line) {
		r, size := utf8.DecodeRuneInString(line[at:])
		if character -= e.width(r, size); character < 0 {
			break
		}
		at += size
	}
	return at
}

// offsetIn returns the byte offset of a position in a text. Positions beyond a line or the text
// become its end.
func (e Encoding) offsetIn(text string, p Position) int {
	start := 0
	for range p.Line {
		_, next := lineEnd(text, start)
		if next == start {
			return len(text)
		}
		start = next
	}
	end, _ := lineEnd(text, start)
	return start + e.offset(text[start:end], p.Character)
}

// lineEnd returns the end of the line that starts at an offset, and the start of the
// next one. Lines end with LF, CRLF or CR.
func lineEnd(text string, start int) (end, next int) {
	i := strings.IndexAny(text[start:], "\r\n")
	if i < 0 {
		return len(text), len(text)
	}
	end, next = start+i, start+i+1
	if strings.HasPrefix(text[end:], "\r\n") {
		next++
	}
	return end, next
}

// apply returns the text after a change in the editor.
func (e Encoding) apply(text string, c contentChange) string {
	if c.Range == nil {
		return c.Text
	}
	from := e.offsetIn(text, c.Range.Start)
	to := max(from, e.offsetIn(text, c.Range.End))
	return text[:from] + c.Text + text[to:]
}

// positionAt returns the position of an offset in a text.
func (e Encoding) positionAt(text string, offset int) Position {
	p, start := Position{}, 0
	for {
		end, next := lineEnd(text, start)
		if next > offset || next == end {
			p.Character = e.Character(text[start:min(end, offset)], len(text)+1)
			return p
		}
		p.Line, start = p.Line+1, next
	}
}

// edit returns the edit that replaces the differing lines of before to get after.
func (e Encoding) edit(before, after string) textEdit {
	from := 0
	for from < len(before) && from < len(after) && before[from] == after[from] {
		from++
	}
	from = strings.LastIndexByte(before[:from], '\n') + 1
	end, to := len(before), len(after)
	for end > from && to > from && before[end-1] == after[to-1] {
		end, to = end-1, to-1
	}
	rest := 0 // of the last differing line
	if end > 0 && before[end-1] != '\n' {
		_, rest = lineEnd(before[end:], 0)
	}
	end, to = end+rest, to+rest
	return textEdit{Range{e.positionAt(before, from), e.positionAt(before, end)}, after[from:to]}
}

// touches reports whether two ranges have a line in common.
func (r Range) touches(s Range) bool { return r.Start.Line <= s.End.Line && s.Start.Line <= r.End.Line }

// pathOf returns the path on this machine of a file's URI.
func pathOf(uri string) (string, error) {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return "", fmt.Errorf("%.200q is no URI", uri)
	case u.Scheme != "file":
		return "", fmt.Errorf("%.200q is no file", uri)
	case u.Host != "" && u.Host != "localhost":
		return "", fmt.Errorf("%.200q is a file of another machine", uri)
	}
	p := u.Path
	if len(p) > 2 && p[0] == '/' && filepath.VolumeName(filepath.FromSlash(p[1:])) != "" {
		p = p[1:] // a drive of Windows
	}
	if p = filepath.FromSlash(p); !filepath.IsAbs(p) || strings.ContainsRune(p, 0) {
		return "", fmt.Errorf("%.200q has no path from the root", uri)
	}
	return filepath.Clean(p), nil
}

// uriOf returns the URI of a file by its path.
func uriOf(file string) string {
	p := filepath.ToSlash(file)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return (&url.URL{Scheme: "file", Path: p}).String()
}

// A root is the directory of the repository: its real path, and the path that the editor uses,
// which may contain a link.
type root struct{ real, named string }

// newRoot returns the root of the repository at dir. folder is the directory in it that the editor
// opened.
func newRoot(dir, folder string) root {
	r := root{dir, dir}
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return r
	}
	rel, err := filepath.Rel(dir, real)
	if err != nil || !filepath.IsLocal(rel) {
		return r
	}
	if rel == "." {
		r.named = folder
	} else if named, ok := strings.CutSuffix(folder, string(filepath.Separator)+rel); ok {
		r.named = named
	}
	return r
}

// name returns the slash-separated name in the repository of a file with the editor's URI.
func (r root) name(uri string) (string, error) {
	file, err := pathOf(uri)
	if err != nil {
		return "", err
	}
	for _, dir := range []string{r.named, r.real} {
		if rel, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel), nil
		}
	}
	return "", fmt.Errorf("%.200q is not in %s", uri, r.named)
}

// uri returns the URI of a file in the repository, or "" if the name leads outside.
func (r root) uri(name string) string {
	rel := filepath.FromSlash(name)
	if !filepath.IsLocal(rel) {
		return ""
	}
	return uriOf(filepath.Join(r.named, rel))
}
