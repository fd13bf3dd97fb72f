//go:build unix && !linux

package supervise

import (
	"os"
	"syscall"
)

func executable() (string, error) { return os.Executable() }

// attributes keeps signals of the terminal from the child.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
