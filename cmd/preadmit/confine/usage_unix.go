//go:build unix

package confine

import (
	"syscall"
	"time"
)

// UsedCPU returns the processor time that the process has used; 0 if it is not known.
func UsedCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
