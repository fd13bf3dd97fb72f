package yamledit

import (
	"slices"

	"github.com/preadmit/preadmit/render"
)

// A Place is a field of a file's documents. The pointer of a field in the YAML of a block scalar
// leads through the text, as Apply takes it.
type Place struct {
	Document int
	Pointer  string
	Value    any
	Root     any    // the value of the document, or of the text, that the field is in
	Below    string // the field's pointer there
}

// Places returns the fields of a file's documents by the places of their values, which have no file. In
// a text, the first field of a line also has the place of the line.
func Places(docs []render.Document) map[render.Span]Place {
	all := make(map[render.Span]Place)
	add := func(at render.Span, p Place) {
		known, there := all[WithoutFile(at)]
		if !there || aliased(docs, known) && !aliased(docs, p) { // the outer one of two, at the anchor
			all[WithoutFile(at)] = p
		}
	}
	for _, d := range docs {
		for p, v := range render.Fields(d.Value, "") {
			add(written(d, p), Place{d.Index, p, v, d.Value, p})
			in, ok := inside(d, p)
			if !ok {
				continue
			}
			for below, v := range render.Fields(in.doc.Value, "") {
				at, place := written(in.doc, below), Place{d.Index, p + below, v, in.doc.Value, below}
				if line := d.Positions.Line(p, at.Line-1); len(line) > 0 && below != "" {
					add(line[0].Span, place)
				}
				at.Line, at.EndLine = at.Line+in.line-1, at.EndLine+in.line-1
				at.Column, at.EndColumn = at.Column+in.indent, at.EndColumn+in.indent
				add(at, place)
			}
		}
	}
	return all
}

func aliased(docs []render.Document, p Place) bool {
	at := slices.IndexFunc(docs, func(d render.Document) bool { return d.Index == p.Document })
	return len(docs[at].Positions.At(p.Pointer)) > 1
}

func written(d render.Document, pointer string) render.Span {
	origins := d.Positions.At(pointer)
	return origins[len(origins)-1].Span
}

// WithoutFile returns a place without the name of its file.
func WithoutFile(at render.Span) render.Span {
	at.File = ""
	return at
}
