package git

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestDescriptors holds that a file which is read many times, as the files of a
// chart are that many releases deploy, leaves no files open.
func TestDescriptors(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("no /proc: ", err)
		}
		return len(entries)
	}
	dir := t.TempDir()
	rendertest.OK(t, os.WriteFile(filepath.Join(dir, "values.yaml"), []byte("a: b\n"), 0o666))
	made, err := gittest.Init(dir)
	if err == nil {
		_, err = made.CommitAll("base")
	}
	rendertest.OK(t, err)
	r, err := Open(dir)
	rendertest.OK(t, err)
	defer r.Close()
	c, err := r.Resolve("HEAD")
	rendertest.OK(t, err)
	tree, err := r.Tree(c)
	rendertest.OK(t, err)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which would close them
	before := open()
	for range 200 {
		if _, err := fs.ReadFile(tree, "values.yaml"); err != nil {
			t.Fatal(err)
		}
		if _, err := fs.Stat(tree, "values.yaml"); err != nil {
			t.Fatal(err)
		}
	}
	if after := open(); after > before+20 {
		t.Errorf("%d files are open, %d before", after, before)
	}
}
