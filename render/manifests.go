package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxLists is how many levels of Lists within Lists are read.
const maxLists = 10

// Parse returns the objects of a file of plain YAML or JSON as kubectl would
// apply them. Items of Lists become objects, and pointers count from the
// object.
//
// For a file in which nothing looks like an object Parse returns no objects and
// no error. Otherwise each document that is no object is an *[Error] with the
// rule "not-an-object". A document that can't be decoded is an *[Error] too,
// see [Documents]. On error Parse also returns the objects that it could read.
func Parse(file string, data []byte) ([]*Object, error) {
	f := parseFile(file, data)
	if f.foreign.why != "" {
		return nil, nil
	}
	return f.objects, f.err
}

// Manifests renders files of plain YAML and JSON.
type Manifests struct{}

// Kind is "manifest".
func (Manifests) Kind() string { return "manifest" }

// Detect returns false: a manifest is a file, not a directory.
func (Manifests) Detect(fs.FS, string) (Claim, bool) { return Claim{}, false }

// Render returns the objects of the file src.Path. A file that holds something else is an
// error; one that holds nothing, or comments alone, is not.
func (Manifests) Render(_ context.Context, src Source) ([]*Object, error) {
	data, err := ReadFile(src.FS, src.Path)
	if err != nil {
		return nil, err
	}
	f := parseFile(src.Path, data)
	share(f.objects)
	for _, i := range f.indices {
		src.Inputs.Note(src.Path, i, DocRendered)
	}
	if f.foreign.why != "" && f.err == nil && !isEmpty(data) {
		f.err = fileError(src.Path, "no-objects", errors.New(f.foreign.why))
	}
	return f.objects, f.err
}

// isEmpty reports whether a file holds no value: such a file is written when there is nothing to
// deploy.
func isEmpty(data []byte) bool {
	for line := range bytes.Lines(data) {
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' && !bytes.Equal(text, []byte("---")) {
			return false
		}
	}
	return true
}

// A parsedFile holds the objects and documents of a file.
type parsedFile struct {
	objects []*Object
	indices []int // indices of the documents that are objects
	err     error
	foreign foreignFile
}

func parseFile(file string, data []byte) parsedFile {
	docs, err := Documents(file, data, YAML11)
	shapes := make([]shape, len(docs))
	seen := make(map[shape]bool)
	for i, doc := range docs {
		shapes[i] = shapeOf(doc.Value)
		seen[shapes[i]] = true
	}
	failed := len(Failures(err)) > 0
	switch broken := failed && looksLikeManifest(data); {
	case (broken || seen[template]) && !seen[object] && !seen[half] && (!failed || isTemplate(data, err)):
		return parsedFile{foreign: foreignFile{"is a template: something has to fill in its placeholders first", DocTemplate}}
	case seen[object] || seen[half] || broken:
	case failed:
		return parsedFile{err: err, foreign: foreignFile{why: "cannot be read, and does not look like a manifest"}}
	case seen[config]:
		return parsedFile{foreign: foreignFile{why: "holds the configuration of a tool, no Kubernetes object"}}
	default:
		return parsedFile{foreign: foreignFile{why: "contains no Kubernetes object"}}
	}
	f := parsedFile{}
	errs := []error{err}
	for i, doc := range docs {
		if shapes[i] == nothing || shapes[i] == config || shapes[i] == template {
			continue
		}
		objects, err := flatten(doc.Value, doc.Positions, 0)
		f.objects = append(f.objects, objects...)
		f.indices = append(f.indices, doc.Index)
		errs = append(errs, err)
	}
	f.err = errors.Join(errs...)
	return f
}

// looksLikeManifest reports whether a text that can't be decoded may hold an
// object. It searches for the keys' words in whatever form they are written,
// since other tools may read such a file.
func looksLikeManifest(data []byte) bool {
	if encoding(data) != nil {
		data = bytes.ReplaceAll(data, []byte{0}, nil)
	}
	return bytes.Contains(data, []byte("apiVersion")) && bytes.Contains(data, []byte("kind")) ||
		bytes.Contains(data, []byte(`\u`)) || bytes.Contains(data, []byte(`\U`)) || bytes.Contains(data, []byte(`\x`))
}

// flatten returns the object v, or the objects of the List v.
func flatten(v any, p *Positions, depth int) ([]*Object, error) {
	if shapeOf(v) != object {
		return nil, notAnObject(v, p)
	}
	m := v.(map[string]any)
	items, ok := listItems(m)
	if !ok {
		o := &Object{Unstructured: &unstructured.Unstructured{Object: m}, Provenance: p}
		return []*Object{o}, o.HeldObjects()
	}
	if _, has := m["items"]; !has {
		return nil, errorAt(p, "/kind", "not-an-object", "a List without items: nothing of it would be applied")
	}
	if depth == maxLists {
		return nil, errorAt(p, "/kind", "too-deep", "more than %d Lists in each other", maxLists)
	}
	var objects []*Object
	var errs []error
	for i, item := range items {
		inferKind(item, m)
		os, err := flatten(item, p.Sub(Pointer("items", i)), depth+1)
		objects = append(objects, os...)
		errs = append(errs, err)
	}
	return objects, errors.Join(errs...)
}

// HeldObjects returns an *[Error] if the object, though no List, has items that
// are objects: deployers disagree about what they apply then.
func (o *Object) HeldObjects() error {
	items, _ := o.Object["items"].([]any)
	if !slices.ContainsFunc(items, func(v any) bool { return shapeOf(v) == object }) {
		return nil
	}
	e := &Error{Rule: "ambiguous-list", Err: fmt.Errorf("kubectl, Helm and Argo CD apply these items, Flux applies the %s that holds them", o.GetKind())}
	if at := o.At("/items"); len(at) > 0 {
		e.Span = at[0].Span
	}
	return e
}

func errorAt(p *Positions, pointer, rule, format string, args ...any) *Error {
	return &Error{Span: p.At(pointer)[0].Span, Rule: rule, Err: fmt.Errorf(format, args...)}
}

func notAnObject(v any, p *Positions) *Error {
	pointer, what := missingPart(v)
	e := errorAt(p, pointer, "not-an-object", "not a Kubernetes object: %s", what)
	if pointer == "" && p.entry.keyAt == (place{}) {
		e.Span = p.src.text(int(p.tree.nodes[p.entry.node].at.line))
	}
	return e
}
