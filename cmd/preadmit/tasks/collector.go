package tasks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/confine"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/report"
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

// MinMemory is the least memory, in MiB, that the program itself needs.
const MinMemory = 160

// SandboxModes lists the values of Limits.Sandbox.
var SandboxModes = []string{"auto", "require", "off"}

// Limits are a child's limits, and its sandbox mode.
type Limits struct {
	Memory  int // of a task, in MiB
	Time    time.Duration
	Sandbox string
}

// Check returns an error if the limits are too low for any run.
func (l *Limits) Check() error {
	switch {
	case l.Memory < MinMemory:
		return fmt.Errorf("--task-memory %d: %d MiB is the least that is useful, since evaluating any object takes that much", l.Memory, MinMemory)
	case l.Time <= 0:
		return fmt.Errorf("--task-time %s: must be longer than 0", l.Time)
	}
	return nil
}

// Begin sets the limits of tasks and confines the process to files below the
// directories given. The watch is nil without a parent.
func (l *Limits) Begin(ctx context.Context, read []string, cache string, notes io.Writer) (*Watch, error) {
	w := Of(ctx)
	w.Allow(l.Memory, l.Time)
	return w, w.ConfineFiles(l.Sandbox, read, cache, notes)
}

// ConfineCalls makes the kernel deny system calls that evaluation does not
// need. It is called before flags are parsed and before anything of the
// repository is read.
func (w *Watch) ConfineCalls(args []string) {
	off := slices.Contains(args, "--sandbox=off")
	for i := range args {
		off = off || args[i] == "--sandbox" && i+1 < len(args) && args[i+1] == "off"
	}
	if !off {
		w.Unconfined = confine.DenyCalls()
	}
}

// ConfineFiles makes the kernel deny reading outside the given directories, and
// writing outside the cache. With -v missing parts of the sandbox are logged.
// With --sandbox=require they are errors.
func (w *Watch) ConfineFiles(mode string, read []string, cache string, notes io.Writer) error {
	if mode == "off" {
		return nil
	}
	missing := errors.New("this command has no child process")
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if files := fmt.Sprintf("%q %q", read, cache); files != w.confined { // the kernel limits how often a process can be confined
			w.confined, w.unconfined = files, confine.DenyFiles(read, cache)
			confine.FileSize(cache != "")
		}
		missing = errors.Join(w.Unconfined, w.unconfined)
	}
	switch {
	case missing == nil:
		return nil
	case mode == "require":
		return &supervise.Incomplete{Err: fmt.Errorf("--sandbox require: %s", report.Plain(missing.Error()))}
	case notes != nil && w != nil:
		fmt.Fprintf(notes, "sandbox: %s\n", report.Plain(missing.Error()))
	}
	return nil
}
