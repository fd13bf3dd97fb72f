//go:build unix && !linux

package supervise

import (
	"os"
	"syscall"
)

func executable() (string, error) { return os.Executable() }

// attributes has the child get no signal of the terminal.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
