//go:build !windows

package cache

import (
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// isOwn reports whether the file belongs to the user who runs this program.
// Another owner can write to it whatever its mode says.
func isOwn(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// readEntry returns the content and modification time of a regular file of limited size. If the
// file changes meanwhile, its checksum is wrong. A run reads hundreds of entries, and this takes
// half the system calls of an [os.File].
func readEntry(name string, limit int64) (data []byte, written time.Time, err error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, written, err
	}
	defer unix.Close(fd)
	var info unix.Stat_t
	if err := unix.Fstat(fd, &info); err != nil || info.Mode&unix.S_IFMT != unix.S_IFREG || info.Size > limit {
		return nil, written, errNoEntry
	}
	data = make([]byte, info.Size)
	for read := 0; read < len(data); {
		n, err := unix.Read(fd, data[read:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return nil, written, errNoEntry
		}
		read += n
	}
	return data, time.Unix(info.Mtim.Unix()), nil
}
