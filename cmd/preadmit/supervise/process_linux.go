package supervise

import "syscall"

// executable is the program itself, also when its file was replaced meanwhile.
func executable() (string, error) { return "/proc/self/exe", syscall.Access("/proc/self/exe", 1) }

// attributes has the child get no signal of the terminal, and end with the
// parent, which starts it on the main thread.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
