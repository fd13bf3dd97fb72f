//go:build !windows

package cache

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwn reports whether the file belongs to the user who runs this program.
// Another owner can write to it whatever its mode says.
func isOwn(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
