package tasks

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/preadmit/preadmit/cmd/preadmit/confine"
)

// collectAt is the memory that a process may use before its first collection.
const collectAt = 80 << 20

// collectMore is the size of the process from which on garbage may be a quarter of
// what is in use, rather than as much as that, if three quarters of it are text,
// which costs a collection nothing.
const collectMore = 512 << 20

// CollectLate has the garbage collector wait until there is something to collect. A
// run over a small repository, or one that takes most results from the cache, ends
// before. From then on the collector works as usual.
func CollectLate() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(collectAt)
	sentinel := new(*int)
	runtime.AddCleanup(sentinel, func(int) {
		if debug.SetMemoryLimit(-1) == collectAt { // else a collector has set its limits
			debug.SetGCPercent(100)
			debug.SetMemoryLimit(math.MaxInt64)
		}
	}, 0)
}

// Limits of garbage. A collection reads all memory in use, so a few large ones
// cost less than many small ones.
const (
	usual    = 272 << 20 // a process of this size is no reason to collect
	moderate = 104 << 20 // nor is as much garbage as this, in a larger one,
	least    = 2         // or as the part of what is in use that this divides

	// A process that uses less than small has a short collection, and may keep little
	// garbage. A larger one may keep three times the memory used beyond small as well.
	small  = 30 << 20
	little = 48 << 20

	// A process that uses more than large has a long run, and collecting garbage would
	// take a third of its time. It may keep more garbage: twice the memory used beyond
	// large, up to ample.
	large = 192 << 20
	ample = 384 << 20

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
	most    uint64 // bytes that the process may take, 0 if unknown
	fixed   bool   // the user has set GOGC
	percent int    // percentage that is set, or 0
}

// newCollector reads how much memory there is, and leaves a part of it to the
// parent and the rest of the system.
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

// adjust sets the limits of the garbage collector for a process that may take
// limit bytes.
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
	if (now.collected || limit < collectAt) && debug.SetMemoryLimit(-1) != int64(soft) { // before that, CollectLate has its way
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
	most := max(moderate, live/least, usual-min(usual, live+apart), min(ample, 2*(max(live, large)-large)))
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
