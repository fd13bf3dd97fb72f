package supervise

import (
	"os"
	"syscall"
)

func executable() (string, error) { return os.Executable() }

// attributes has the child get no signal of the console.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
