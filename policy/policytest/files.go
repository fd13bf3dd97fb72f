package policytest

import (
	"bytes"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

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
