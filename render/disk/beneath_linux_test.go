package disk

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestOpenBeneath holds that openBeneath refuses names with a link in them, and that its
// files read like any other.
func TestOpenBeneath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	rendertest.WriteFile(t, filepath.Join(dir, "secret"), "outside")
	rendertest.WriteFile(t, filepath.Join(repo, "a/in.yaml"), "inside")
	for link, target := range map[string]string{"link.yaml": "a/in.yaml", "b": "a", "up": "..", "secret": "../secret"} {
		rendertest.OK(t, os.Symlink(target, filepath.Join(repo, link)))
	}
	root, err := os.OpenRoot(repo)
	rendertest.OK(t, err)
	defer root.Close()
	d := Open(root)
	if _, err := unix.Openat2(d.fd, "a", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}); err == unix.ENOSYS {
		t.Skip("the kernel has no openat2")
	}
	for _, name := range []string{"link.yaml", "b/in.yaml", "b", "up", "up/secret", "secret", "a/../../secret", "missing", "a/in.yaml/x"} {
		if _, _, ok := d.openBeneath(name); ok {
			t.Errorf("%s: opened", name)
		}
		if _, ok := d.listBeneath(name); ok {
			t.Errorf("%s: listed", name)
		}
		if _, ok := d.infoBeneath(name); ok {
			t.Errorf("%s: described", name)
		}
	}
	f, info, ok := d.openBeneath("a/in.yaml")
	if !ok {
		t.Fatal("a/in.yaml: not opened")
	}
	defer f.Close()
	if data, err := io.ReadAll(f); err != nil || string(data) != "inside" || info.Size() != int64(len(data)) || info.Name() != "in.yaml" {
		t.Errorf("a/in.yaml: %q, %v, %d bytes, %s", data, err, info.Size(), info.Name())
	}
	if _, info, ok := d.openBeneath("a"); !ok || !info.IsDir() {
		t.Errorf("a: %v, %v", ok, info)
	}
}

// TestListBeneath holds that listBeneath finds the entries that package os does, with
// their types, and infoBeneath the same facts about those that it describes.
func TestListBeneath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rendertest.WriteFile(t, filepath.Join(dir, "a/in.yaml"), "inside")
	for i := range 600 { // more than one call returns
		rendertest.WriteFile(t, filepath.Join(dir, fmt.Sprintf("file-with-a-longer-name-%d.yaml", i)), "x")
	}
	rendertest.OK(t, os.Symlink("a", filepath.Join(dir, "link")))
	rendertest.OK(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	root, err := os.OpenRoot(dir)
	rendertest.OK(t, err)
	defer root.Close()
	d := Open(root)
	if _, err := unix.Openat2(d.fd, "a", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}); err == unix.ENOSYS {
		t.Skip("the kernel has no openat2")
	}
	got, ok := d.listBeneath(".")
	slices.SortFunc(got, func(a, b named) int { return strings.Compare(a.name, b.name) })
	want, err := os.ReadDir(dir)
	if err != nil || !ok || len(got) != len(want) {
		t.Fatalf("%d entries, want %d: %v, %v", len(got), len(want), ok, err)
	}
	for i, e := range want {
		if got[i] != (named{e.Name(), e.Type()}) {
			t.Errorf("%v, want %s %v", got[i], e.Name(), e.Type())
		}
		info, ok := d.infoBeneath(e.Name())
		if plain := e.Type().IsRegular() || e.IsDir(); ok != plain {
			t.Errorf("%s: described: %v", e.Name(), ok)
		}
		if now, err := e.Info(); err != nil || ok && (info.Mode() != now.Mode() || info.Size() != now.Size() || !info.ModTime().Equal(now.ModTime()) || info.Name() != now.Name()) {
			t.Errorf("%s: %v, want %v", e.Name(), info, now)
		}
	}
}
