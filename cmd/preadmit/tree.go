package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/render/store"
)

// A tree is the tree of a run with what was fetched for it.
type tree struct {
	*disk.Tree
	store *store.Store // set by openStore
}

// openTree opens the repository that holds the working directory or else the
// first path: the nearest parent with .git, else the directory itself.
func openTree(paths []string) (*tree, error) {
	dir, err := treeRoot(paths)
	if err != nil {
		return nil, err
	}
	t, err := disk.OpenTree(dir)
	return &tree{Tree: t}, err
}

func treeRoot(paths []string) (string, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	dir, err := disk.Root(cwd, paths)
	return dir, withNearest(err)
}

// withNearest adds to the error about a path that does not exist which name in its
// directory is alike.
func withNearest(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) && errors.Is(err, fs.ErrNotExist) {
		return notFound(pe.Path, pe.Path)
	}
	return err
}

// name gives a path or address of the command line as a name in the tree, and
// mounts what lies outside.
func (t *tree) name(p string, stdin io.Reader) (string, error) {
	if render.IsAddress(p) {
		return t.fetched(p)
	}
	name, err := t.Name(p, stdin)
	return name, withNearest(err)
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
		if e.Missing {
			e.Hint = "run `preadmit fetch`, with -p or --with if " + configFile + " does not name it"
		}
		return "", &exitError{exitIncomplete, fmt.Errorf("%w; %s", e.Err, e.Hint)}
	}
	return repo.Root, err
}

// holdsAll reports whether one of the paths, none being ".", is the whole tree.
func (t *tree) holdsAll(paths []string, stdin io.Reader) bool {
	return len(paths) == 0 && t.holdsAll([]string{"."}, stdin) || slices.ContainsFunc(paths, func(p string) bool {
		name, err := t.name(p, stdin)
		return err == nil && name == "."
	})
}

// side is which of two trees that are compared this is: "base" is read from git's
// objects.
func (t *tree) side() string {
	if t.WorkTree() {
		return "head"
	}
	return "base"
}

// openStore makes what was fetched for the tree's lock visible, as far as trust
// verifies it. The content is in the tree, or in another directory, which may be
// "".
func (t *tree) openStore(dir string, trust store.Trust) error {
	if t.store != nil {
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
	t.store = store.New(lock, dirs, trust, t)
	for _, m := range t.store.Mounts() {
		label, _, _ := render.Fetched(m.Name)
		t.Add(disk.Mount{Name: m.Name, Display: label, FS: m.FS, Fetched: true})
	}
	return nil
}
