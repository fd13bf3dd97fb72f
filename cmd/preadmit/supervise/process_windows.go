package supervise

import (
	"os"
	"syscall"
)

func executable() (string, error) { return os.Executable() }

// attributes keeps signals of the console from the child.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
