package git

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/memfile"
)

// A Tree is an [fs.FS] of the files of one commit. Like an [os.Root] it follows
// symbolic links within the tree, and never out of it. A submodule that is
// checked out has the files of the commit that the tree names; otherwise it is
// an empty directory. A Tree is safe for concurrent use.
type Tree struct {
	root *node

	mu         sync.Mutex
	listed     int                    // number of directories read so far
	distinct   map[plumbing.Hash]bool // their objects
	absent     []string
	unreadable []string
	whyNot     error
}

// Tree returns the files of a commit.
func (r *Repository) Tree(c *Commit) (*Tree, error) {
	t := &Tree{root: &node{mode: fs.ModeDir | 0o755, hash: c.tree, repo: r}}
	if _, err := t.root.list(t, "."); err != nil {
		return nil, fmt.Errorf("commit %s: %w", c.Hash, err)
	}
	return t, nil
}

// AbsentSubmodules returns the submodules that are not checked out, among the
// directories read so far, sorted.
func (t *Tree) AbsentSubmodules() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	slices.Sort(t.absent)
	return slices.Clone(t.absent)
}

// AbsentModules returns the submodules of the work tree that are not checked out: the empty
// directories that .gitmodules or the index declares as submodules, each with its commit in the
// index, if any.
func (r *Repository) AbsentModules(tree fs.FS) map[string]string {
	data, err := render.ReadFile(tree, ".gitmodules")
	modules := config.NewModules()
	if err != nil || modules.Unmarshal(data) != nil {
		modules = config.NewModules()
	}
	absent := make(map[string]string)
	add := func(dir, commit string) {
		if dir = path.Clean(dir); fs.ValidPath(dir) {
			if entries, _ := fs.ReadDir(tree, dir); len(entries) == 0 {
				absent[dir] = commit
			}
		}
	}
	for _, m := range modules.Submodules {
		add(m.Path, "")
	}
	r.mu.Lock()
	staged, err := r.store.Index()
	r.mu.Unlock()
	if err == nil {
		for _, e := range staged.Entries {
			if e.Mode == filemode.Submodule {
				add(e.Name, e.Hash.String())
			}
		}
	}
	return absent
}

// LeftOut returns the files of the index that a sparse checkout leaves out of the work tree,
// sorted.
func (r *Repository) LeftOut(tree fs.FS) (files []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.store.Filesystem().Stat("info/sparse-checkout"); err != nil {
		return nil, nil // no need to read the index
	}
	staged, err := r.store.Index()
	if err != nil {
		return nil, fmt.Errorf("the index can't be read: %w", err)
	}
	for _, e := range staged.Entries {
		if !e.SkipWorktree {
			continue
		}
		if _, err := fs.Stat(tree, e.Name); errors.Is(err, fs.ErrNotExist) {
			files = append(files, e.Name)
		}
	}
	slices.Sort(files)
	return files, nil
}

// Err returns an error that names the files whose content was requested and is missing or can't be
// read. A caller that compares the tree with another must not treat these files as absent.
func (t *Tree) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.unreadable) == 0 {
		return nil
	}
	slices.Sort(t.unreadable)
	names := slices.Compact(t.unreadable)
	if more := len(names) - 1; more > 0 {
		return fmt.Errorf("%s and %d more can't be read: %w", names[0], more, t.whyNot)
	}
	return fmt.Errorf("%s can't be read: %w", names[0], t.whyNot)
}

// failed records that a file can't be read, and returns the error.
func (t *Tree) failed(name string, err error) error {
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.whyNot == nil {
			t.whyNot = err
		}
		t.unreadable = append(t.unreadable, name)
	}
	return err
}

// object reads the object of a node.
func (t *Tree) object(kind plumbing.ObjectType, n *node, name string) ([]byte, error) {
	data, err := n.repo.object(kind, n.hash)
	if errors.Is(err, errTooLarge) {
		return data, err // same as in a work tree, where it does not count as unreadable
	}
	return data, t.failed(name, err)
}

// A node is an entry of a tree: a file, a link, or a directory, whose entries
// are read when first needed.
type node struct {
	name   string
	mode   fs.FileMode
	hash   plumbing.Hash
	repo   *Repository // the repository that contains it
	module bool        // it is a submodule, and hash is that of a commit

	once    sync.Once
	entries []*node // sorted by name
	err     error
}

