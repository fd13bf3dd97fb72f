package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestReadEnough holds that files beyond what a run may read are errors.
func TestReadEnough(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.yaml"} {
		rendertest.OK(t, os.WriteFile(filepath.Join(dir, name), make([]byte, 1000), 0o644))
	}
	root, err := os.OpenRoot(dir)
	rendertest.OK(t, err)
	defer root.Close()
	d := Open(root)
	d.left.Store(1500)
	if _, err := render.ReadFile(d, "a.yaml"); err != nil {
		t.Errorf("a.yaml: %v", err)
	}
	if _, err := render.ReadFile(d, "b.yaml"); err == nil || !strings.Contains(err.Error(), "b.yaml: not read: the run has read 2 GiB already") {
		t.Errorf("b.yaml: %v", err)
	}
}
