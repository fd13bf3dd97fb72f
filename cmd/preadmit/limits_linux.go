package main

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitProcess has the kernel bound the process: no core file, and no more
// stack than what deep input of a legitimate kind needs.
func limitProcess() {
	set(unix.RLIMIT_CORE, 0)
}

// limitMemory bounds the memory of the process.
func limitMemory(bytes uint64) { set(unix.RLIMIT_DATA, bytes) }

// set lowers a limit, or raises it as far as it may.
func set(which int, value uint64) {
	var l unix.Rlimit
	if unix.Getrlimit(which, &l) == nil {
		l.Cur = min(value, l.Max)
		unix.Setrlimit(which, &l)
	}
}

func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
