package kustomize

import (
	"encoding/base64"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render"
)

// origins knows the places where a unit's fields are written, from the lines of the
// nodes that the build made (see tag.go and record.go).
type origins struct {
	w    *walk
	root *node

	byFile   map[string][]*source
	inline   map[*patch][]*source
	inlineAt map[string][]*source // the same by patch.virtual
	hides    bool                 // schemas, see build.go
	charts   map[string][]byte    // the files of charts without schemas
	tags     []tag                // of the build; none when places are unknown
	objects  []*provenance

	mu sync.Mutex // guards the sources
}

// A source is a document from which objects are built.
type source struct {
	doc     render.Document
	line    int // of its text, within the file or the embedded text
	owner   *node
	patch   *patch         // nil for a resource
	chart   *render.Object // when the document is an object of a chart
	places  map[[2]int][]string
	shifted bool // doc's lines are relative to patch.text
	hidden  []hidden
}

// A provenance is the Provenance of one object.
type provenance struct {
	o     *origins
	value map[string]any
	marks []mark // where its nodes were written
}

func newOrigins(w *walk, root *node) *origins {
	o := &origins{w: w, root: root}
	o.collectAll()
	return o
}

// object returns the provenance of an object that the build made as a node, and
// completes the object.
func (o *origins) object(value map[string]any, node *yaml.Node) (*provenance, error) {
	if err := o.reveal(value, node); err != nil {
		return nil, err
	}
	p := &provenance{o: o, value: value}
	if len(o.tags) > 0 {
		p.marks = marksOf(value, node)
	}
	o.objects = append(o.objects, p)
	return p, nil
}

// At implements [render.Provenance].
func (p *provenance) At(pointer string) []render.Origin {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	if _, key := render.FieldOfKey(pointer); key {
		if s, at := p.written(pointer); s != nil {
			return s.origins(render.KeyOf(at))
		}
	}
	for path := render.Path(pointer); len(path) > 0; path = path[:len(path)-1] {
		if found := p.field(path); len(found) > 0 {
			return found
		}
	}
	if s, at := p.base(); s != nil && s.chart != nil {
		return s.chart.At("")
	} else if s != nil {
		return s.whole(at)
	}
	if found := p.field([]string{"kind"}); len(found) > 0 {
		return found
	}
	return []render.Origin{{Span: render.Span{File: p.o.root.name}, Role: render.Reference}}
}

// field returns the origins of a field, none if it does not exist or they are unknown.
func (p *provenance) field(path []string) []render.Origin {
	at, depth, ok := p.spot(path)
	if !ok {
		return nil
	}
	return p.o.resolve(at, path, depth, nil)
}

// spot returns the spot of the field at a path, and how many elements of the path lead
// there: fewer than all for a field inside a hidden schema.
func (p *provenance) spot(path []string) (at spot, depth int, ok bool) {
	if _, ok := render.Lookup(p.value, render.PathPointer(path)); !ok {
		return spot{}, 0, false
	}
	return markAt(p.marks, p.value, path)
}

// maxOrigins is the most places that are named for a field.
const maxOrigins = 8

// resolve adds the origins of a spot to found.
func (o *origins) resolve(at spot, path []string, depth int, found []render.Origin) []render.Origin {
	t, ok := find(o.tags, int(at.line))
	if !ok || len(found) >= maxOrigins {
		return found
	}
	if t.step == nil {
		if s, pointer, ok := t.document(at, path, depth); ok {
			for _, origin := range s.origins(pointer) {
				if !slices.Contains(found, origin) {
					found = append(found, origin)
				}
			}
		}
		return found
	}
	w := t.step.wrote[at.column-1]
	if w.wasFirst {
		found = o.resolve(w.was, path, depth, found)
	}
	if w.origin < 0 { // a reference, whose place is its own; what renamed the object is added
		for _, origin := range o.resolve(w.from, path, depth, nil) {
			if origin.Role == render.Patch && !slices.Contains(found, origin) {
				found = append(found, origin)
			}
		}
		return found
	}
	found = o.resolve(w.from, path, depth, found)
	for _, origin := range t.step.origins[w.origin] {
		if !slices.Contains(found, origin) {
			found = append(found, origin)
		}
	}
	if !w.wasFirst {
		found = o.resolve(w.was, path, depth, found)
	}
	return found
}

// document returns the document of a tag, and the pointer of the field that a spot in it
// belongs to.
func (t tag) document(at spot, path []string, depth int) (*source, string, bool) {
	pointer, ok := t.source.pointer(int(at.line)+t.shift, int(at.column), path[:depth])
	return t.source, pointer + render.PathPointer(path[depth:]), ok
}

// resource returns the resource that a field comes from, if it is known, and its pointer
// there.
func (p *provenance) resource(path []string) (*source, string) {
	at, depth, ok := p.spot(path)
	for ok {
		t, known := find(p.o.tags, int(at.line))
		switch {
		case !known:
			return nil, ""
		case t.step != nil:
			at = t.step.wrote[at.column-1].was
			continue
		case t.source.patch != nil:
			return nil, ""
		}
		if s, pointer, ok := t.document(at, path, depth); ok {
			return s, pointer
		}
		return nil, ""
	}
	return nil, ""
}

// base returns the resource that the object began as and its pointer there, if it is
// known.
func (p *provenance) base() (*source, string) {
	for _, field := range []string{"kind", "apiVersion", "metadata"} {
		if s, at := p.resource([]string{field}); s != nil {
			return s, strings.TrimSuffix(at, "/"+field)
		}
	}
	return nil, ""
}

// Line returns the place of line n of a text: in a literal block scalar of a
// document, or in a file that a generator reads.
func (p *provenance) Line(pointer string, n int) []render.Origin {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	s, at := p.written(pointer)
	switch {
	case s == nil:
		return p.fileLine(render.Path(pointer), n)
	case s.chart != nil:
		return s.chart.Line(at, n)
	}
	return s.placed(s.doc.Positions.Line(at, n))
}

// Part returns the origins of a part of a chart's text, unless a kustomization
// changed the text.
func (p *provenance) Part(pointer, part string) []render.Origin {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	if s, at := p.written(pointer); s != nil && s.chart != nil {
		return s.chart.Part(at, part)
	}
	return nil
}

// written returns the document in which a field is written, unless a transformer wrote it,
// and its pointer there.
func (p *provenance) written(pointer string) (*source, string) {
	path := render.Path(pointer)
	at, depth, ok := p.spot(path)
	if t, known := find(p.o.tags, int(at.line)); ok && known && t.step == nil {
		if s, pointer, ok := t.document(at, path, depth); ok {
			return s, pointer
		}
	}
	return nil, ""
}

// fileLine returns the place of a line in the file that a generator read for a field.
func (p *provenance) fileLine(path []string, n int) []render.Origin {
	found := p.field(path)
	if len(found) == 0 || found[0].Role != render.Generated {
		return nil
	}
	v, _ := render.Lookup(p.value, render.PathPointer(path))
	value, _ := v.(string)
	content := string(p.o.w.snap.files[found[0].File])
	if data, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(value, "\n", "")); err == nil && (text(p.value, "kind") == "Secret" || path[0] == "binaryData") {
		value = string(data)
	}
	if content != value || n > strings.Count(content, "\n") {
		return nil
	}
	found[0].Span = firstLine(found[0].File, lineOf(content, n+1))
	found[0].Line, found[0].EndLine = n+1, n+1
	return found
}
