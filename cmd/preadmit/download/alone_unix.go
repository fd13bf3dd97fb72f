//go:build unix

package download

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// tryAlone takes the lock of the repository's directory .preadmit, which only one fetch can have.
// ok is false while another fetch has it.
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
