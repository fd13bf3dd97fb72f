package confine

import (
	"syscall"
	"time"
)

// NoCore does nothing on Windows.
func NoCore() {}

// FileSize does nothing on Windows.
func FileSize(bool) {}

// CPU does nothing: the command's watch limits time.
func CPU(time.Duration) {}

// Memory does nothing: the command's watch limits memory.
func Memory(uint64) {}

// UsedCPU returns the processor time that the process has used; 0 if it is not known.
func UsedCPU() time.Duration {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0
	}
	var created, exited, kernel, user syscall.Filetime
	if syscall.GetProcessTimes(self, &created, &exited, &kernel, &user) != nil {
		return 0
	}
	ticks := func(t syscall.Filetime) int64 { return int64(t.HighDateTime)<<32 | int64(t.LowDateTime) }
	return time.Duration(ticks(kernel)+ticks(user)) * 100
}
