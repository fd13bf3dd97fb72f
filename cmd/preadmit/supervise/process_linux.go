package supervise

import "syscall"

// executable returns the path of this program, which works even if its file has
// been replaced.
func executable() (string, error) { return "/proc/self/exe", syscall.Access("/proc/self/exe", 1) }

// attributes has the child get no signal of the terminal, and end with the
// parent, which starts it on the main thread.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
