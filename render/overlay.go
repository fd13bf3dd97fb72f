package render

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/internal/memfile"
)

// An Overlay adds files to a tree: those that a GitOps controller writes before
// it renders, such as a kustomization.yaml with the patches of a Flux
// Kustomization, and values that are written in an object. Each place in such a
// file is mapped to the place where its content is written.
//
// All files must be added before it is used; from then on it is read-only and
// safe for concurrent use.
type Overlay struct {
	base  fs.FS
	files map[string]*layered // by name, from the root of base
	dirs  map[string]bool     // directories above files
	hide  func(name string) bool
}

// A layered is a file of an Overlay: written by the Overlay, or a link to a
// file of the tree.
type layered struct {
	data   []byte
	starts []start    // of the fields of data, in order
	at     Provenance // where the fields of data were written originally
	fsys   fs.FS      // the file system of the target; nil for a written file
	target string
}

// placesOf is the Provenance of a file whose texts are not known line by line.
type placesOf func(pointer string) []Origin

// At implements Provenance.
func (p placesOf) At(pointer string) []Origin { return p(pointer) }

// A start is where a field begins in a written file: at its key if it has one,
// else at its value.
type start struct {
	line, column int
	pointer      string
}

// NewOverlay returns an Overlay without files over base. hide may be nil; it
// reports the names in base that the Overlay does not show.
func NewOverlay(base fs.FS, hide func(name string) bool) *Overlay {
	return &Overlay{base: base, files: make(map[string]*layered), dirs: make(map[string]bool), hide: hide}
}

// Write adds a YAML file with a value. at must return the places where the
// field at a JSON pointer of value is written.
func (o *Overlay) Write(name string, value any, at func(pointer string) []Origin) error {
	return o.WriteFrom(name, value, placesOf(at))
}

// WriteFrom is Write with a Provenance. If that also has a method Line like
// Object's, each line of a text gets its own place.
func (o *Overlay) WriteFrom(name string, value any, at Provenance) error {
	data, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	f := &layered{data: data, at: at}
	docs, err := Documents(name, data, YAML11)
	if err != nil {
		return err
	}
	for _, d := range docs {
		f.starts = startsOf(d.Positions)
	}
	o.add(name, f)
	return nil
}

func startsOf(p *Positions) []start {
	var starts []start
	p.Each(func(pointer string, line, column int) {
		if key, _, _ := p.Field(pointer); key.Line > 0 {
			line, column = key.Line, key.Column
		}
		starts = append(starts, start{line, column, pointer})
	})
	slices.SortStableFunc(starts, func(a, b start) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	return starts
}

// origins returns where the field at a place of a written file is written. The
// file is in block style, so the field is the innermost one that begins at or
// before the place, and the lines below its first are lines of its text.
func (l *layered) origins(at Span) []Origin {
	field, ok := l.field(at)
	if !ok {
		return l.at.At("")
	}
	if lines, ok := l.at.(interface {
		Line(pointer string, n int) []Origin
	}); ok && at.Line > field.line {
		if found := lines.Line(field.pointer, at.Line-field.line-1); len(found) > 0 {
			return found
		}
	}
	return l.at.At(field.pointer)
}

// field returns the innermost field that begins at or before a place. At the
// first key of a list item it returns the item, such as a whole generator.
func (l *layered) field(at Span) (start, bool) {
	i, _ := slices.BinarySearchFunc(l.starts, at, func(s start, at Span) int {
		if s.line < at.Line || s.line == at.Line && s.column <= at.Column {
			return -1
		}
		return 1
	})
	if i == 0 {
		return start{}, false
	}
	if i > 1 && at.Line == l.starts[i-2].line && at.Column == l.starts[i-2].column && l.starts[i-2].pointer != "" {
		return l.starts[i-2], true
	}
	return l.starts[i-1], true
}

// part returns where a part of the text of the field at a place is written, if
// the file's Provenance knows it.
func (l *layered) part(at Span, part string) []Origin {
	field, ok := l.field(at)
	parts, knows := l.at.(interface {
		Part(pointer, part string) []Origin
	})
	if !ok || !knows {
		return nil
	}
	return parts.Part(field.pointer, part)
}

// WriteText adds a file with a text. Each place in it is mapped to the places
// at.
func (o *Overlay) WriteText(name string, data []byte, at []Origin) {
	o.add(name, &layered{data: data, at: placesOf(func(string) []Origin { return at })})
}

// LinkTo adds a link to a file of fsys, whose file names must be those of the
// run's tree.
func (o *Overlay) LinkTo(name string, fsys fs.FS, target string) {
	o.add(name, &layered{fsys: fsys, target: target})
}

func (o *Overlay) add(name string, f *layered) {
	o.files[name] = f
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		o.dirs[dir] = true
		if dir == "." {
			return
		}
	}
}

// Provenance returns p with each place in a file of the Overlay replaced by the
// places it is mapped to.
func (o *Overlay) Provenance(p Provenance) Provenance {
	if p == nil || len(o.files) == 0 {
		return p
	}
	return overlaid{p, o}
}

// Error returns e with its place replaced as by Provenance.
func (o *Overlay) Error(e *Error) *Error {
	moved := *e
	if at := o.origins(Origin{Span: e.Span}); len(at) > 0 {
		moved.Span = at[0].Span
	}
	return &moved
}

