package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// BrokenPipe is the error of writing to a pipe whose reader is gone.
var BrokenPipe error = syscall.ERROR_BROKEN_PIPE

// IgnorePipe does nothing, because Windows has no such signal.
func IgnorePipe() {}

// columns returns the width of the terminal that a file is, or 0 if it is none.
func columns(f *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0
	}
	return max(1, int(info.Window.Right-info.Window.Left)+1)
}
