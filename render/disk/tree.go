package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// A Tree contains all that a run may read: the repository, and files outside of it that were named
// on the command line. It is an [fs.FS] in which no link and no ".." leads outside. Only regular
// files and directories can be opened, so a pipe or device can't block a run.
type Tree struct {
	Dir    string // of the repository, absolute, links resolved
	Paired bool   // one of two trees to compare: a file may exist in only one of them

	root  *os.Root
	files fs.FS // of the repository: those in root, or in a revision

	mu     sync.RWMutex
	mounts []Mount
}

// A Mount is a place outside of the repository, visible under Outside.
type Mount struct {
	Name    string // in the tree
	Display string // in reports
	Dir     string // absolute; "" if it is no directory of this machine
	FS      fs.FS
	Fetched bool // from the store
}

// Outside is the directory of a Tree that holds the mounts.
const Outside = ".outside"

// OpenTree opens the repository at dir, an absolute path without links. The caller
// must call Close.
func OpenTree(dir string) (*Tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Tree{Dir: dir, root: root, files: Open(root)}, nil
}

// Close closes the repository's directory, also for all trees returned by At.
func (t *Tree) Close() error { return t.root.Close() }

// At returns a tree with the same mounts and the files of another revision in place of the
// repository's.
func (t *Tree) At(files fs.FS) *Tree {
	return &Tree{Dir: t.Dir, Paired: true, root: t.root, files: files, mounts: t.Mounts()}
}

// WorkTree reports whether the files are those of the repository's directory
// rather than of a revision.
func (t *Tree) WorkTree() bool {
	switch t.files.(type) {
	case Dir, edited:
		return true
	}
	return false
}

// Edit replaces the texts of the repository's files with these names, for editors with unsaved
// changes. It must be called before the tree is used.
func (t *Tree) Edit(texts map[string]string) {
	if d, ok := t.files.(Dir); ok && len(texts) > 0 {
		t.files = newEdited(d, texts)
	}
}

// Repository returns the repository's files, or those of the tree's revision, without the mounts.
func (t *Tree) Repository() fs.FS { return Sub(t.files, ".") }

// Dirs returns the directory with this name in the tree's revision, if it has one, and in the work
// tree.
func (t *Tree) Dirs(name string) []fs.FS {
	dirs := []fs.FS{Sub(t.files, name)}
	if !t.WorkTree() && t.root != nil {
		dirs = append(dirs, Sub(Open(t.root), name))
	}
	return dirs
}

// realPath resolves links in a path. In one of two trees to compare, it returns a path unchanged if
// the work tree does not have it.
func (t *Tree) realPath(p string) (string, error) {
	real, err := realPath(p)
	if err == nil || !t.Paired {
		return real, err
	}
	abs, absErr := filepath.Abs(p)
	if absErr != nil {
		return "", err
	}
	if _, ok := Within(t.Dir, abs); !ok {
		return "", err
	}
	return abs, nil
}

// Name returns the name in the tree of a path, and mounts what lies outside. The
// path "-" is stdin. For a path that does not exist the error is an [fs.PathError]
// with that path.
func (t *Tree) Name(p string, stdin io.Reader) (string, error) {
	if p == "-" {
		return t.mountStdin(stdin)
	}
	real, err := t.realPath(p)
	if err != nil {
		return "", err
	}
	if rel, ok := Within(t.Dir, real); ok {
		return rel, nil
	}
	for _, m := range t.Mounts() {
		if rel, ok := Within(m.Dir, real); ok && m.Dir != "" {
			return path.Join(m.Name, rel), nil
		}
	}
	m, err := t.mount(holder(real))
	if err != nil {
		return "", err
	}
	rel, _ := Within(m.Dir, real)
	return path.Join(m.Name, rel), nil
}

func (t *Tree) mount(dir string) (Mount, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Mount{}, err
	}
	display := dir
	if rel, err := filepath.Rel(t.Dir, dir); err == nil {
		display = rel
	}
	m := Mount{Name: mountName(display), Display: filepath.ToSlash(display), Dir: dir, FS: Open(root)}
	t.Add(m)
	return m, nil
}

