package report

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report/internal/sarif"
)

// srcRoot is the base of uris: the root of the repository.
const srcRoot = "%SRCROOT%"

const maxSnippet = 1000 // bytes

// locate returns the place at which a result is shown: the first of its origins that is
// a file of the tree, else, with exact false, the unit's own file, the rule's, or the
// nearest other file. ok is false if there is none.
func (s *source) locate(x *policy.Result) (o render.Origin, exact, ok bool) {
	for _, o := range x.Origins {
		if o, ok := s.within(o); ok {
			return o, true, true
		}
	}
	rule := render.Origin{Span: x.PolicyOrigin}
	if o, ok := s.within(rule); ok && (x.Object.Kind == "" || x.Engine == policy.EngineCompile) {
		return o, true, true
	}
	near := []string{x.Object.Unit}
	for _, o := range x.Origins {
		near = append(near, o.File)
	}
	for _, p := range near {
		if file := s.nearest(p); file != "" {
			return render.Origin{Span: render.Span{File: file}}, false, true
		}
	}
	o, ok = s.within(rule)
	return o, false, ok
}

// within returns o with the file's path after resolving links and with a line that the file has. ok
// is false if the file is not in the tree. Without a tree, ok is true if the path could be in one.
func (s *source) within(o render.Origin) (_ render.Origin, ok bool) {
	if s.tree == nil {
		return o, uri(o.File) != ""
	}
	f := s.file(o.File)
	if f == nil || uri(f.path) == "" {
		return o, false
	}
	o.File = f.path
	if o.Line < 0 || o.Line > len(f.lines) {
		o.Span = render.Span{File: f.path}
	}
	return o, true
}

// nearest returns the file that represents a path, or else the closest directory above it that has
// such a file.
func (s *source) nearest(p string) string {
	if p == "" || path.IsAbs(p) {
		return ""
	}
	if s.tree == nil && path.Ext(p) != "" && uri(p) != "" {
		return p
	}
	for p = path.Clean(p); ; p = path.Dir(p) {
		if file := s.unitFile(p); file != "" && uri(s.file(file).path) != "" {
			return s.file(file).path
		}
		if p == "." || strings.HasPrefix(p, "..") {
			return ""
		}
	}
}

// location returns the SARIF location of a place, for a result about object.
func (s *source) location(o render.Origin, object render.Key) sarif.Location {
	return sarif.Location{Physical: sarif.PhysicalLocation{
		Artifact: sarif.ArtifactLocation{URI: uri(o.File), URIBaseID: srcRoot},
		Region:   s.region(o.Span, object),
	}}
}

// region returns the first line of a span, or the span's part of it, with the text unless it may be
// a secret. For a whole file it is the file's first line.
func (s *source) region(sp render.Span, object render.Key) sarif.Region {
	r := sarif.Region{StartLine: max(sp.Line, 1), EndLine: max(sp.Line, 1)}
	oneLine := sp.EndLine == 0 || sp.EndLine == sp.Line
	f := s.file(sp.File)
	if f == nil {
		if sp.Line > 0 && sp.Column > 0 {
			r.StartColumn = sp.Column
			if oneLine && sp.EndColumn > sp.Column {
				r.EndColumn = sp.EndColumn
			}
		}
		return r
	}
	text := f.lines[r.StartLine-1]
	n := utf8.RuneCountInString(text)
	if sp.Line > 0 && sp.Column > 0 && sp.Column <= n {
		r.StartColumn, r.EndColumn = sp.Column, n+1
		if oneLine && sp.EndColumn > sp.Column {
			r.EndColumn = min(sp.EndColumn, n+1)
		}
		text = columns(text, r.StartColumn, r.EndColumn)
	}
	at := render.Span{File: sp.File, Line: r.StartLine}
	if text != "" && len(text) <= maxSnippet && utf8.ValidString(text) && !s.hidden(at, object) {
		r.Snippet = &sarif.Text{Text: text}
	}
	return r
}

// columns returns the part of a line from column from up to but not including to. Columns count
// code points from 1.
func columns(text string, from, to int) string {
	start, end, i := len(text), len(text), 1
	for at := range text {
		if i == from {
			start = at
		}
		if i == to {
			end = at
			break
		}
		i++
	}
	return text[min(start, end):end]
}
