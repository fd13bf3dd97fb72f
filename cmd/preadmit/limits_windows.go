package main

import (
	"syscall"
	"time"
)

// limitProcess and its like leave it to the watch.
func limitProcess() {}

func limitFiles(bool) {}

func limitCPU(time.Duration) {}

func limitMemory(uint64) {}

func processCPU() time.Duration {
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
