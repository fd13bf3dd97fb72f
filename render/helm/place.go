package helm

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/preadmit/preadmit/render"
)

// A place is where a chart's file is: in the tree, or in an archive in the
// tree.
type place struct {
	file  string // in the tree
	entry string // in the archive; "" for a file in the tree
}

// join returns the place of a file below a directory.
func (p place) join(name string) place {
	if p.entry != "" || strings.HasSuffix(p.file, ".tgz") {
		return place{p.file, path.Join(p.entry, name)}
	}
	return place{file: path.Join(p.file, name)}
}

// span returns a position of the place. An archive has no lines to go to, so
// its span is the whole archive.
func (p place) span(line, column int) render.Span {
	if p.entry != "" {
		return render.Span{File: p.file}
	}
	s := render.Span{File: p.file, Line: line, Column: column, EndLine: line}
	if column > 0 {
		s.EndColumn = column + 1
	}
	return s
}

// errorAt returns an error at a position of the place, and names the entry of
// an archive.
func (p place) errorAt(rule string, line, column int, err error) *render.Error {
	if p.entry != "" {
		at := p.entry
		if line > 0 {
			at = fmt.Sprintf("%s:%d", at, line)
		}
		err = fmt.Errorf("%s: %w", at, err)
	}
	return &render.Error{Span: p.span(line, column), Rule: rule, Err: err}
}

// sentence makes a text from a chart safe for an error: one line without
// control characters, at most 4 KiB.
func sentence(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case r < ' ', r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return utf8.RuneError
		}
		return r
	}, strings.TrimSpace(text))
	return render.Cut(render.WithoutAddresses(text), maxMessage)
}
