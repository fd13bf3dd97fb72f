package kustomize

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render"
)

// origins finds the places where a unit's fields are written. The unit is built
// from tagged files, so that nodes keep their lines (see tag.go). The rest is
// computed on first use.
type origins struct {
	w    *walk
	root *node

	byFile   map[string][]*source
	inline   map[*patch][]*source
	inlineAt map[string][]*source // the same by patch.virtual
	parents  map[*node][]*node    // by a kustomization those that use it
	simple   bool                 // nothing in the unit reads fields to write them elsewhere
	hides    bool                 // schemas, see hidden.go
	charts   map[string][]byte    // the files of charts without schemas
	json     bool                 // the unit has JSON patches
	tags     []tag                // of the build; none when it could not be tagged

	mu      sync.Mutex // guards all below
	rebuilt bool
	bare    []tag        // of the build without JSON patches
	nodes   []*yaml.Node // of that, by object; none when it failed
	order   []int        // for each object its index in the order of resources; nil if unknown
	objects []*provenance
	depth   int // of replacements that lead to replacements
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
	i     int
	value map[string]any

	marks   []mark // where its nodes were read
	ready   bool
	node    *yaml.Node // of the build without JSON patches, if these lost the lines
	base    *source    // the resource it began as, if it is known
	patches []*source  // that may have been merged into it, the first last
	chain   []*node    // kustomizations that it passed through, the outermost first

	selected map[*patch]bool // patches that may have been meant for it
}

func newOrigins(w *walk, root *node) *origins {
	o := &origins{w: w, root: root}
	o.collectAll()
	return o
}

// object returns the provenance of an object that the build made as a node, and
// completes the object.
func (o *origins) object(i int, value map[string]any, node *yaml.Node) (render.Provenance, error) {
	if err := o.reveal(value, node); err != nil {
		return nil, err
	}
	p := &provenance{o: o, i: i, value: value}
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
	return p.at(pointer)
}

func (p *provenance) at(pointer string) []render.Origin {
	p.prepare()
	for ; pointer != ""; pointer = parent(pointer) {
		if v, ok := render.Lookup(p.value, pointer); ok {
			if found := p.field(pointer, v); len(found) > 0 {
				return found
			}
		}
	}
	return p.whole()
}

// fieldAt returns the field at a pointer of the object, or nil.
func (p *provenance) fieldAt(pointer string) *field {
	p.prepare()
	v, ok := render.Lookup(p.value, pointer)
	if !ok {
		return nil
	}
	f := &field{p: p, pointer: pointer, path: render.Path(pointer), value: v}
	f.src, f.at = p.tagged(f.path)
	return f
}

// Line returns the place of line n of a text: in a literal block scalar of a
// document, or in a file that a generator reads.
func (p *provenance) Line(pointer string, n int) []render.Origin {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	f := p.fieldAt(pointer)
	if f == nil {
		return nil
	}
	if found := f.transformed(); len(found) > 0 {
		return f.fileLine(found, n)
	}
	src, at := f.original()
	switch {
	case src == nil || !f.holds(src, at):
		return nil
	case src.chart != nil:
		return src.chart.Line(at, n)
	}
	return src.placed(src.doc.Positions.Line(at, n))
}

// Part returns the origins of a part of a chart's text, unless a kustomization
// changed the text.
func (p *provenance) Part(pointer, part string) []render.Origin {
	p.o.mu.Lock()
	defer p.o.mu.Unlock()
	f := p.fieldAt(pointer)
	if f == nil {
		return nil
	}
	if len(f.transformed()) > 0 {
		return nil
	}
	if src, at := f.original(); src != nil && src.chart != nil && f.holds(src, at) {
		return src.chart.Part(at, part)
	}
	return nil
}

// fileLine returns the place of a line in the file that a generator read for
// the field.
func (f *field) fileLine(found []render.Origin, n int) []render.Origin {
	text, _ := f.value.(string)
	content := string(f.p.o.w.snap.files[found[0].File])
	if found[0].Role != render.Generated || content != decoded(f, text) || n > strings.Count(content, "\n") {
		return nil
	}
	line := lineOf(content, n+1)
	found[0].Span = firstLine(found[0].File, line)
	found[0].Line, found[0].EndLine = n+1, n+1
	return found
}

func parent(pointer string) string {
	return pointer[:max(0, strings.LastIndexByte(pointer, '/'))]
}

// field returns the origins of an existing field, or nil if they are unknown.
// Transformers are checked first, because they run last.
func (p *provenance) field(pointer string, v any) []render.Origin {
	f := &field{p: p, pointer: pointer, path: render.Path(pointer), value: v}
	f.src, f.at = p.tagged(f.path)
	for _, ask := range []func(*field) []render.Origin{
		(*field).transformed, (*field).written, (*field).rebased, (*field).patched, (*field).derived, (*field).children,
	} {
		if found := ask(f); len(found) > 0 {
			return found
		}
	}
	return nil
}

