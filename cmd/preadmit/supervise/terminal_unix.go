//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// BrokenPipe is the error of writing to a pipe whose reader is gone.
var BrokenPipe error = syscall.EPIPE

// IgnorePipe turns writing to a pipe without a reader into an error, instead of
// the end of the program.
func IgnorePipe() { signal.Ignore(syscall.SIGPIPE) }

// columns returns the width of the terminal that a file is, or 0 if it is none.
func columns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return max(1, int(size.Col))
}
