package confine

import (
	"time"

	"golang.org/x/sys/unix"
)

// NoCore disables core files. The number of processes is not limited, because RLIMIT_NPROC counts
// all processes and threads of the user, and root may exceed it. The sandbox denies starting any
// process.
func NoCore() { set(unix.RLIMIT_CORE, 0) }

// FileSize limits the size of files that the process writes, to 0 without a cache.
func FileSize(cache bool) {
	most := uint64(0)
	if cache {
		most = 1 << 30
	}
	set(unix.RLIMIT_FSIZE, most)
}

// CPU limits the processor time of the process.
func CPU(d time.Duration) { set(unix.RLIMIT_CPU, uint64(d/time.Second)+1) }

// Memory limits the memory of the process. RLIMIT_DATA counts all private pages that may be
// written, which is everything that Go allocates. RLIMIT_AS would also count what is only reserved
// or mapped for reading, which takes no memory: Go reserves 1.2 GiB when it starts and more with
// the heap, and the race detector terabytes. A limit above that would stop nothing that RLIMIT_DATA
// does not stop.
func Memory(bytes uint64) { set(unix.RLIMIT_DATA, bytes) }

// set sets a limit, to at most its hard limit.
func set(which int, value uint64) {
	var l unix.Rlimit
	if unix.Getrlimit(which, &l) == nil {
		l.Cur = min(value, l.Max)
		unix.Setrlimit(which, &l)
	}
}
