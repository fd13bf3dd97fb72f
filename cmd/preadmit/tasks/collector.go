package tasks

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/preadmit/preadmit/cmd/preadmit/confine"
)

// collectAt is the memory that a process may use before its first garbage collection.
const collectAt = 96 << 20

// collectMore limits the size of a process if less than a quarter of its memory must be scanned,
// such as one that holds mostly text. Collections are cheap then. A process with more memory in use
// may exceed it by a quarter of that memory.
const collectMore = 512 << 20

// CollectLate turns off the garbage collector until the process uses collectAt bytes. A run over a
// small repository, or one that takes most results from the cache, ends before that.
func CollectLate() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(collectAt)
	sentinel := new(*int)
	runtime.AddCleanup(sentinel, func(int) {
		if debug.SetMemoryLimit(-1) == collectAt { // otherwise a collector has set other limits
			debug.SetGCPercent(100)
			debug.SetMemoryLimit(math.MaxInt64)
		}
	}, 0)
}

// Limits of garbage. A collection reads all memory in use, so a few large ones
// cost less than many small ones.
const (
	usual    = 320 << 20 // a smaller process is not collected
	moderate = 104 << 20 // a larger process may keep this much garbage,
	least    = 2         // or 1/least of the memory in use

	// In a process that uses less than small, collections are fast, and it may keep little bytes of
	// garbage. A larger one may also keep three times the memory used beyond small.
	small  = 30 << 20
	little = 48 << 20

	// A process that uses more than large has a long run, and collecting garbage would
	// take a third of its time. It may keep more garbage: four times the memory used beyond
	// large, up to ample.
	large = 192 << 20
	ample = 256 << 20

	// A process may keep some memory that is neither used nor garbage, such as gaps
	// between objects: apart, and the memory in use divided by between. Memory beyond
	// that goes back to the system. If the limits were lower, gaps would trigger more
	// collections than garbage does.
	apart   = 48 << 20
	between = 4
)

// A collector sets the limits of Go's garbage collector from the memory that is
// available and in use.
type collector struct {
	most    uint64 // bytes that the process may use; 0 if unknown
	fixed   bool   // the user has set GOGC
	percent int    // GC percentage last set, or 0
}

// newCollector reads the amount of memory, and leaves an eighth of it to the parent and the rest of
// the system.
func newCollector() collector {
	c := collector{most: confine.MachineMemory(), fixed: os.Getenv("GOGC") != ""}
	c.most -= c.most / 8
	if os.Getenv("GOMEMLIMIT") != "" {
		given := uint64(debug.SetMemoryLimit(-1))
		if c.most == 0 || given < c.most {
			c.most = given
		}
	}
	return c
}

// adjust sets the limits of the garbage collector for a process that may use limit bytes.
func (c *collector) adjust(now footprint, limit uint64) {
	soft := limit - limit/8
	if c.most > 0 {
		soft = min(soft, c.most)
	}
	if now.scanned < now.live/4 {
		soft = min(soft, max(collectMore, now.live+now.live/4))
	}
	if now.collected && !c.fixed {
		soft = min(soft, now.live+garbage(now.live)+apart+now.live/between)
	}
	if (now.collected || limit < collectAt) && debug.SetMemoryLimit(-1) != int64(soft) { // CollectLate controls the first collection
		debug.SetMemoryLimit(int64(soft))
	}
	if !now.collected || c.fixed {
		return
	}
	const step = 10 // percent: each change stops the program for a moment
	if p := int(garbage(now.live)*100/max(now.live, 1)) / step * step; p != c.percent {
		c.percent = p
		debug.SetGCPercent(p)
	}
}

// garbage returns how many bytes of garbage are allowed with live bytes in use.
func garbage(live uint64) uint64 {
	most := max(moderate, live/least, usual-min(usual, live+apart), min(ample, 4*(max(live, large)-large)))
	return min(most, little+3*(max(live, small)-small))
}

// Jobs returns the default number of processors to use.
func (w *Watch) Jobs(processors int) int { return jobsFor(processors, w.collector.most) }

// jobsFor returns the default number of jobs: one for each processor, or fewer
// if memory is short.
func jobsFor(processors int, memory uint64) int {
	const each = 192 << 20
	if memory == 0 {
		return processors
	}
	return max(1, min(processors, int(memory/each)))
}
