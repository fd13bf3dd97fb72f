package disk

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenBeneath holds that openBeneath refuses names with a link in them, and that its
// files read like any other.
func TestOpenBeneath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	write(t, filepath.Join(dir, "secret"), "outside")
	write(t, filepath.Join(repo, "a/in.yaml"), "inside")
	for link, target := range map[string]string{"link.yaml": "a/in.yaml", "b": "a", "up": "..", "secret": "../secret"} {
		if err := os.Symlink(target, filepath.Join(repo, link)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(repo)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	d := Open(root)
	if _, err := unix.Openat2(d.fd, "a", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}); err == unix.ENOSYS {
		t.Skip("the kernel has no openat2")
	}
	for _, name := range []string{"link.yaml", "b/in.yaml", "b", "up", "up/secret", "secret", "a/../../secret", "missing", "a/in.yaml/x"} {
		if _, _, ok := d.openBeneath(name); ok {
			t.Errorf("%s: opened", name)
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
