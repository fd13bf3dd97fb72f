//go:build unix && !linux

package main

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitProcess has the kernel bound the process: no core file.
func limitProcess() { unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }

// limitFiles and limitCPU leave it to the watch.
func limitFiles(bool) {}

func limitCPU(time.Duration) {}

// limitMemory leaves it to the watch: this kernel bounds no writable memory.
func limitMemory(uint64) {}

func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