type overlaid struct {
	Provenance
	overlay *Overlay
}

// At implements Provenance.
func (o overlaid) At(pointer string) []Origin {
	return o.overlay.all(o.Provenance.At(pointer))
}

// Line is called by [Object.Line].
func (o overlaid) Line(pointer string, n int) []Origin {
	return o.overlay.all((&Object{Provenance: o.Provenance}).Line(pointer, n))
}

// Part is called by [Object.Part].
func (o overlaid) Part(pointer, part string) []Origin {
	return o.overlay.parts((&Object{Provenance: o.Provenance}).Part(pointer, part), part)
}

// parts maps the places of a part of a text. In a written file it looks for the
// places of that part.
func (o *Overlay) parts(origins []Origin, part string) []Origin {
	var moved []Origin
	for _, at := range origins {
		found := o.origins(at)
		if f := o.files[at.File]; f != nil && f.fsys == nil {
			if some := f.part(at.Span, part); len(some) > 0 {
				found = some
			}
		}
		for _, m := range found {
			if !slices.Contains(moved, m) {
				moved = append(moved, m)
			}
		}
	}
	return moved
}

func (o *Overlay) all(origins []Origin) []Origin {
	var moved []Origin
	for _, at := range origins {
		for _, m := range o.origins(at) {
			if !slices.Contains(moved, m) {
				moved = append(moved, m)
			}
		}
	}
	return moved
}

// origins returns the places that a place is mapped to, or the place itself if
// it is not in a file of the Overlay.
func (o *Overlay) origins(at Origin) []Origin {
	f := o.files[at.File]
	switch {
	case f == nil:
		return []Origin{at}
	case f.fsys != nil:
		at.File = f.target
		return []Origin{at}
	}
	found := slices.Clone(f.origins(at.Span))
	for i := range found {
		if at.Role != "" && at.Role != Manifest {
			found[i].Role = at.Role
		}
	}
	return found
}

// fileOf returns the file of the tree that a name of fsys leads to; ok is false
// for files that an Overlay wrote.
func fileOf(fsys fs.FS, name string) (file string, ok bool) {
	if b, ok := fsys.(beside); ok {
		fsys = b.FS
	}
	o, ok := fsys.(*Overlay)
	if !ok {
		return name, true
	}
	f := o.files[name]
	switch {
	case f == nil:
		return fileOf(o.base, name)
	case f.fsys == nil:
		return "", false
	}
	return fileOf(f.fsys, f.target)
}

// Open implements fs.FS.
func (o *Overlay) Open(name string) (fs.File, error) {
	if f := o.files[name]; f != nil {
		if f.fsys != nil {
			return f.fsys.Open(f.target)
		}
		return memfile.Open(path.Base(name), f.data), nil
	}
	if o.hidden(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f, err := o.base.Open(name)
	if o.dirs[name] {
		if err == nil {
			_ = f.Close()
		}
		entries, err := o.ReadDir(name)
		return memfile.OpenDir(memfile.OfDir(path.Base(name)), entries), err
	}
	if err != nil || o.hide == nil {
		return f, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		_ = f.Close()
		entries, err := o.ReadDir(name)
		return memfile.OpenDir(info, entries), err
	}
	return f, err
}

func (o *Overlay) hidden(name string) bool {
	return o.hide != nil && name != "." && !o.dirs[name] && o.hide(name)
}

// Stat implements fs.StatFS.
func (o *Overlay) Stat(name string) (fs.FileInfo, error) {
	return o.stat(name, "stat", fs.Stat)
}

// Lstat implements fs.ReadLinkFS.
func (o *Overlay) Lstat(name string) (fs.FileInfo, error) {
	return o.stat(name, "lstat", fs.Lstat)
}

func (o *Overlay) stat(name, op string, stat func(fs.FS, string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	if f := o.files[name]; f != nil {
		if f.fsys != nil {
			return fs.Stat(f.fsys, f.target)
		}
		return memfile.Of(path.Base(name), f.data), nil
	}
	if o.hidden(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	info, err := stat(o.base, name)
	if err != nil && o.dirs[name] {
		return memfile.OfDir(path.Base(name)), nil
	}
	return info, err
}

// ReadLink implements fs.ReadLinkFS.
func (o *Overlay) ReadLink(name string) (string, error) {
	if o.files[name] != nil || o.hidden(name) {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return fs.ReadLink(o.base, name)
}

// ReadDir implements fs.ReadDirFS.
func (o *Overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	base, err := fs.ReadDir(o.base, name)
	if err != nil && !o.dirs[name] {
		return nil, err
	}
	entries := make(map[string]fs.DirEntry)
	for _, e := range base {
		if !o.hidden(path.Join(name, e.Name())) {
			entries[e.Name()] = e
		}
	}
	for _, set := range [][]string{slices.Collect(maps.Keys(o.files)), slices.Collect(maps.Keys(o.dirs))} {
		for _, f := range set {
			if f == "." || path.Dir(f) != name {
				continue
			}
			info, err := o.Stat(f)
			if err != nil {
				return nil, err
			}
			entries[path.Base(f)] = fs.FileInfoToDirEntry(renamed{info, path.Base(f)})
		}
	}
	return slices.SortedFunc(maps.Values(entries), func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }), nil
}

type renamed struct {
	fs.FileInfo
	name string
}

func (r renamed) Name() string { return r.name }
