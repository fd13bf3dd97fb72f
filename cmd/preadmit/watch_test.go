package main

import (
	"io"
	"testing"

	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
)

// TestResultsAreNoTask holds that what a run keeps between tasks may take more
// than a single task: 20,000 objects have results of a gigabyte.
func TestResultsAreNoTask(t *testing.T) {
	w := newWatch(supervise.NewPipe(io.Discard), supervise.Order{})
	w.allow(100, defaultTaskTime)
	w.floor = footprint{live: 50 << 20}
	if got, want := w.limit(), uint64(450<<20); got != want {
		t.Errorf("between tasks a run may have %d MiB, want %d", got>>20, want>>20)
	}
	w.now = footprint{live: 400 << 20}
	_, done, err := w.start("one", true)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if got, want := w.limit(), uint64(500<<20); got != want {
		t.Errorf("with a task a run may have %d MiB, want %d", got>>20, want>>20)
	}
}
