//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// BrokenPipe is the error of writing to a reader that is gone.
var BrokenPipe error = syscall.EPIPE

// IgnorePipe makes a reader that goes away an error of the write, and
// not the end of the program.
func IgnorePipe() { signal.Ignore(syscall.SIGPIPE) }

// columns are those of the terminal that a file is; 0 if it is none.
func columns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return max(1, int(size.Col))
}
