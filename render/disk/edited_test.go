package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestEdit holds that texts of an editor are read in the place of files, and that
// nothing else changes.
func TestEdit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rendertest.WriteFile(t, filepath.Join(dir, "a/b.yaml"), "x: 1\n")
	rendertest.WriteFile(t, filepath.Join(dir, "c.yaml"), "y: 2\n")
	tree := treeOf(t, dir)
	tree.Edit(map[string]string{"a/b.yaml": "x: 12345\n", ".preadmit/new.yaml": "new"})
	if !tree.WorkTree() {
		t.Error("the work tree is no work tree any more")
	}
	for name, want := range map[string]string{"a/b.yaml": "x: 12345\n", "c.yaml": "y: 2\n", ".preadmit/new.yaml": "new"} {
		data, err := render.ReadFile(tree, name)
		if err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		for _, stat := range []func(fs.FS, string) (fs.FileInfo, error){fs.Stat, fs.Lstat} {
			if info, err := stat(tree, name); err != nil || info.Size() != int64(len(want)) || info.Name() != filepath.Base(name) || !info.Mode().IsRegular() {
				t.Errorf("%s: %+v, %v", name, info, err)
			}
		}
	}
	if _, err := tree.ReadLink("a/b.yaml"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a text is a link: %v", err)
	}
}

// TestEditLists holds that a tree with texts lists what it would if they were saved, without the files
// that editors write beside them.
func TestEditLists(t *testing.T) {
	t.Parallel()
	edit, saved := t.TempDir(), t.TempDir()
	texts := map[string]string{"a/b.yaml": "1", "new.yaml": "2", "a/new.yaml": "3", "x/y/z.yaml": "4", "x/y/w.yaml": "5"}
	for _, dir := range []string{edit, saved} {
		rendertest.WriteFile(t, filepath.Join(dir, "a/b.yaml"), "x: 1\n")
		rendertest.WriteFile(t, filepath.Join(dir, "a/c.yaml"), "y: 2\n")
		rendertest.WriteFile(t, filepath.Join(dir, "a/c.yaml~"), "nobody has it open\n")
		rendertest.WriteFile(t, filepath.Join(dir, "a/.#d.yaml"), "nor this\n")
	}
	for name, text := range texts {
		rendertest.WriteFile(t, filepath.Join(saved, name), text)
	}
	for _, name := range []string{".#b.yaml", "#b.yaml#", "b.yaml~", "b.yaml.~1~", ".b.yaml.swp", "b.yaml___jb_tmp___"} {
		rendertest.WriteFile(t, filepath.Join(edit, "a", name), "written by an editor\n")
	}
	list := func(tree *Tree) (all []string) {
		rendertest.OK(t, fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
			info, infoErr := d.Info()
			f, openErr := tree.Open(name)
			if err := errors.Join(err, infoErr, openErr); err != nil {
				return err
			}
			opened, err := f.Stat()
			all = append(all, fmt.Sprint(name, info.Mode().Type(), opened.Mode().Type()))
			return errors.Join(err, f.Close())
		}))
		return all
	}
	tree := treeOf(t, edit)
	tree.Edit(texts)
	if diff := cmp.Diff(list(treeOf(t, saved)), list(tree)); diff != "" {
		t.Error(diff)
	}
	if _, err := tree.Stat("x/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
