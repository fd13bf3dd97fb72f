package supervise

// An Order holds the instructions of a parent to a child besides the command line.
type Order struct {
	Magic   string
	Apart   []Apart // tasks that are not begun
	Careful bool    // do one task after the other, and journal each
	Fatal   string  // why the run failed; the child only reports that
	Columns int     // of the terminal that standard output is; 0 for none
	Elapsed int64   // milliseconds of the run's time that earlier children took
}

// Magic identifies this version of the protocol.
const Magic = "preadmit.child/v1"

// An Apart is a task that is skipped, because it ended a child or exceeded its
// limits.
type Apart struct{ Task, Why string }

// A Task is a task in flight in a child. Only a careful child journals every
// task, because a message for each costs time.
type Task struct {
	Number int
	Name   string // the same in each child for the same task
	// Narrowest means that no other tasks run inside the task.
	Narrowest bool
}

// By separates a task's name from the name of an engine that works on it. A
// task whose name begins with By is everything that the engine does.
const By = " by "

// An Excess is the reason why a child stopped itself.
type Excess struct {
	Tasks     []string
	Narrowest bool // no other tasks run inside them
	Why       string
}
