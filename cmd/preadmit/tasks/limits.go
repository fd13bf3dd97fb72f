package tasks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/confine"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/report"
)

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
		missing = errors.Join(w.Unconfined, confine.DenyFiles(read, cache))
		confine.FileSize(cache != "")
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