// Add makes a mount visible.
func (t *Tree) Add(m Mount) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mounts = append(slices.Clip(t.mounts), m)
}

// Mounts returns the mounts added so far.
func (t *Tree) Mounts() []Mount {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mounts
}

// MountRevision mounts the files of another revision of the repository and returns the mount's name
// in the tree.
func (t *Tree) MountRevision(commit string, files fs.FS) string {
	m := Mount{Name: path.Join(Outside, "@"+commit[:12]), Display: commit[:12] + ":", FS: files}
	t.Add(m)
	return m.Name
}

// mountName returns the name in the tree of a place outside. It depends on nothing but the place,
// because fingerprints contain it.
func mountName(display string) string {
	elements := strings.Split(strings.Trim(filepath.ToSlash(display), "/"), "/")
	for i, e := range elements {
		if e == ".." {
			elements[i] = "_"
		}
	}
	return path.Join(append([]string{Outside}, elements...)...)
}

func (t *Tree) mountStdin(stdin io.Reader) (string, error) {
	for _, m := range t.Mounts() {
		if m.Display == "-" {
			return m.Name, nil
		}
	}
	const limit = 10 << 20
	data, err := io.ReadAll(io.LimitReader(stdin, limit+1))
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	if len(data) > limit {
		return "", errors.New("standard input: more than 10 MiB")
	}
	m := Mount{Name: mountName("stdin.yaml"), Display: "-", FS: File(data)}
	t.Add(m)
	return m.Name, nil
}

// Locate returns the file system that contains a name, and the name relative to it.
func (t *Tree) Locate(op, name string) (fs.FS, string, error) {
	if !fs.ValidPath(name) {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if !strings.HasPrefix(name, Outside) {
		return t.files, name, nil
	}
	for _, m := range t.Mounts() {
		if name == m.Name {
			return m.FS, ".", nil
		}
		if rest, ok := strings.CutPrefix(name, m.Name+"/"); ok {
			return m.FS, rest, nil
		}
		if strings.HasSuffix(op, "stat") && strings.HasPrefix(m.Name, name+"/") {
			return m.FS, ".", nil // a directory above a mount is a directory, too
		}
	}
	return t.files, name, nil
}

// Open opens a regular file or a directory.
func (t *Tree) Open(name string) (fs.File, error) {
	fsys, rest, err := t.Locate("open", name)
	if err != nil {
		return nil, err
	}
	return fsys.Open(rest)
}

// Digest returns the SHA-256 and the size of a file. ok is false if its file system does
// not know them without reading it.
func (t *Tree) Digest(name string) (sum string, size uint64, ok bool) {
	fsys, rest, err := t.Locate("open", name)
	if err != nil {
		return "", 0, false
	}
	d, ok := fsys.(interface {
		Digest(name string) (string, uint64, bool)
	})
	if !ok {
		return "", 0, false
	}
	return d.Digest(rest)
}

// ReadDir lists a directory.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	fsys, rest, err := t.Locate("open", name)
	if err != nil {
		return nil, err
	}
	return fs.ReadDir(fsys, rest)
}

// ReadLink returns where a link points to.
func (t *Tree) ReadLink(name string) (string, error) {
	fsys, rest, err := t.Locate("readlink", name)
	if err != nil {
		return "", err
	}
	return fs.ReadLink(fsys, rest)
}

// Lstat returns the FileInfo of a name; of the link itself if it is one.
func (t *Tree) Lstat(name string) (fs.FileInfo, error) {
	fsys, rest, err := t.Locate("lstat", name)
	if err != nil {
		return nil, err
	}
	return fs.Lstat(fsys, rest)
}

// Stat returns the FileInfo of the file with a name, without opening it.
func (t *Tree) Stat(name string) (fs.FileInfo, error) {
	fsys, rest, err := t.Locate("stat", name)
	if err != nil {
		return nil, err
	}
	return fs.Stat(fsys, rest)
}
