//go:build unix

package download

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// tryAlone takes the lock of a repository that only one fetch has: that of its
// directory .preadmit. ok is false while another has it.
func tryAlone(dir string) (release func(), ok bool, err error) {
	f, err := os.Open(filepath.Join(dir, ".preadmit"))
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK || err == unix.EINTR {
			return nil, false, nil
		}
		return nil, false, err
	}
	return func() { f.Close() }, true, nil
}
