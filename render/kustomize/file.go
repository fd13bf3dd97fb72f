package kustomize

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"weak"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// A file is a parsed kustomization file with the places of its fields.
type file struct {
	name string // from the root of the tree
	data []byte
	spec types.Kustomization // as written: FixKustomization not applied
	doc  render.Document
	keys map[string]string // its top-level keys as written, by their lower case
}

// names returns the kustomization files of a directory. More than one is an
// error.
func names(fsys fs.FS, dir string) []string {
	var found []string
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		name := path.Join(dir, base)
		if info, err := fs.Lstat(fsys, name); err == nil && !info.IsDir() {
			found = append(found, name)
		}
	}
	return found
}

// load reads the kustomization of a directory. The error joins *render.Error
// values; a file that is returned with an error holds the fields that could be
// read. The file is shared by all units with that kustomization: nobody may
// change it.
func (d *documents) load(fsys fs.FS, dir string) (*file, error) {
	found := names(fsys, dir)
	switch {
	case len(found) == 0:
		return nil, &render.Error{Span: render.Span{File: dir}, Rule: "missing-kustomization", Err: errors.New("directory has no kustomization.yaml")}
	case len(found) > 1:
		return nil, &render.Error{
			Span: render.Span{File: found[1]}, Rule: "two-kustomizations",
			Err: fmt.Errorf("directory has two kustomization files, the other is %s", path.Base(found[0])),
		}
	}
	data, err := render.ReadFile(fsys, found[0])
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	f := d.kustomizations[found[0]].Value()
	d.mu.Unlock()
	if f != nil && bytes.Equal(f.data, data) {
		return f, nil
	}
	if f, err = parse(found[0], data); err == nil {
		d.mu.Lock()
		d.kustomizations[found[0]] = weak.Make(f)
		d.mu.Unlock()
	}
	return f, err
}

// parse parses a kustomization as kustomize does
// (types.Kustomization.Unmarshal): the first document, with YAML 1.1 scalars
// and with keys in any case.
func parse(name string, data []byte) (*file, error) {
	f := &file{name: name, data: data}
	docs, err := render.Documents(name, data, render.YAML11)
	for _, e := range render.Errors(err) {
		if text, ok := strings.CutSuffix(e.Err.Error(), "kubectl takes the last, kustomize refuses both"); ok {
			e.Warning, e.Err = true, errors.New(text+"kustomize takes the last") // in a kustomization
		}
	}
	if len(docs) > 0 {
		f.doc = docs[0]
		f.index()
	}
	if err != nil && !warnings(err) {
		return f, err
	}
	if uerr := f.decode(); uerr != nil {
		return f, errors.Join(err, f.refused(uerr))
	}
	if len(docs) > 1 {
		err = errors.Join(err, &render.Error{
			Span: docs[1].Span, Rule: "second-document", Warning: true,
			Err: errors.New("kustomize reads the first document of a kustomization and nothing after it"),
		})
	}
	return f, err
}

// decode does what types.Kustomization.Unmarshal does, on YAML that is already
// parsed.
func (f *file) decode() error {
	if f.doc.Positions == nil { // an empty file
		return f.spec.Unmarshal(f.data)
	}
	data, err := json.Marshal(f.doc.Value)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var k types.Kustomization
	if err := d.Decode(&k); err != nil {
		return err
	}
	f.spec = k
	return nil
}

func warnings(err error) bool {
	return len(render.Failures(err)) == 0
}

func (f *file) index() {
	m, _ := f.doc.Value.(map[string]any)
	f.keys = make(map[string]string, len(m))
	for key := range m {
		f.keys[strings.ToLower(key)] = key
	}
}

// fixed returns the kustomization with deprecated fields replaced by their
// successors. It works on a copy, because FixKustomization writes into the
// generators that it is given and appends to other lists.
func (f *file) fixed() types.Kustomization {
	k := f.spec
	k.ConfigMapGenerator = slices.Clone(k.ConfigMapGenerator)
	k.SecretGenerator = slices.Clone(k.SecretGenerator)
	for i := range k.ConfigMapGenerator {
		k.ConfigMapGenerator[i].EnvSources = slices.Clip(k.ConfigMapGenerator[i].EnvSources)
	}
	for i := range k.SecretGenerator {
		k.SecretGenerator[i].EnvSources = slices.Clip(k.SecretGenerator[i].EnvSources)
	}
	k.Resources, k.Images, k.HelmCharts = slices.Clip(k.Resources), slices.Clip(k.Images), slices.Clip(k.HelmCharts)
	k.FixKustomization()
	return k
}

