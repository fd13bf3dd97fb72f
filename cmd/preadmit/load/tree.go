package load

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/render/git"
	"github.com/preadmit/preadmit/render/store"
)

// A Tree is the tree of a run with its fetched content.
type Tree struct {
	*disk.Tree
	Store *store.Store // set by openStore
}

// Open opens the repository that holds the working directory or else the
// first path: the nearest parent with .git, else the directory itself.
func Open(paths []string) (*Tree, error) {
	dir, err := Root(paths)
	if err != nil {
		return nil, err
	}
	t, err := disk.OpenTree(dir)
	return &Tree{Tree: t}, err
}

func Root(paths []string) (string, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	dir, err := disk.Root(cwd, paths)
	return dir, withNearest(err)
}

// withNearest adds a similar name in the same directory to an error about a path that does not
// exist.
func withNearest(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) && errors.Is(err, fs.ErrNotExist) {
		return NotFound(pe.Path, pe.Path)
	}
	return err
}

// NameOf returns the name in the tree of a path or address of the command line. It
// mounts a path that is outside of the tree.
func (t *Tree) NameOf(p string, stdin io.Reader) (string, error) {
	if render.IsAddress(p) {
		return t.fetched(p)
	}
	name, err := t.Name(p, stdin)
	return name, withNearest(err)
}

// unreadConfigurations returns a note for each directory with a configuration of its own that
// is a path of the command line, or contains one, and that is not the tree's root.
func (t *Tree) unreadConfigurations(paths []string) (notes []string) {
	const folder = ".preadmit"
	for _, p := range paths {
		if p == "-" || render.IsAddress(p) {
			continue
		}
		dir, err := t.NameOf(p, nil)
		for ; err == nil && dir != "."; dir = path.Dir(dir) {
			if info, err := fs.Stat(t, path.Join(dir, folder)); err != nil || !info.IsDir() {
				continue
			}
			note := fmt.Sprintf("%s/%s is not read, since the tree begins above it: to use it, run preadmit in %[1]s", t.Display(dir), folder)
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	return notes
}

// fetched returns the name in the tree of the files at the address of an OCI artifact, or of the
// directory with the file at a URL. They must be in the store.
func (t *Tree) fetched(address string) (string, error) {
	if t.Store == nil {
		return "", fmt.Errorf("%s: an address is not allowed here", address)
	}
	repo, err := t.Store.Fetched(render.NewAddressed(address))
	var e *render.Error
	if errors.As(err, &e) {
		if e.Missing {
			e.Hint = "run `preadmit fetch`, with -p or --with if " + config.Path + " does not name it"
		}
		return "", &supervise.Incomplete{Err: fmt.Errorf("%w; %s", e.Err, e.Hint)}
	}
	return repo.Root, err
}

// HoldsAll reports whether one of the paths is the whole tree. No paths mean ".".
func (t *Tree) HoldsAll(paths []string) bool {
	return len(paths) == 0 && t.HoldsAll([]string{"."}) || slices.ContainsFunc(paths, func(p string) bool {
		if p == "-" { // standard input
			return false
		}
		name, err := t.NameOf(p, nil)
		return err == nil && name == "."
	})
}

// side returns "head" for the work tree, and "base" for a revision.
func (t *Tree) side() string {
	if t.WorkTree() {
		return "head"
	}
	return "base"
}

// OpenStore mounts the content of the tree's lock that trust verifies. It reads the content from
// the tree's own store and from dir, which may be "".
func (t *Tree) OpenStore(dir string, trust store.Trust) error {
	if t.Store != nil {
		return nil
	}
	lock, err := store.ReadLock(t.Repository())
	if err != nil {
		return err
	}
	dirs := store.Dirs(t.Dirs(store.VendorDir))
	if dir != "" {
		root, err := os.OpenRoot(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--store: %w", err)
		}
		if err == nil {
			files := disk.Open(root)
			dirs = append(dirs, disk.Sub(files, store.ContentDir(files)))
		}
	}
	t.Store = store.New(lock, dirs, trust, t)
	for _, m := range t.Store.Mounts() {
		label, _, _ := render.Fetched(m.Name)
		t.Add(disk.Mount{Name: m.Name, Display: label, FS: m.FS, Fetched: true})
	}
	return nil
}

// NotFound returns the error for a path that does not exist, with a similar name if there is one.
// real is the path relative to the working directory.
func NotFound(shown, real string) error {
	err := fmt.Errorf("%s: no such file or directory", shown)
	dir, name := filepath.Split(filepath.Clean(real))
	dir = cmp.Or(dir, ".")
	entries, readErr := os.ReadDir(dir)
	if readErr != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if meant := render.Nearest(name, names); meant != "" {
		return fmt.Errorf("%w; did you mean %s?", err, filepath.ToSlash(filepath.Join(filepath.Dir(shown), meant)))
	}
	return err
}

// A Revision is a revision that the work tree is compared with.
type Revision struct {
	Tree   *Tree
	Repo   *git.Repository
	Files  *git.Tree
	Commit string
}

// OpenBase opens the tree of --base. Its files have the same names, and are read from the
// repository's objects.
func OpenBase(head *Tree, name string) (*Revision, error) {
	fail := func(err error) (*Revision, error) { return nil, fmt.Errorf("--base: %w", err) }
	repo, err := git.Open(head.Dir)
	if err != nil {
		return fail(fmt.Errorf("%s: %w", head.Dir, err))
	}
	commit, err := repo.Resolve(name)
	if err != nil {
		return fail(err)
	}
	files, err := repo.Tree(commit)
	if err != nil {
		return fail(err)
	}
	return &Revision{Tree: &Tree{Tree: head.At(files)}, Repo: repo, Files: files, Commit: commit.Hash}, nil
}

// Places joins errors with their places and hints in one line. If t is not nil, file names are
// those of reports.
func Places(t *Tree, err error) error {
	var all []string
	for _, e := range render.Errors(err) {
		shown := *e
		if t != nil {
			shown.Span.File = t.Display(shown.Span.File)
		}
		text := shown.Error()
		if e.Hint != "" {
			text += " (" + e.Hint + ")"
		}
		all = append(all, text)
	}
	return errors.New(strings.Join(all, "; "))
}
