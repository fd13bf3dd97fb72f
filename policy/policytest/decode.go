package policytest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

// A node is a value in a suite's file, with its place. Its methods add errors
// to the suite and continue.
type node struct {
	s       *suite
	doc     *render.Document
	pointer string
	value   any // nil if absent
}

// span returns the node's place, or that of its nearest ancestor.
func (n node) span() render.Span {
	if n.doc == nil || n.doc.Positions == nil {
		return render.Span{File: n.s.name}
	}
	if key, _, ok := n.doc.Positions.Field(n.pointer); ok && key.Line > 0 {
		return key
	}
	if at := n.doc.Positions.At(n.pointer); len(at) > 0 {
		return at[0].Span
	}
	return render.Span{File: n.s.name}
}

func (n node) errorf(format string, args ...any) *render.Error {
	return &render.Error{Span: n.span(), Rule: "suite", Err: fmt.Errorf(format, args...)}
}

func (n node) fail(format string, args ...any) { n.s.fail(n.errorf(format, args...)) }

// name returns the node's key, or list and index, for messages.
func (n node) name() string {
	path := render.Path(n.pointer)
	if len(path) == 0 {
		return "the suite"
	}
	name := path[len(path)-1]
	if _, err := strconv.Atoi(name); err == nil && len(path) > 1 {
		return path[len(path)-2] + "[" + name + "]"
	}
	return name
}

// fields returns the fields of a mapping and reports unknown ones.
func (n node) fields(known ...string) map[string]node {
	return n.read(func(key string) string { return key }, known)
}

// folded returns the fields of a mapping by their known names, ignoring the case.
func (n node) folded(known ...string) map[string]node {
	return n.read(func(key string) string {
		if i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, key) }); i >= 0 {
			return known[i]
		}
		return key
	}, known)
}

func (n node) read(name func(string) string, known []string) map[string]node {
	fields := make(map[string]node, len(known))
	for _, k := range known {
		fields[k] = node{s: n.s, doc: n.doc, pointer: n.pointer + render.Pointer(k)}
	}
	m, ok := n.value.(map[string]any)
	if n.value != nil && !ok {
		n.fail("%s must be a mapping", n.name())
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		child := node{s: n.s, doc: n.doc, pointer: n.pointer + render.Pointer(k), value: m[k]}
		switch is := name(k); {
		case !slices.Contains(known, is):
			child.fail("unknown key %q in %s; %s", k, n.name(), render.Instead(k, known))
		case fields[is].value != nil:
			child.fail("%s is given twice in %s", is, n.name())
		default:
			fields[is] = child
		}
	}
	return fields
}

// items returns the elements of a list.
func (n node) items() []node {
	list, ok := n.value.([]any)
	if n.value != nil && !ok {
		n.fail("%s must be a list", n.name())
	}
	items := make([]node, len(list))
	for i, v := range list {
		items[i] = node{s: n.s, doc: n.doc, pointer: n.pointer + render.Pointer(i), value: v}
	}
	return items
}

// text returns a string, "" if there is none. A name may be a number.
func (n node) text() string {
	s, ok := n.value.(string)
	if i, number := n.value.(int64); number {
		s, ok = strconv.FormatInt(i, 10), true
	}
	if n.value != nil && !ok {
		n.fail("%s must be a string", n.name())
	}
	return s
}

// flag returns a boolean, false if there is none.
func (n node) flag() bool {
	b, ok := n.value.(bool)
	if n.value != nil && !ok {
		n.fail("%s must be true or false", n.name())
	}
	return b
}

// texts returns a list of strings.
func (n node) texts() []string {
	var all []string
	for _, item := range n.items() {
		all = append(all, item.text())
	}
	return all
}

// readFiles holds the documents of files that suites read, so that each is parsed
// once for all mutants. A file with other content is parsed again. nil holds nothing.
// It is safe for concurrent use.
type readFiles struct {
	mu  sync.Mutex
	all map[string]readFile // by name and dialect
}

type readFile struct {
	data    []byte
	objects []*render.Object  // of render.Parse
	docs    []render.Document // of render.Documents
	err     error
}

// get parses a file, or returns the earlier result for the same content.
func (r *readFiles) get(key string, data []byte, parse func() readFile) readFile {
	r.mu.Lock()
	f, ok := r.all[key]
	r.mu.Unlock()
	if ok && bytes.Equal(f.data, data) {
		return f
	}
	f = parse()
	if !ok {
		f.data = data
		r.mu.Lock()
		r.all[key] = f
		r.mu.Unlock()
	}
	return f
}

// parse is render.Parse with a cache. The caller may change the result.
func (r *readFiles) parse(name string, data []byte) ([]*render.Object, error) {
	if r == nil {
		return render.Parse(name, data)
	}
	f := r.get("objects "+name, data, func() readFile {
		objects, err := render.Parse(name, data)
		return readFile{objects: objects, err: err}
	})
	objects := make([]*render.Object, len(f.objects))
	for i, o := range f.objects {
		c := *o
		c.Unstructured = &unstructured.Unstructured{Object: render.Copy(o.Object).(map[string]any)}
		objects[i] = &c
	}
	return objects, f.err
}

// documents is render.Documents with a cache. The caller may change the result.
func (r *readFiles) documents(name string, data []byte, dialect render.Dialect) ([]render.Document, error) {
	if r == nil {
		return render.Documents(name, data, dialect)
	}
	key := "documents "
	if dialect == render.YAML12 {
		key = "1.2 "
	}
	f := r.get(key+name, data, func() readFile {
		docs, err := render.Documents(name, data, dialect)
		return readFile{docs: docs, err: err}
	})
	docs := make([]render.Document, len(f.docs))
	for i, d := range f.docs {
		d.Value = render.Copy(d.Value)
		docs[i] = d
	}
	return docs, f.err
}
