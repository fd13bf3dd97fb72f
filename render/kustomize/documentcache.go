package kustomize

import (
	"bytes"
	"sync"
	"weak"

	"github.com/preadmit/preadmit/render"
)

// documents caches the parsed documents of files and kustomizations as long as
// a unit that reads them is in use. It is safe for concurrent use.
type documents struct {
	mu             sync.Mutex
	files          map[fileKey]weak.Pointer[parsed]
	kustomizations map[string]weak.Pointer[file]
}

type fileKey struct {
	name    string
	dialect render.Dialect
}

// A parsed is a file with its documents. It is shared and must not be changed.
type parsed struct {
	data []byte
	docs []render.Document
}

// read returns the documents of a file. Files with errors are not cached.
func (d *documents) read(name string, data []byte, dialect render.Dialect) (*parsed, error) {
	key := fileKey{name, dialect}
	d.mu.Lock()
	p := d.files[key].Value()
	d.mu.Unlock()
	if p != nil && bytes.Equal(p.data, data) {
		return p, nil
	}
	docs, err := render.Documents(name, data, dialect)
	p = &parsed{data, docs}
	if err == nil {
		d.mu.Lock()
		d.files[key] = weak.Make(p)
		d.mu.Unlock()
	}
	return p, err
}
