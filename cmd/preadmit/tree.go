package main

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

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/render/store"
)

// A tree is all that a run may read: the repository, and what was named on the
// command line but lies outside of it. It is an [fs.FS] in which nothing leads
// out, no link and no "..", and of which only regular files and directories can
// be opened, so that a pipe or device planted in it can't block a run.
type tree struct {
	dir    string // of the repository, absolute, links resolved
	root   *os.Root
	files  fs.FS // of the repository: those in root, or in a revision
	paired bool  // one of two to compare: a name may be missing that the other has

	store *store.Store // what was fetched; set by openStore

	mu     sync.RWMutex
	mounts []mount
}

// A mount is a place outside of the repository, visible under outside.
type mount struct {
	name    string // in the tree
	display string // in reports
	dir     string // absolute; "" for standard input
	fs      fs.FS
	fetched bool // from the store
}

const outside = ".outside"

// openTree opens the repository that holds the working directory or else the
// first path: the nearest parent with .git, else the directory itself.
func openTree(paths []string) (*tree, error) {
	dir, err := treeRoot(paths)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{dir: dir, root: root, files: disk.Open(root)}, nil
}

func treeRoot(paths []string) (string, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if cwd, err = filepath.EvalSymlinks(cwd); err != nil {
		return "", err
	}
	root := repository(cwd)
	if root == "" {
		root = cwd
	}
	for _, p := range paths {
		if p == "-" {
			continue
		}
		real, err := realPath(p)
		if abs, absErr := filepath.Abs(p); err != nil && absErr == nil {
			if _, ok := within(root, abs); ok {
				return root, nil // where the path is looked for
			}
		}
		if err != nil {
			return "", err
		}
		if _, ok := within(root, real); ok {
			return root, nil
		}
		return holder(real), nil
	}
	return root, nil
}

// repository is the nearest directory from dir up that holds .git, or "".
func repository(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// holder is the directory to open for a path that lies outside of the tree.
func holder(real string) string {
	dir := real
	if info, err := os.Stat(real); err == nil && !info.IsDir() {
		dir = filepath.Dir(real)
	}
	if repo := repository(dir); repo != "" {
		return repo
	}
	return dir
}

// realPath is realPath, and in one of two trees takes a path that the
// work tree lacks as it is written.
func (t *tree) realPath(p string) (string, error) {
	real, err := realPath(p)
	if err == nil || !t.paired {
		return real, err
	}
	abs, absErr := filepath.Abs(p)
	if absErr != nil {
		return "", err
	}
	if _, ok := within(t.dir, abs); !ok {
		return "", err
	}
	return abs, nil
}

func realPath(p string) (string, error) {
	abs, err := filepath.Abs(p)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return "", notFound(p, p)
	}
	return real, err
}

func within(dir, file string) (string, bool) {
	rel, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// name gives a path of the command line as a name in the tree, and mounts what
// lies outside.
func (t *tree) name(p string, stdin io.Reader) (string, error) {
	if p == "-" {
		return t.mountStdin(stdin)
	}
	if render.IsAddress(p) {
		return t.fetched(p)
	}
	real, err := t.realPath(p)
	if err != nil {
		return "", err
	}
	if rel, ok := within(t.dir, real); ok {
		return rel, nil
	}
	for _, m := range t.mounted() {
		if rel, ok := within(m.dir, real); ok && m.dir != "" {
			return path.Join(m.name, rel), nil
		}
	}
	m, err := t.mount(holder(real))
	if err != nil {
		return "", err
	}
	rel, _ := within(m.dir, real)
	return path.Join(m.name, rel), nil
}

// fetched is the name of the files of an artifact in a registry, or of the
// directory with the file at a URL, which have to be in the store.
func (t *tree) fetched(address string) (string, error) {
	if t.store == nil {
		return "", fmt.Errorf("%s: an address is not taken here", address)
	}
	repo, err := t.store.Fetched(render.NewAddressed(address))
	var e *render.Error
	if errors.As(err, &e) {
		return "", &exitError{exitIncomplete, fmt.Errorf("%w; %s", e.Err, e.Hint)}
	}
	return repo.Root, err
}

func (t *tree) mount(dir string) (mount, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return mount{}, err
	}
	display := dir
	if rel, err := filepath.Rel(t.dir, dir); err == nil {
		display = rel
	}
	m := mount{name: mountName(display), display: filepath.ToSlash(display), dir: dir, fs: disk.Open(root)}
	t.add(m)
	return m, nil
}

func (t *tree) add(m mount) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mounts = append(slices.Clip(t.mounts), m)
}

// side is which of two trees that are compared this is: "base" is read from git's
// objects.
func (t *tree) side() string {
	if _, isDir := t.files.(disk.Dir); isDir {
		return "head"
	}
	return "base"
}

func (t *tree) mounted() []mount {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mounts
}

// mountRevision makes the files of another revision of the repository visible,
// and returns their name in the tree.
func (t *tree) mountRevision(commit string, files fs.FS) string {
	m := mount{name: path.Join(outside, "@"+commit[:12]), display: commit[:12] + ":", fs: files}
	t.add(m)
	return m.name
}