// list returns the entries of a directory, sorted by name.
func (n *node) list(t *Tree, dir string) ([]*node, error) {
	n.once.Do(func() {
		if n.module && !n.enter(t, dir) {
			return
		}
		if n.err = t.failed(dir, t.again(n.hash)); n.err != nil {
			return
		}
		var data []byte
		if data, n.err = t.treeContent(n, dir); n.err == nil {
			n.entries, n.err = parseTree(data)
		}
		for _, e := range n.entries {
			e.repo = n.repo
		}
	})
	return n.entries, n.err
}

// Limits against a tree that contains the same directories again and again: a
// few objects can make more files than can be walked.
const (
	manyListed = 2000 // number of directories above which repetition is checked
	mostAgain  = 50   // how often a directory's object may occur in the tree, on average
)

var errAgain = errors.New("the tree holds the same directories again and again")

// again counts a directory, and returns an error if the tree repeats the same
// ones too often.
func (t *Tree) again(h plumbing.Hash) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.distinct == nil {
		t.distinct = make(map[plumbing.Hash]bool)
	}
	t.listed++
	t.distinct[h] = true
	if t.listed > manyListed && t.listed > mostAgain*len(t.distinct) {
		return errAgain
	}
	return nil
}

// enter turns the node of a submodule into the root directory of its commit in its own repository.
// It returns false if that is not possible: n.err is the reason, or nil if the submodule is not
// checked out.
func (n *node) enter(t *Tree, dir string) bool {
	repo, err := t.root.repo.submodule(dir)
	if err == nil && repo == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.absent = append(t.absent, dir)
		return false
	}
	var c *Commit
	if err == nil {
		c, err = repo.commit(n.hash)
	}
	if n.err = t.failed(dir, err); err != nil {
		return false
	}
	n.repo, n.hash = repo, c.tree
	return true
}

// parseTree decodes a tree object. It drops names that no checkout would create. If several entries
// have the same name, it keeps the first.
func parseTree(data []byte) ([]*node, error) {
	var entries []*node
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		if !ok || !named || len(rest) < 20 {
			return nil, errors.New("a tree object is broken")
		}
		n := &node{name: name}
		copy(n.hash[:], rest)
		data = rest[20:]
		if name == "" || name == "." || name == ".." || strings.EqualFold(name, ".git") || strings.Contains(name, "/") {
			continue
		}
		if err := n.setMode(mode); err != nil {
			return nil, err
		}
		entries = append(entries, n)
	}
	slices.SortStableFunc(entries, func(a, b *node) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(entries, func(a, b *node) bool { return a.name == b.name }), nil
}

func (n *node) setMode(mode string) error {
	switch strings.TrimLeft(mode, "0") {
	case "40000":
		n.mode = fs.ModeDir | 0o755
	case "100644", "100664":
		n.mode = 0o644
	case "100755":
		n.mode = 0o755
	case "120000":
		n.mode = fs.ModeSymlink | 0o777
	case "160000":
		n.mode, n.module = fs.ModeDir|0o755, true
	default:
		return fmt.Errorf("a tree object has an entry of mode %s", mode)
	}
	return nil
}

func (n *node) find(t *Tree, dir, name string) (*node, error) {
	entries, err := n.list(t, dir)
	if err != nil {
		return nil, err
	}
	i, ok := slices.BinarySearchFunc(entries, name, func(e *node, name string) int { return strings.Compare(e.name, name) })
	if !ok {
		return nil, fs.ErrNotExist
	}
	return entries[i], nil
}

var (
	errOutside = errors.New("path escapes from parent")
	errLoop    = errors.New("too many levels of symbolic links")
	errNotDir  = errors.New("not a directory")
)

// maxLinks is how many symbolic links one name may lead through, as on Linux.
const maxLinks = 40

// walk finds the node of a name, and its real name. If follow is set, it also
// follows a link in the last element.
func (t *Tree) walk(name string, follow bool) (*node, string, error) {
	at, dir := t.root, "."
	todo := name
	for links := 0; todo != "." && todo != ""; {
		if at.mode.Type() != fs.ModeDir {
			return nil, "", errNotDir
		}
		var element string
		element, todo, _ = strings.Cut(todo, "/")
		next, err := at.find(t, dir, element)
		if err != nil {
			return nil, "", err
		}
		if next.mode.Type() != fs.ModeSymlink || todo == "" && !follow {
			at, dir = next, path.Join(dir, element)
			continue
		}
		if links++; links > maxLinks {
			return nil, "", errLoop
		}
		target, err := t.target(next, path.Join(dir, element))
		if err != nil {
			return nil, "", err
		}
		if todo = path.Join(dir, target, todo); path.IsAbs(target) || todo == ".." || strings.HasPrefix(todo, "../") {
			return nil, "", errOutside
		}
		at, dir = t.root, "."
	}
	return at, dir, nil
}

