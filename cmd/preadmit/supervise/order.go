package supervise

// An Order holds the instructions of a parent to a child besides the command line.
type Order struct {
	Magic   string
	Apart   []Apart // tasks that are not begun
	Careful bool    // do one task after the other, and journal each
	Fatal   string  // why the run failed: report that, and do nothing else
	Columns int     // of the terminal that standard output is; 0 for none
	Elapsed int64   // milliseconds of the run's time that earlier children took
}

// Magic is that of this version of the frames.
const Magic = "preadmit.child/v1"

// An Apart is a task that ended a child, or overran its limits.
type Apart struct{ Task, Why string }

// A Task is what is in flight in a child. Only a careful child journals its
// tasks: the message for each would cost all others time.
type Task struct {
	Number int
	Name   string // the same in each child for the same task
	// Narrowest says that there are no tasks within it.
	Narrowest bool
}

// By stands in a task's name before the engine whose part in it is meant. A task
// that begins with it is all that the engine does.
const By = " by "

// An Excess is what made a child stop.
type Excess struct {
	Tasks     []string
	Narrowest bool // there are no tasks within them
	Why       string
}
