package main

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
)

// collectAt is how much memory there is to be before it is worth collecting.
const collectAt = 192 << 20

// collectMore is the size of the process from which on garbage may be a quarter of
// what is in use, rather than as much as that, if three quarters of it are text,
// which costs a collection nothing.
const collectMore = 512 << 20

// collectLate has the garbage collector wait until there is something to
// collect: a run over a repository of usual size, or one that recalls most of
// it, ends before. From then on it works as ever.
func collectLate() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(collectAt)
	sentinel := new(*int)
	runtime.AddCleanup(sentinel, func(int) {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
	}, 0)
}