// whole returns where the object itself is written.
func (p *provenance) whole() []render.Origin {
	switch {
	case p.base != nil && p.base.chart != nil:
		return p.base.chart.At("")
	case p.base != nil:
		return p.base.whole(p.base.object(p.value))
	}
	for _, n := range p.chain {
		if g := n.generator(p.value); g != nil {
			return []render.Origin{g.origin()}
		}
	}
	return []render.Origin{{Span: render.Span{File: p.o.root.name}, Role: render.Reference}}
}

// A field is a field of an object whose origin is looked for.
type field struct {
	p       *provenance
	pointer string
	path    []string
	value   any
	src     *source // the document that it was read from
	at      string  // its pointer in that document
}

func (f *field) last() string { return f.path[len(f.path)-1] }

func (f *field) above() string {
	if len(f.path) < 2 {
		return ""
	}
	return f.path[len(f.path)-2]
}

// written returns the place that the node was read from, if the value there is still the same.
func (f *field) written() []render.Origin {
	if f.src == nil || !f.holds(f.src, f.at) {
		return nil
	}
	if b := f.p.base; f.src.patch != nil && b != nil && f.identity() {
		if at, ok := f.in(b); ok && f.holds(b, at) {
			return b.origins(at)
		}
	}
	return f.src.origins(f.at)
}

// identity reports whether the field is one by which patches name their target.
// A patch contains these fields too, but does not change them.
func (f *field) identity() bool {
	switch f.pointer {
	case "/kind", "/apiVersion", "/metadata/name", "/metadata/namespace":
		return true
	}
	return isIndex(f.above()) && slices.Contains(mergeKeys, f.last())
}

// holds reports whether a document has the field's value at a pointer. For a map or list, any map
// or list counts.
func (f *field) holds(s *source, at string) bool {
	v, ok := render.Lookup(s.doc.Value, at)
	if !ok {
		return false
	}
	if render.IsScalar(f.value) {
		return equal(v, f.value) || sameWords(v, f.value) || f.quoted(v)
	}
	return !render.IsScalar(v) && (lastOf(at) == f.last() || isIndex(f.last()))
}

// quoted reports whether the field is the text of a number or boolean.
// kustomize writes labels and annotations that lost their quotes this way.
func (f *field) quoted(v any) bool {
	if _, ok := v.(string); ok || v == nil || f.above() != "annotations" && f.above() != "labels" {
		return false
	}
	return f.value == fmt.Sprint(v)
}

// sameWords compares strings apart from line breaks, because kustomize adds
// some to folded scalars with indented lines.
func sameWords(a, b any) bool {
	s, ok := a.(string)
	t, also := b.(string)
	return ok && also && strings.Contains(t, "\n") && strings.ReplaceAll(s, "\n", "") == strings.ReplaceAll(t, "\n", "")
}

// in returns the field's pointer in one of the object's documents.
func (f *field) in(s *source) (string, bool) {
	return translate(f.path, f.p.value, s.doc.Value, s.object(f.p.value))
}

// original returns the document and pointer where the field was written before
// kustomizations changed it: in the last patch that has it, else in the
// resource.
func (f *field) original() (*source, string) {
	if f.src != nil {
		return f.src, f.at
	}
	for _, s := range f.p.sources() {
		if at, ok := f.in(s); ok {
			return s, at
		}
	}
	return nil, ""
}

// sources returns the documents that the object was built from, the last one
// first.
func (p *provenance) sources() []*source {
	all := slices.Clone(p.patches)
	if p.base != nil {
		all = append(all, p.base)
	}
	return all
}

func lastOf(pointer string) string {
	path := render.Path(pointer)
	if len(path) == 0 {
		return ""
	}
	return path[len(path)-1]
}

// rebased returns the origins of nodes without lines: the same field in a patch
// or in the resource, if its value is equal.
func (f *field) rebased() []render.Origin {
	sources := f.p.sources()
	if f.identity() {
		slices.Reverse(sources)
	}
	for _, s := range sources {
		if at, ok := f.in(s); ok && f.holds(s, at) {
			return s.origins(at)
		}
	}
	return nil
}

// derived returns the origins of values that are derived from written ones:
// names with a prefix, images with another tag, strings with a variable.
func (f *field) derived() []render.Origin {
	src, at := f.original()
	now, ok := f.value.(string)
	if src == nil || !ok {
		return nil
	}
	v, _ := render.Lookup(src.doc.Value, at)
	was, _ := v.(string)
	if was == "" || !strings.Contains(now, was) && !strings.Contains(was, "$(") {
		return nil
	}
	return append(src.origins(at), f.affixes(now, was)...)
}

// children returns the origins of a map or list that is written nowhere as a
// whole: those of its first field.
func (f *field) children() []render.Origin {
	switch v := f.value.(type) {
	case map[string]any:
		for _, key := range sorted(v) {
			if found := f.p.field(f.pointer+render.Pointer(key), v[key]); len(found) > 0 {
				return found
			}
		}
	case []any:
		if len(v) > 0 {
			return f.p.field(f.pointer+"/0", v[0])
		}
	}
	return nil
}

// equal compares scalars as JSON does: a whole float equals an integer.
func equal(a, b any) bool {
	if f, ok := a.(float64); ok {
		a, _ = number(f)
	}
	if f, ok := b.(float64); ok {
		b, _ = number(f)
	}
	return reflect.DeepEqual(a, b)
}