// check performs kustomize's checks of a kustomization before a build.
func (f *file) check() error {
	k := f.fixed()
	if err := k.CheckEmpty(); err != nil {
		return f.error("empty-kustomization", errors.New("kustomization is empty"))
	}
	if wrong := k.EnforceFields(); len(wrong) > 0 {
		field := "apiVersion"
		if strings.HasPrefix(wrong[0], "kind") {
			field = "kind"
		}
		return f.error("not-a-kustomization", errors.New(wrong[0]), field)
	}
	return nil
}

// at returns the place of the value at a path of keys and indices, or the nearest known place above
// it.
func (f *file) at(elements ...any) render.Span {
	elements = slices.Clone(elements)
	if len(elements) > 0 {
		if key, ok := f.keys[strings.ToLower(fmt.Sprint(elements[0]))]; ok {
			elements[0] = key
		}
	}
	for n := len(elements); n > 0; n-- {
		if _, value, ok := f.doc.Positions.Field(render.Pointer(elements[:n]...)); ok {
			return value
		}
	}
	return render.Span{File: f.name}
}

func (f *file) error(rule string, err error, at ...any) *render.Error {
	return &render.Error{Span: f.at(at...), Rule: rule, Err: err}
}

var (
	unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)
	wrongRoot    = regexp.MustCompile(`cannot unmarshal (\w+) into Go value of type`)
	wrongType    = regexp.MustCompile(`cannot unmarshal (\w+)(?: [^ ]+)? into Go struct field ([\w.]+) of type (\S+)`)
)

// refused converts an error of Unmarshal to an error at the field's place.
func (f *file) refused(err error) *render.Error {
	if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
		return &render.Error{
			Span: f.find(f.doc.Value, m[1]), Rule: "unknown-field", Err: fmt.Errorf("kustomization has an unknown field %q", m[1]),
			Hint: render.DidYouMean(m[1], f.fieldNames(m[1])),
		}
	}
	if m := wrongType.FindStringSubmatch(err.Error()); m != nil {
		_, field, ok := strings.Cut(m[2], ".")
		if !ok {
			field = m[2]
		}
		field = strings.TrimPrefix(field, "Kustomization.")
		return f.error("wrong-type", fmt.Errorf("%s is %s, not %s", field, article(m[1]), wanted(m[3])), typed(field)...)
	}
	if m := wrongRoot.FindStringSubmatch(err.Error()); m != nil {
		return &render.Error{Span: f.doc.Span, Rule: "wrong-type", Err: fmt.Errorf("kustomization is %s, not an object: does a key lack its colon?", article(m[1]))}
	}
	return f.error("yaml-syntax", errors.New("kustomization cannot be read"))
}

// fieldNames returns the field names to suggest for an unknown key: those of a
// kustomization at the top level, else those of all nested types.
func (f *file) fieldNames(key string) []string {
	names := make(map[string]bool)
	top, _ := f.doc.Value.(map[string]any)
	_, atTop := top[key]
	jsonNames(reflect.TypeFor[types.Kustomization](), !atTop, names)
	return slices.Collect(maps.Keys(names))
}

func jsonNames(t reflect.Type, deep bool, names map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch inline := name == "" && field.Anonymous; {
		case inline:
			jsonNames(field.Type, deep, names)
		case name != "" && name != "-" && !names[name]:
			names[name] = true
			if deep {
				jsonNames(field.Type, deep, names)
			}
		}
	}
}

// typed turns the field that encoding/json names into the elements of a path.
func typed(field string) []any {
	var at []any
	for e := range strings.SplitSeq(field, ".") {
		at = append(at, e)
	}
	return at
}

func article(kind string) string {
	if strings.ContainsRune("aeiou", rune(kind[0])) {
		return "an " + kind
	}
	return "a " + kind
}

func wanted(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "map["), strings.Contains(goType, "types."):
		return "an object"
	case strings.HasPrefix(goType, "int"):
		return "an integer"
	case goType == "bool":
		return "a boolean"
	}
	return "a string"
}

// find returns the place of the first key with a name, in the order in which
// the keys sort, top level first.
func (f *file) find(value any, key string) render.Span {
	for pointer, v := range render.Fields(value, "") {
		m, _ := v.(map[string]any)
		if _, ok := m[key]; ok {
			at, _, _ := f.doc.Positions.Field(pointer + render.Pointer(key))
			return at
		}
	}
	return render.Span{File: f.name}
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
