package rego

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	opa "github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// A Document is a file of data, in YAML or JSON, that rules read below data.
type Document struct {
	File  string   // its path in the tree, which errors name
	Under []string // keys below data that contain its content
	Text  string
}

// LoadData reads data files as conftest's --data and OPA do: a file's content
// is merged into data. For a directory, the names of the directories between it
// and the file become keys, but not the file's own name. "a.b:path" adds the
// content below data.a.b, and ":path" is a path that contains a colon. The
// error joins a *[render.Error] for each path that can't be read.
func LoadData(fsys fs.FS, paths ...string) ([]Document, error) {
	var docs []Document
	var errs []error
	for _, p := range paths {
		found, err := loadData(fsys, p)
		docs = append(docs, found...)
		errs = append(errs, err)
	}
	return docs, errors.Join(errs...)
}

func loadData(fsys fs.FS, root string) ([]Document, error) {
	var under []string
	if prefix, rest, ok := strings.Cut(root, ":"); ok {
		if root = rest; prefix != "" {
			under = strings.Split(prefix, ".")
		}
	}
	root = path.Clean(root)
	var docs []Document
	var errs []error
	err := fs.WalkDir(fsys, root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			errs = append(errs, dataError(file, err))
			return nil
		}
		if d.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(file)) {
			return nil
		}
		text, err := render.ReadFile(fsys, file)
		if err != nil {
			errs = append(errs, err)
			return nil
		}
		docs = append(docs, Document{file, append(slices.Clone(under), between(root, file)...), string(text)})
		return nil
	})
	return docs, errors.Join(append(errs, err)...)
}

// between returns the directories below root that contain a file.
func between(root, file string) []string {
	dir := path.Dir(file)
	if root == file || dir == root {
		return nil
	}
	if root != "." {
		dir = strings.TrimPrefix(dir, root+"/")
	}
	return strings.Split(dir, "/")
}

func dataError(file string, err error) *render.Error {
	return &render.Error{Span: render.Span{File: file}, Rule: "data", Err: err}
}

// data is the document data, without the rules.
type data struct {
	documents ast.Object
	all       *opa.Data
	names     bool // a module may ask for data.conftest.file
}

// newData merges documents. If two have the same key, the first counts.
func newData(documents []Document) (*data, []error) {
	merged := map[string]any{}
	var errs []error
	for _, d := range documents {
		value, err := d.decode()
		errs = append(errs, err...)
		if value == nil {
			continue
		}
		for _, key := range slices.Backward(d.Under) {
			value = map[string]any{key: value}
		}
		tree, ok := value.(map[string]any)
		if !ok {
			errs = append(errs, dataError(d.File, errors.New("data is not a mapping")))
			continue
		}
		if at := merge(merged, tree); at != nil {
			errs = append(errs, d.conflict(at))
		}
	}
	object, _ := opa.Value(merged).Value.(ast.Object)
	return &data{documents: object, all: opa.NewData(object)}, errs
}

// decode reads the first document of a file, as OPA does.
func (d Document) decode() (any, []error) {
	docs, err := render.Documents(d.File, []byte(d.Text), render.YAML11)
	var errs []error
	if err != nil {
		errs = append(errs, err)
	}
	if len(docs) == 0 {
		return nil, errs
	}
	if len(docs) > 1 {
		e := dataError(d.File, fmt.Errorf("only the first of %d documents is data", len(docs)))
		e.Warning, e.Span = true, docs[1].Span
		errs = append(errs, e)
	}
	return docs[0].Value, errs
}

// conflict returns the error about a key that another file sets to another
// value.
func (d Document) conflict(at []string) error {
	e := dataError(d.File, fmt.Errorf("data.%s is also set in another file", strings.Join(at, ".")))
	if docs, _ := render.Documents(d.File, []byte(d.Text), render.YAML11); len(docs) > 0 && len(at) > len(d.Under) {
		if key, _, ok := docs[0].Positions.Field(render.PathPointer(at[len(d.Under):])); ok {
			e.Span = key
		}
	}
	return e
}

// merge merges a tree into another, and returns the path of the first key that
// both have.
func merge(into, from map[string]any) []string {
	for _, key := range slices.Sorted(maps.Keys(from)) {
		old, there := into[key]
		if !there {
			into[key] = from[key]
			continue
		}
		a, ok := old.(map[string]any)
		b, ok2 := from[key].(map[string]any)
		if !ok || !ok2 {
			return []string{key}
		}
		a = maps.Clone(a)
		into[key] = a
		if at := merge(a, b); at != nil {
			return append([]string{key}, at...)
		}
	}
	return nil
}

// forObject returns the data for an object. Like conftest it adds the object's
// file, with its directory in the tree instead of the one on disk.
func (d *data) forObject(o *render.Object) *opa.Data {
	if !d.names {
		return d.all
	}
	file := ""
	if at := o.At(""); len(at) > 0 {
		file = at[0].File
	}
	return d.with(path.Base(file), path.Dir(file))
}

func (d *data) with(name, dir string) *opa.Data {
	file := opa.Value(map[string]any{"file": map[string]any{"name": name, "dir": dir}})
	documents, ok := d.documents.Merge(ast.NewObject(ast.Item(ast.StringTerm("conftest"), file)))
	if !ok {
		return d.all
	}
	return opa.NewData(documents)
}
