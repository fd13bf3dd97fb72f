package supervise

import "syscall"

// executable returns the path of this program, which works even if its file has
// been replaced.
func executable() (string, error) { return "/proc/self/exe", syscall.Access("/proc/self/exe", 1) }

// attributes keeps signals of the terminal from the child, and ends it when the parent's thread
// ends, which is the main thread.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
