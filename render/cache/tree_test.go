package cache

import (
	"crypto/sha256"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// revision is a file system that knows the digests of its files. It counts what is opened.
type revision struct {
	fstest.MapFS
	opened *[]string
}

func (r revision) Open(name string) (fs.File, error) {
	*r.opened = append(*r.opened, name)
	return r.MapFS.Open(name)
}

func (r revision) Digest(name string) (sum string, size uint64, ok bool) {
	f, ok := r.MapFS[name]
	if !ok {
		return "", 0, false
	}
	digest := sha256.Sum256(f.Data)
	return string(digest[:]), uint64(len(f.Data)), true
}

// TestSameContentIsNotUnpacked holds that a file that the head has read is not read again for the
// base, unless its content differs.
func TestSameContentIsNotUnpacked(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	now := New(render.Graph{}, fstest.MapFS{"same": file("1"), "edited": file("22"), "unread": file("3"), "new": file("4")}, Options{})
	var opened []string
	was := New(render.Graph{}, revision{fstest.MapFS{"same": file("1"), "edited": file("2"), "unread": file("3"), "old": file("5")}, &opened}, Options{Other: now})
	for _, name := range []string{"same", "edited", "new"} {
		_, err := render.ReadFile(now.tree, name)
		rendertest.OK(t, err)
	}
	for name, want := range map[string]string{"same": "1", "edited": "2", "unread": "3", "old": "5"} {
		if data, err := render.ReadFile(was.tree, name); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if _, err := render.ReadFile(was.tree, "new"); err == nil {
		t.Error("the base has a file of the head")
	}
	if slices.Contains(opened, "same") || !slices.Contains(opened, "edited") {
		t.Errorf("opened %q", opened)
	}
}
