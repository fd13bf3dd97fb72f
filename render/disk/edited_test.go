package disk

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

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
