package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestListedOnce holds that a directory is read once, and that what its listing can't
// answer is looked up.
func TestListedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rendertest.WriteFile(t, filepath.Join(dir, "a/b.yaml"), "x: 1\n")
	rendertest.WriteFile(t, filepath.Join(dir, "a/c.yaml"), "y: 2\n")
	if err := os.Symlink("b.yaml", filepath.Join(dir, "a/link")); err != nil {
		t.Skip(err)
	}
	tree := treeOf(t, dir)
	list := func() (names []string) {
		t.Helper()
		entries, err := fs.ReadDir(tree, "a")
		rendertest.OK(t, err)
		for i, e := range entries {
			if info, err := e.Info(); err != nil || info.Name() != e.Name() || info.Mode().Type() != e.Type() {
				t.Errorf("%s: %v, %v", e.Name(), info, err)
			}
			names, entries[i] = append(names, e.Name()), nil // which the next caller must not see
		}
		return names
	}
	list()
	rendertest.WriteFile(t, filepath.Join(dir, "a/d.yaml"), "z: 3\n")
	rendertest.WriteFile(t, filepath.Join(dir, "a/B.yaml"), "x: 1\n")
	rendertest.OK(t, os.Remove(filepath.Join(dir, "a/c.yaml")))
	if got := list(); len(got) != 3 || got[0] != "b.yaml" || got[1] != "c.yaml" || got[2] != "link" {
		t.Errorf("listed again: %q", got)
	}
	for _, c := range []struct {
		name        string
		stat, lstat fs.FileMode
		missing     bool
	}{
		{name: "a/b.yaml"},
		{name: "a/c.yaml"},                               // as it was
		{name: "a/d.yaml", missing: true},                // as it was
		{name: "a/B.yaml"},                               // may be another name of b.yaml, so it is looked up
		{name: "a/link", lstat: fs.ModeSymlink},          // whose target no listing tells
		{name: "a", stat: fs.ModeDir, lstat: fs.ModeDir}, // in no listing
		{name: "a/../a/b.yaml", missing: true},
	} {
		for _, ask := range []struct {
			stat func(fs.FS, string) (fs.FileInfo, error)
			want fs.FileMode
		}{{fs.Stat, c.stat}, {fs.Lstat, c.lstat}} {
			switch info, err := ask.stat(tree, c.name); {
			case (err != nil) != c.missing:
				t.Errorf("%s: %v", c.name, err)
			case err == nil && info.Mode().Type() != ask.want:
				t.Errorf("%s: %v, want %v", c.name, info.Mode(), ask.want)
			}
		}
	}
	if _, err := fs.Stat(tree, "a/d.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := fs.ReadDir(tree, "a/b.yaml"); err == nil {
		t.Error("a file is listed")
	}
}

// TestListingsAreBounded holds that no more entries are kept than there is room for.
func TestListingsAreBounded(t *testing.T) {
	t.Parallel()
	d := &dirs{lists: make(map[string]listing), entries: maxListed - 1}
	entries := []named{{"x", 0}}
	if l := d.keep("a", entries); len(l) != 1 || len(d.lists) != 0 {
		t.Errorf("%d entries, %d lists are kept", len(l), len(d.lists))
	}
	d.entries = 0
	d.keep("a", entries)
	if _, ok := d.listing("a"); !ok {
		t.Error("not kept")
	}
}
