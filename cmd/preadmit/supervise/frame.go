package supervise

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"
)

// A Kind is the kind of a frame.
type Kind byte

// The frames of a child.
const (
	Stdout  Kind = 'o' // bytes for standard output
	Stderr  Kind = 'e' // bytes for standard error
	Create  Kind = 'f' // the name of a file to replace; its Data follows
	Data    Kind = 'd'
	Commit  Kind = 'c' // the file is complete; the response is Written
	AskIn   Kind = 'n' // requests standard input; the response is Stdin
	Begin   Kind = 'b' // a Task is in flight
	End     Kind = 'z' // the number of a finished task
	Phase   Kind = 'p' // the phase of the run between tasks
	Until   Kind = 't' // the run's time limit in milliseconds from the start of the first child
	Overrun Kind = 'w' // an Excess; the child then waits to be ended
	Expect  Kind = 'q' // an Expected number of tasks
	Done    Kind = 'g' // an Expected with the number of finished tasks
	Exit    Kind = 'x' // one byte, the exit code; nothing follows

	// Each of these contains the number of a question in four bytes, and a part of a message.
	Part    Kind = 'm' // more follows
	News    Kind = 'l' // the last part of a message before the answer
	Answer  Kind = 'a' // the last part of the answer
	Refusal Kind = 'y' // the last part of an error instead of an answer
)

// The frames of a parent.
const (
	Hello     Kind = 'H' // an Order; the first frame
	Written   Kind = 'r' // the error of writing a file, or empty
	Stdin     Kind = 'i' // all of standard input
	Terminate Kind = 'T' // end with a report of the results so far
	Ask       Kind = 'A' // a number, of four bytes, and a question
)

// maxFrame limits a frame. Frames of a child can't be trusted, because its input may be hostile.
const maxFrame = 64 << 20

// maxRoom limits the buffer that is reused for the next frame.
const maxRoom = 2 << 20

// A Pipe sends frames. It is safe for concurrent use.
type Pipe struct {
	mu   sync.Mutex
	w    io.Writer
	room []byte // buffer for a frame
}

// NewPipe returns a Pipe that sends to w.
func NewPipe(w io.Writer) *Pipe { return &Pipe{w: w} }

// Send sends a frame. Output and file data that are long are split into several frames.
func (p *Pipe) Send(k Kind, payload []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	const most = 1 << 20
	for {
		part := payload[:min(len(payload), most)]
		if k != Stdout && k != Stderr && k != Data {
			part = payload
		}
		p.room = binary.LittleEndian.AppendUint32(append(p.room[:0], byte(k)), uint32(len(part)))
		p.room = append(p.room, part...)
		if _, err := p.w.Write(p.room); err != nil {
			return err
		}
		if cap(p.room) > maxRoom {
			p.room = nil
		}
		if payload = payload[len(part):]; len(payload) == 0 {
			return nil
		}
	}
}

// A Reader reads frames.
type Reader struct{ r *bufio.Reader }

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next frame.
func (r *Reader) Next() (Kind, []byte, error) { return r.nextIn(nil) }

// nextIn is Next with a buffer for the payload, which is used if it is large enough.
func (r *Reader) nextIn(room []byte) (Kind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("a message of %d bytes", n)
	}
	payload := slices.Grow(room[:0], int(n))[:n]
	_, err := io.ReadFull(r.r, payload)
	return Kind(head[0]), payload, err
}

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
