package confine

import (
	"time"

	"golang.org/x/sys/unix"
)

// NoCore has the kernel bound the process: no core file. That it starts no
// process is the sandbox's, since this limit would count all of the user's.
func NoCore() { set(unix.RLIMIT_CORE, 0) }

// FileSize bounds the size of a file that the process writes, which only one
// that keeps a cache does.
func FileSize(cache bool) {
	most := uint64(0)
	if cache {
		most = 1 << 30
	}
	set(unix.RLIMIT_FSIZE, most)
}

// CPU bounds the time of all processors, for a run that no watch ends.
func CPU(d time.Duration) { set(unix.RLIMIT_CPU, uint64(d/time.Second)+1) }

// Memory bounds the memory of the process.
func Memory(bytes uint64) { set(unix.RLIMIT_DATA, bytes) }

// set lowers a limit, or raises it as far as it may.
func set(which int, value uint64) {
	var l unix.Rlimit
	if unix.Getrlimit(which, &l) == nil {
		l.Cur = min(value, l.Max)
		unix.Setrlimit(which, &l)
	}
}
