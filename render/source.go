package render

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// A source is a file's text with an index of its lines. The documents of a
// file share it.
type source struct {
	file  string
	data  []byte
	lines []uint32 // offsets of the beginnings of lines
	ascii bool     // every character is one byte
	keys  []string // of maps, each once

	scratch scratch      // buffers of the document being decoded
	block   *blockReader // nil but while documents are decoded
}

// newSource indexes the lines of data. It keeps data, which must not change
// afterwards. A line feed at the end does not begin another line.
func newSource(file string, data []byte) *source {
	s := &source{file: file, data: data, lines: make([]uint32, 0, 1+len(data)/28), ascii: isASCII(data)}
	for off := 0; off < len(data); {
		s.lines = append(s.lines, uint32(off))
		n := bytes.IndexByte(data[off:], '\n')
		if n < 0 {
			break
		}
		off += n + 1
	}
	return s
}

func isASCII(data []byte) bool {
	return !slices.ContainsFunc(data, func(b byte) bool { return b >= utf8.RuneSelf })
}

func (s *source) lineCount() int { return len(s.lines) }

// lineAt returns the offsets of line i, from 0, including its line feed. A line
// behind the last is empty.
func (s *source) lineAt(i int) (from, to int) {
	switch {
	case i >= len(s.lines):
		return len(s.data), len(s.data)
	case i+1 == len(s.lines):
		return int(s.lines[i]), len(s.data)
	}
	return int(s.lines[i]), int(s.lines[i+1])
}

// content returns the offsets of line i without its line break and byte order
// mark.
func (s *source) content(i int) (from, to int) {
	from, to = s.lineAt(i)
	if bytes.HasPrefix(s.data[from:to], bom) {
		from += len(bom)
	}
	for to > from && (s.data[to-1] == '\n' || s.data[to-1] == '\r') {
		to--
	}
	return from, to
}

// offset returns the offset of a column (from 1, in code points) of line i
// (from 0).
func (s *source) offset(i, column int) int {
	from, to := s.lineAt(i)
	if s.ascii {
		return min(from+column-1, to)
	}
	if bytes.HasPrefix(s.data[from:to], bom) {
		from += len(bom)
	}
	for ; column > 1 && from < to; column-- {
		if s.data[from] < utf8.RuneSelf {
			from++
			continue
		}
		_, size := utf8.DecodeRune(s.data[from:to])
		from += size
	}
	return from
}

// place returns the line and column, from 1, of an offset.
func (s *source) place(off int) (line, column int) {
	i, found := slices.BinarySearch(s.lines, uint32(off))
	if !found {
		i--
	}
	from, _ := s.content(max(0, i))
	if s.ascii {
		return max(0, i) + 1, 1 + off - from
	}
	return max(0, i) + 1, 1 + utf8.RuneCount(s.data[min(from, off):off])
}

// span returns the Span between two offsets.
func (s *source) span(from, to int) Span {
	line, column := s.place(from)
	endLine, endColumn := s.place(to)
	return Span{File: s.file, Line: line, Column: column, EndLine: endLine, EndColumn: endColumn}
}

// text returns the Span of line i, from 0, without indentation and trailing
// blanks.
func (s *source) text(i int) Span {
	from, to := s.content(i)
	for from < to && (s.data[from] == ' ' || s.data[from] == '\t') {
		from++
	}
	return s.span(from, s.trimRight(from, to))
}

func (s *source) trimRight(from, to int) int {
	for to > from && (s.data[to-1] == ' ' || s.data[to-1] == '\t' || s.data[to-1] == '\r') {
		to--
	}
	return to
}

// errorAt returns an error at the rest of line i (from 0) from column (from 1)
// on.
func (s *source) errorAt(i, column int, rule, sentence string) *Error {
	from := s.offset(i, column)
	_, to := s.content(i)
	return &Error{Span: s.span(from, max(from, s.trimRight(from, to))), Rule: rule, Err: errors.New(sentence)}
}

// errorAtOffset returns an error at the character at off.
func (s *source) errorAtOffset(off int, rule string, err error) *Error {
	_, size := utf8.DecodeRune(s.data[off:])
	return &Error{Span: s.span(off, off+size), Rule: rule, Err: err}
}

// Glob reports whether text matches a pattern in which * matches any text
// without a slash and ** any text. No other character is special. The time it
// takes grows with the product of both lengths.
func Glob(pattern, text string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == text
	}
	// held[i] is true if the pattern so far matches text[:i].
	held := make([]bool, len(text)+1)
	held[0] = true
	for pattern != "" {
		rest := strings.TrimLeft(pattern, "*")
		switch stars := len(pattern) - len(rest); stars {
		case 0:
			for i := len(text); i > 0; i-- {
				held[i] = held[i-1] && text[i-1] == pattern[0]
			}
			held[0] = false
			pattern = pattern[1:]
		default:
			for i := range len(text) {
				held[i+1] = held[i+1] || held[i] && (stars > 1 || text[i] != '/')
			}
			pattern = rest
		}
	}
	return held[len(text)]
}

// A Selection chooses the deployed part of a tree. The zero value leaves out
// directories whose name begins with a dot, and fixtures of test suites.
type Selection struct {
	Exclude []string // globs from the root: * within a name, ** across; a match includes everything below it
	Hidden  bool     // hidden directories and fixtures are deployed too
}

// excluded returns the glob that leaves out name or a directory above it, or
// "".
func (s Selection) excluded(name string) string {
	for _, glob := range s.Exclude {
		clean := strings.TrimPrefix(path.Clean(glob), "/")
		for dir := name; dir != "."; dir = path.Dir(dir) {
			if globsPath(clean, dir) {
				return glob
			}
		}
	}
	return ""
}

// Excludes reports whether a glob of the selection leaves out the file name.
func (s Selection) Excludes(name string) bool { return s.excluded(name) != "" }

// globsPath is Glob for paths: "**/" also matches no directory at all.
func globsPath(glob, name string) bool {
	return Glob(glob, name) || Glob(strings.TrimPrefix(glob, "**/"), name) ||
		Glob(strings.ReplaceAll(glob, "/**/", "/"), name)
}

// around returns the selection below a path that is given by name. Globs that
// would leave out the path itself do not apply.
func (s Selection) around(name string) Selection {
	s.Exclude = slices.DeleteFunc(slices.Clone(s.Exclude), func(glob string) bool {
		return Selection{Exclude: []string{glob}}.excluded(name) != ""
	})
	return s
}

// leaves returns why a directory with this name is not deployed, and the state of the documents in
// it. The reason is "" if the directory is deployed.
func (s Selection) leaves(name string) (reason string, state DocumentState) {
	base := path.Base(name)
	switch {
	case s.excluded(name) != "":
		return "excluded by " + s.excluded(name), DocExcluded
	case s.Hidden:
	case base == "testdata" || base == ".chainsaw-test" || base == ".kyverno-test":
		return "fixtures of a test suite", DocFixture
	case strings.HasPrefix(base, "."):
		return "hidden directory", DocExcluded
	}
	return "", ""
}
