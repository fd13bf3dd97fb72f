//go:build unix

package disk

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe that nobody writes to must not block, nor a device be read for ever.
func TestTreeOpensRegularFilesOnly(t *testing.T) {
	t.Parallel()
	repo := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(repo, "pipe.yaml"), 0o644); err != nil {
		t.Skip(err)
	}
	if _, err := treeOf(t, repo).Open("pipe.yaml"); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("pipe.yaml: %v", err)
	}
}
