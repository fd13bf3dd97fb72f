package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
)

// minTaskMemory is the least memory, in MiB, with which the program itself gets along.
const minTaskMemory = 160

// supervision are the flags that say what a child may take.
type supervision struct {
	taskMemory int
	taskTime   time.Duration
	sandbox    string
}

func (s *supervision) addFlags(f *pflag.FlagSet) {
	f.IntVar(&s.taskMemory, "task-memory", tasks.DefaultMemory, fmt.Sprintf("memory limit in `MIB` for rendering one unit or evaluating one object, at least %d; what needs more is an error, and the run goes on", minTaskMemory))
	f.DurationVar(&s.taskTime, "task-time", tasks.DefaultTime, "limit of processor time for one unit or object, `DURATION`; three times as long by the clock")
	f.StringVar(&s.sandbox, "sandbox", "auto", "on Linux, have the kernel deny connections, other programs, writing, and reading files that are not named, `MODE`: auto, require or off")
}

// check returns an error if no run can keep the limits.
func (s *supervision) check() error {
	switch {
	case s.taskMemory < minTaskMemory:
		return fmt.Errorf("--task-memory %d: %d MiB is the least that is useful, since evaluating any object takes that much", s.taskMemory, minTaskMemory)
	case s.taskTime <= 0:
		return fmt.Errorf("--task-time %s is no time to work in", s.taskTime)
	}
	return nil
}

// Begin sets the limits of tasks and confines the process to files below the
// directories given. The watch is nil without a parent.
func (s *supervision) begin(ctx context.Context, read []string, cache string, notes io.Writer) (*tasks.Watch, error) {
	w := tasks.Of(ctx)
	w.Allow(s.taskMemory, s.taskTime)
	return w, confineFiles(w, s.sandbox, read, cache, notes)
}
