package supervise

import "slices"

// An Order holds the instructions of a parent to a child besides the command line.
type Order struct {
	Magic   string
	Apart   []Apart  // work to skip
	Careful bool     // do one task at a time, and report each to the parent
	Closely []string // engines for which each policy is a task
	Fatal   string   // why the run failed; the child only reports that
	Columns int      // width of the terminal on standard output; 0 without one
	Elapsed int64    // milliseconds that earlier children took
}

// Magic identifies this version of the protocol.
const Magic = "preadmit.child/v1"

// An Apart is work that is skipped because it ended a child or exceeded its limits. If Name is
// empty, it is skipped in all tasks.
type Apart struct {
	Work
	Why string
}

// A Work is a task, an engine's part of it, or the part of one policy of that engine.
type Work struct {
	Name   string // of the task, the same in each child
	Engine string `json:",omitempty"`
	Policy string `json:",omitempty"`
}

// Holds reports whether other is a proper part of the work.
func (w Work) Holds(other Work) bool {
	return w.Name == other.Name && w != other && (w.Engine == "" || w.Engine == other.Engine && w.Policy == "")
}

// WithoutWhole returns all without the work that contains other work in all.
func WithoutWhole(all []Work) []Work {
	return slices.DeleteFunc(slices.Clone(all), func(w Work) bool { return slices.ContainsFunc(all, w.Holds) })
}

// A Task is a running task of a child. Only a careful child reports every task, because the
// messages cost time.
type Task struct {
	Number int
	Work
	// Narrowest means that no other tasks run inside the task.
	Narrowest bool
}

// An Excess is the reason why a child stopped itself.
type Excess struct {
	Tasks     []Work
	Narrowest bool // no other tasks run inside them
	Why       string
}