// target returns the path a link points to. "a/../b" becomes "b", although a
// system would check whether a is a link.
func (t *Tree) target(n *node, name string) (string, error) {
	data, err := t.object(plumbing.BlobObject, n, name)
	if err != nil {
		return "", err
	}
	const longest = 4096
	if len(data) == 0 || len(data) > longest || bytes.IndexByte(data, 0) >= 0 {
		return "", errors.New("symbolic link leads nowhere")
	}
	return string(data), nil
}

// lookup is walk with the errors of package fs.
func (t *Tree) lookup(op, name string, follow bool) (*node, string, error) {
	if !fs.ValidPath(name) {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	n, real, err := t.walk(name, follow)
	if err != nil {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: err}
	}
	return n, real, nil
}

// Open opens a file or a directory.
func (t *Tree) Open(name string) (fs.File, error) {
	n, real, err := t.lookup("open", name, true)
	if err != nil {
		return nil, err
	}
	if n.mode.IsDir() {
		entries, err := n.list(t, real)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return memfile.OpenDir(n.info(0), t.dirEntries(real, entries)), nil
	}
	data, err := t.object(plumbing.BlobObject, n, name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return memfile.OpenAs(n.info(int64(len(data))), data), nil
}

// ReadFile returns a file's content.
func (t *Tree) ReadFile(name string) ([]byte, error) {
	n, _, err := t.lookup("readfile", name, true)
	if err != nil {
		return nil, err
	}
	if n.mode.IsDir() {
		return nil, &fs.PathError{Op: "readfile", Path: name, Err: errors.New("is a directory")}
	}
	data, err := t.object(plumbing.BlobObject, n, name)
	if err != nil {
		return nil, &fs.PathError{Op: "readfile", Path: name, Err: err}
	}
	return data, nil
}

// ReadDir returns a directory's entries, sorted by name.
func (t *Tree) ReadDir(name string) ([]fs.DirEntry, error) {
	n, real, err := t.lookup("readdir", name, true)
	if err != nil {
		return nil, err
	}
	if !n.mode.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errNotDir}
	}
	entries, err := n.list(t, real)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	return t.dirEntries(real, entries), nil
}

func (t *Tree) dirEntries(dir string, nodes []*node) []fs.DirEntry {
	entries := make([]fs.DirEntry, len(nodes))
	for i, n := range nodes {
		entries[i] = dirEntry{t, dir, n}
	}
	return entries
}

// Stat returns the FileInfo of a name, following links.
func (t *Tree) Stat(name string) (fs.FileInfo, error) { return t.stat("stat", name, true) }

// Lstat returns the FileInfo of a name; of the link itself if it is one.
func (t *Tree) Lstat(name string) (fs.FileInfo, error) { return t.stat("lstat", name, false) }

func (t *Tree) stat(op, name string, follow bool) (fs.FileInfo, error) {
	n, _, err := t.lookup(op, name, follow)
	if err != nil {
		return nil, err
	}
	return t.info(n, name)
}

// ReadLink returns where a link points to.
func (t *Tree) ReadLink(name string) (string, error) {
	n, _, err := t.lookup("readlink", name, false)
	if err != nil {
		return "", err
	}
	if n.mode.Type() != fs.ModeSymlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return t.target(n, name)
}

// Hash returns a hash of a file's or directory's content. Equal hashes mean
// equal content, in whatever commit.
func (t *Tree) Hash(name string) (string, error) {
	n, _, err := t.lookup("hash", name, true)
	if err != nil {
		return "", err
	}
	return n.hash.String(), nil
}

func (t *Tree) info(n *node, name string) (fs.FileInfo, error) {
	if n.mode.IsDir() {
		return n.info(0), nil
	}
	if x := n.repo.facts.of(n.hash); x != nil && x.Digest != "" {
		return n.info(int64(x.Size)), nil
	}
	size, err := n.repo.size(n.hash)
	if err != nil {
		return nil, t.failed(name, err)
	}
	return n.info(size), nil
}

// info returns the FileInfo of a file or directory. It has no time, because commits do not record
// when a file changed.
func (n *node) info(size int64) memfile.Info { return memfile.New(cmp.Or(n.name, "."), size, n.mode) }

type dirEntry struct {
	tree *Tree
	dir  string
	node *node
}

func (d dirEntry) Name() string      { return d.node.name }
func (d dirEntry) IsDir() bool       { return d.node.mode.IsDir() }
func (d dirEntry) Type() fs.FileMode { return d.node.mode.Type() }
func (d dirEntry) Info() (fs.FileInfo, error) {
	return d.tree.info(d.node, path.Join(d.dir, d.node.name))
}
