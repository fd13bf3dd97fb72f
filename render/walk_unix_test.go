//go:build unix

package render_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

func TestDiscoverOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "canary.yaml")
	rendertest.OK(t, os.WriteFile(outside, []byte(pod), 0o600))
	rendertest.OK(t, os.WriteFile(filepath.Join(dir, "ok.yaml"), []byte(pod), 0o600))
	rendertest.OK(t, os.Symlink(outside, filepath.Join(dir, "abs.yaml")))
	rendertest.OK(t, os.Symlink("../"+filepath.Base(filepath.Dir(outside))+"/canary.yaml", filepath.Join(dir, "rel.yaml")))
	rendertest.OK(t, os.Symlink("../"+filepath.Base(dir)+"/ok.yaml", filepath.Join(dir, "back.yaml")))
	rendertest.OK(t, syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600))
	rendertest.OK(t, os.Mkdir(filepath.Join(dir, "dir.yaml"), 0o700))
	rendertest.OK(t, os.WriteFile(filepath.Join(dir, "bad\xff.yaml"), []byte(pod), 0o600))
	for _, hidden := range []string{`..\x`, ".GIT", ".git. ", ".github", ".git/x"} {
		rendertest.OK(t, os.MkdirAll(filepath.Join(dir, hidden), 0o700))
		rendertest.OK(t, os.WriteFile(filepath.Join(dir, hidden, "pod.yaml"), []byte(pod), 0o600))
	}
	rendertest.OK(t, os.WriteFile(filepath.Join(dir, "lfs.yaml"), []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"), 0o600))
	rendertest.OK(t, os.Truncate(create(t, filepath.Join(dir, "big.yaml")), 10<<30))
	root, err := os.OpenRoot(dir)
	rendertest.OK(t, err)
	defer root.Close()
	want := `manifest  ok.yaml
skipped   ..\x: hidden directory
skipped   .GIT: hidden directory
skipped   .git. : hidden directory
skipped   .github: hidden directory
error     ..\x: directory is hidden, and its name has a backslash: on Windows it is another path [misleading-name]
error     .GIT: directory is hidden, and its name means .git on some systems, where git refuses it [misleading-name]
error     .git. : directory is hidden, and its name means .git on some systems, where git refuses it [misleading-name]
error     abs.yaml: symbolic link leads out of the tree [escapes-tree]
error     back.yaml: symbolic link leads out of the tree [escapes-tree]
error     bad` + "\xff" + `.yaml: name is not UTF-8 [invalid-name]
error     big.yaml: file is larger than 10 MiB [file-too-large]
error     lfs.yaml: content is not in the tree, only its Git LFS pointer is [lfs-pointer]
error     pipe.yaml: is a named pipe, not a regular file [not-a-regular-file]
error     rel.yaml: symbolic link leads out of the tree [escapes-tree]
`
	rendertest.Equal(t, want, show(graph.Discover(root.FS())))
	for name, rule := range map[string]string{
		"abs.yaml": "escapes-tree", "rel.yaml": "escapes-tree", "pipe.yaml": "not-a-regular-file", "dir.yaml": "not-a-regular-file",
		"big.yaml": "file-too-large", "none.yaml": "not-found", "../x": "escapes-tree", "lfs.yaml": "lfs-pointer",
	} {
		_, err := render.ReadFile(root.FS(), name)
		if e := (*render.Error)(nil); !errors.As(err, &e) || e.Rule != rule || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %s", name, err, rule)
		}
	}
}
