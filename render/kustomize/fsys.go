package kustomize

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// maxLinks is the most symbolic links that one path may pass through.
const maxLinks = 8

var (
	errEscapes  = errors.New("leads out of the tree")
	errLinks    = errors.New("leads through too many symbolic links")
	errReadOnly = errors.New("the tree is read-only")
)

// A tree resolves paths of the source's FS, with symbolic links followed as
// kustomize follows them on disk, and never out of the tree. Every path that
// was resolved is remembered. It is used by one goroutine.
type tree struct {
	fsys  fs.FS
	known map[string]place
}

// A place is the file or directory that a path leads to.
type place struct {
	real string // without symbolic links, from the root of the tree
	dir  bool
	err  error
}

func newTree(fsys fs.FS) *tree {
	return &tree{fsys: fsys, known: map[string]place{".": {real: ".", dir: true}}}
}

// resolve returns the file or directory at a clean path from the root of the
// tree.
func (t *tree) resolve(name string) place {
	return t.follow(name, maxLinks)
}

func (t *tree) follow(name string, links int) place {
	if p, ok := t.known[name]; ok {
		return p
	}
	p := t.look(name, links)
	t.known[name] = p
	return p
}

func (t *tree) look(name string, links int) place {
	if !fs.ValidPath(name) {
		return place{err: errEscapes}
	}
	parent := t.follow(path.Dir(name), links)
	if parent.err != nil {
		return place{err: parent.err}
	}
	if !parent.dir {
		return place{err: fs.ErrNotExist}
	}
	real := path.Join(parent.real, path.Base(name))
	info, err := fs.Lstat(t.fsys, real)
	switch {
	case err != nil:
		return place{err: err}
	case info.Mode()&fs.ModeSymlink == 0:
		return place{real: real, dir: info.IsDir()}
	case links == 0:
		return place{err: errLinks}
	}
	target, err := fs.ReadLink(t.fsys, real)
	if err != nil {
		return place{err: err}
	}
	if path.IsAbs(target) || filepath.IsAbs(target) {
		return place{err: errEscapes}
	}
	return t.follow(path.Join(path.Dir(real), filepath.ToSlash(target)), links-1)
}

// A snapshot holds the files that a build may read: those that the walk
// accepted, each read once. It is the [filesys.FileSystem] for kustomize,
// rooted at the tree's root, read-only, and safe for concurrent use once it is
// filled.
type snapshot struct {
	places map[string]place  // by clean path from the root of the tree
	files  map[string][]byte // by real path
}

var _ filesys.FileSystem = (*snapshot)(nil)

func newSnapshot() *snapshot {
	return &snapshot{places: map[string]place{".": {real: ".", dir: true}}, files: map[string][]byte{}}
}

// addDir makes a directory and its parents visible.
func (s *snapshot) addDir(name, real string) {
	s.places[name] = place{real: real, dir: true}
	s.places[real] = place{real: real, dir: true}
}

// addFile makes a file visible at name, which leads to real.
func (s *snapshot) addFile(name, real string, data []byte) {
	s.places[name] = place{real: real}
	s.places[real] = place{real: real}
	s.addDir(path.Dir(real), path.Dir(real))
	s.files[real] = data
}

func (s *snapshot) find(name string) (place, error) {
	clean := cmp.Or(strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/"), ".")
	p, ok := s.places[clean]
	if !ok {
		return place{}, &fs.PathError{Op: "open", Path: clean, Err: fs.ErrNotExist}
	}
	return p, nil
}

// CleanedAbs implements [filesys.FileSystem].
func (s *snapshot) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	p, err := s.find(name)
	if err != nil {
		return "", "", err
	}
	if p.dir {
		return confirmed(p.real), "", nil
	}
	return confirmed(path.Dir(p.real)), path.Base(p.real), nil
}

// confirmed returns dir, a path from the root of the tree, with the separators
// of the operating system, because kustomize joins and compares directories
// with path/filepath.
func confirmed(dir string) filesys.ConfirmedDir {
	return filesys.ConfirmedDir(filepath.FromSlash(path.Join("/", dir)))
}

// ReadFile implements [filesys.FileSystem].
func (s *snapshot) ReadFile(name string) ([]byte, error) {
	p, err := s.find(name)
	if err != nil {
		return nil, err
	}
	data, ok := s.files[p.real]
	if !ok {
		return nil, &fs.PathError{Op: "read", Path: p.real, Err: fs.ErrNotExist}
	}
	return data, nil
}

// Exists implements [filesys.FileSystem].
func (s *snapshot) Exists(name string) bool {
	_, err := s.find(name)
	return err == nil
}

// IsDir implements [filesys.FileSystem].
func (s *snapshot) IsDir(name string) bool {
	p, err := s.find(name)
	return err == nil && p.dir
}

// What kustomize does not need of a file system is refused.

// Create implements [filesys.FileSystem] by refusing.
func (s *snapshot) Create(string) (filesys.File, error) { return nil, errReadOnly }

// Mkdir implements [filesys.FileSystem] by refusing.
func (s *snapshot) Mkdir(string) error { return errReadOnly }

// MkdirAll implements [filesys.FileSystem] by refusing.
func (s *snapshot) MkdirAll(string) error { return errReadOnly }

// RemoveAll implements [filesys.FileSystem] by refusing.
func (s *snapshot) RemoveAll(string) error { return errReadOnly }

// WriteFile implements [filesys.FileSystem] by refusing.
func (s *snapshot) WriteFile(string, []byte) error { return errReadOnly }

// Open implements [filesys.FileSystem]. It always fails; builds use ReadFile.
func (s *snapshot) Open(string) (filesys.File, error) { return nil, errReadOnly }

// ReadDir implements [filesys.FileSystem] by refusing.
func (s *snapshot) ReadDir(string) ([]string, error) { return nil, errReadOnly }

// Glob implements [filesys.FileSystem] by refusing.
func (s *snapshot) Glob(string) ([]string, error) { return nil, errReadOnly }

// Walk implements [filesys.FileSystem] by refusing.
func (s *snapshot) Walk(string, filepath.WalkFunc) error { return errReadOnly }
