package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

var brokenPipe error = syscall.ERROR_BROKEN_PIPE

func ignorePipe() {}

// columns are those of the terminal that a file is; 0 if it is none.
func columns(f *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0
	}
	return max(1, int(info.Window.Right-info.Window.Left)+1)
}