// openStore makes what was fetched for the tree's lock visible, as far as trust
// verifies it. The content is in the tree, or in another directory, which may be
// "".
func (t *tree) openStore(dir string, trust store.Trust) error {
	if t.store != nil {
		return nil
	}
	lock, err := t.readLock()
	if err != nil {
		return err
	}
	dirs := store.Dirs{disk.Sub(t.files, store.VendorDir)}
	if _, isDir := t.files.(disk.Dir); !isDir && t.root != nil { // of a revision
		dirs = append(dirs, disk.Sub(disk.Open(t.root), store.VendorDir))
	}
	if dir != "" {
		root, err := os.OpenRoot(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--store: %w", err)
		}
		if err == nil && isLayout(disk.Open(root)) {
			dirs = append(dirs, disk.Sub(disk.Open(root), layoutBlobs))
		} else if err == nil {
			dirs = append(dirs, disk.Open(root))
		}
	}
	t.store = store.New(lock, dirs, trust, t)
	for _, m := range t.store.Mounts() {
		label, _, _ := render.Fetched(m.Name)
		t.add(mount{name: m.Name, display: label, fs: m.FS, fetched: true})
	}
	return nil
}

// layoutBlobs is the directory of an OCI image layout that holds its content by
// digest, as a store does.
const layoutBlobs = "blobs"

func isLayout(dir fs.FS) bool {
	info, err := fs.Stat(dir, "oci-layout")
	return err == nil && info.Mode().IsRegular()
}

// readLock reads the tree's lock, nil without one.
func (t *tree) readLock() (*store.Lock, error) {
	data, err := render.ReadFile(disk.Sub(t.files, "."), store.LockFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := render.OneDocument(store.LockFile, data); err != nil {
		return nil, err
	}
	lock, err := store.ParseLock(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", store.LockFile, err)
	}
	return lock, nil
}

// shown is a name below the mount as reports show it. Those of a revision are
// written as git does, commit:path; those of what was fetched so that they are no
// path of the repository.
func (m *mount) shown(rest string) string {
	if m.fetched {
		return m.display + "//" + rest
	}
	if strings.HasSuffix(m.display, ":") {
		return m.display + rest
	}
	return path.Join(m.display, rest)
}

// mountName is a name in the tree for a place outside: it depends on nothing
// but the place, since fingerprints hang on it.
func mountName(display string) string {
	elements := strings.Split(strings.Trim(filepath.ToSlash(display), "/"), "/")
	for i, e := range elements {
		if e == ".." {
			elements[i] = "_"
		}
	}
	return path.Join(append([]string{outside}, elements...)...)
}

func (t *tree) mountStdin(stdin io.Reader) (string, error) {
	for _, m := range t.mounted() {
		if m.display == "-" {
			return m.name, nil
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
	m := mount{name: mountName("stdin.yaml"), display: "-", fs: disk.File(data)}
	t.add(m)
	return m.name, nil
}

// display gives a name in the tree as reports show it.
func (t *tree) display(name string) string {
	for _, m := range t.mounted() {
		if name == m.name {
			return m.display
		}
		if rest, ok := strings.CutPrefix(name, m.name+"/"); ok {
			return m.shown(rest)
		}
	}
	return name
}

// displayIn is display for the names in a text.
func (t *tree) displayIn(text string) string {
	if !strings.Contains(text, outside) {
		return text
	}
	for _, m := range t.mounted() {
		if m.fetched {
			text = strings.ReplaceAll(text, m.name+"/", m.shown(""))
		}
		if strings.HasSuffix(m.display, ":") {
			text = strings.ReplaceAll(text, m.name+"/", m.display)
			continue
		}
		text = strings.ReplaceAll(text, m.name, m.display)
	}
	return text
}

// find is display's inverse.
func (t *tree) find(display string) string {
	for _, m := range t.mounted() {
		if m.fetched {
			continue
		}
		if display == m.display {
			return m.name
		}
		if rest, ok := strings.CutPrefix(display, m.shown("")); ok && (strings.HasSuffix(m.display, ":") || strings.HasPrefix(rest, "/")) {
			return path.Join(m.name, rest)
		}
	}
	return display
}

func (t *tree) at(op, name string) (fs.FS, string, error) {
	if !fs.ValidPath(name) {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if !strings.HasPrefix(name, outside) {
		return t.files, name, nil
	}
	for _, m := range t.mounted() {
		if name == m.name {
			return m.fs, ".", nil
		}
		if rest, ok := strings.CutPrefix(name, m.name+"/"); ok {
			return m.fs, rest, nil
		}
	}
	return t.files, name, nil
}

// Open opens a regular file or a directory.
func (t *tree) Open(name string) (fs.File, error) {
	fsys, rest, err := t.at("open", name)
	if err != nil {
		return nil, err
	}
	return fsys.Open(rest)
}

// ReadLink returns where a link points to.
func (t *tree) ReadLink(name string) (string, error) {
	fsys, rest, err := t.at("readlink", name)
	if err != nil {
		return "", err
	}
	return fs.ReadLink(fsys, rest)
}

// Lstat describes a name without following it if it is a link.
func (t *tree) Lstat(name string) (fs.FileInfo, error) {
	fsys, rest, err := t.at("lstat", name)
	if err != nil {
		return nil, err
	}
	return fs.Lstat(fsys, rest)
}

// Stat describes what a name stands for, without opening it.
func (t *tree) Stat(name string) (fs.FileInfo, error) {
	fsys, rest, err := t.at("stat", name)
	if err != nil {
		return nil, err
	}
	return fs.Stat(fsys, rest)
}

// shown is a tree whose names are those of reports.
type shown struct{ *tree }

func (s shown) Open(name string) (fs.File, error)      { return s.tree.Open(s.find(name)) }
func (s shown) Stat(name string) (fs.FileInfo, error)  { return s.tree.Stat(s.find(name)) }
func (s shown) Lstat(name string) (fs.FileInfo, error) { return s.tree.Lstat(s.find(name)) }
func (s shown) ReadLink(name string) (string, error)   { return s.tree.ReadLink(s.find(name)) }
