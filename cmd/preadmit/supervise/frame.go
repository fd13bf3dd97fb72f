package supervise

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
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

// An Expected is the number of tasks of a kind that a child will do.
type Expected struct {
	Task string // prefix of their names
	N    int
}

// Writing is the phase after all tasks, in which a child writes reports.
const Writing = "writing the report"

// Prefixes of the names of tasks.
const (
	RenderTask   = "render "
	EvaluateTask = "evaluate "
)

// Failures is used instead of a prefix for the number of failures found so far.
const Failures = "failures"

const (
	drawEvery = 100 * time.Millisecond
	quietFor  = 700 * time.Millisecond // a run that is faster shows nothing
	longTask  = 3 * time.Second        // a task that takes longer is named
)

// A progress shows a child's progress on one line of a terminal. The line is overwritten, and
// removed at the end. A nil *progress draws nothing.
type progress struct {
	to      io.Writer
	columns func() int
	began   time.Time
	shown   int // width of the line on the screen

	done, expected map[string]int
	tasks          map[int]started // in flight
	counted        bool            // the child reports the number of finished tasks
}

type started struct {
	name string
	at   time.Time
}

// newProgress returns nil if standard error is not a terminal whose lines can
// be overwritten, or with --quiet.
func newProgress(args []string, began time.Time) *progress {
	if columns(os.Stderr) == 0 || os.Getenv("TERM") == "dumb" || slices.Contains(args, "-q") || slices.Contains(args, "--quiet") {
		return nil
	}
	return &progress{to: os.Stderr, columns: func() int { return columns(os.Stderr) }, began: began}
}

// restart drops the counts of an earlier child.
func (p *progress) restart() {
	if p != nil {
		p.done, p.expected, p.tasks, p.counted = make(map[string]int), make(map[string]int), make(map[int]started), false
	}
}

func (p *progress) begin(t Task, now time.Time) {
	if p != nil && t.Engine == "" { // otherwise it is a part of another task
		p.tasks[t.Number] = started{t.Name, now}
	}
}

func (p *progress) end(number int) {
	if p == nil {
		return
	}
	for _, kind := range []string{RenderTask, EvaluateTask} {
		if name := p.tasks[number].name; !p.counted && strings.HasPrefix(name, kind) {
			p.done[kind]++
		}
	}
	delete(p.tasks, number)
}

func (p *progress) expect(x Expected) {
	if p != nil {
		p.expected[x.Task] += x.N
	}
}

func (p *progress) finished(x Expected) {
	if p != nil {
		p.done[x.Task], p.counted = x.N, true
	}
}

// line returns the text of the line.
func (p *progress) line(phase string, now time.Time) string {
	text := cmp.Or(printable(phase), "starting")
	switch phase {
	case "rendering":
		text = fmt.Sprintf("rendering: %d units", p.done[RenderTask])
		if n := p.expected[RenderTask]; n > p.done[RenderTask] {
			text += fmt.Sprintf(" of at least %d", n)
		}
	case "evaluating":
		text = fmt.Sprintf("evaluating: %d objects", p.done[EvaluateTask])
		if n := p.expected[EvaluateTask]; n >= p.done[EvaluateTask] && n > 0 {
			text = fmt.Sprintf("evaluating: %d of %d objects", p.done[EvaluateTask], n)
		}
		if n := p.done[Failures]; n > 0 {
			text += fmt.Sprintf(", failures so far: %d", n)
		}
	}
	text += fmt.Sprintf(", %d s", int(now.Sub(p.began).Seconds()))
	var oldest started
	for _, t := range p.tasks {
		if oldest.name == "" || t.at.Before(oldest.at) || t.at.Equal(oldest.at) && t.name < oldest.name {
			oldest = t
		}
	}
	if oldest.name != "" && now.Sub(oldest.at) >= longTask {
		text += fmt.Sprintf("; for %d s: %s", int(now.Sub(oldest.at).Seconds()), printable(oldest.name))
	}
	return text
}

// draw overwrites the line, cut to the terminal's width.
func (p *progress) draw(phase string, now time.Time) {
	if p == nil || now.Sub(p.began) < quietFor {
		return
	}
	text := p.line(phase, now)
	room := p.columns() - 1
	if room < 1 {
		room = 79 // the terminal does not report its width
	}
	text = text[:min(len(text), room)]
	fmt.Fprintf(p.to, "\r%s%s", text, strings.Repeat(" ", max(0, min(p.shown, room)-len(text))))
	p.shown = len(text)
}

// clear removes the line.
func (p *progress) clear() {
	if p != nil && p.shown > 0 {
		fmt.Fprintf(p.to, "\r%s\r", strings.Repeat(" ", p.shown))
		p.shown = 0
	}
}

// ticks returns a channel that receives when to draw, or nil if nothing is drawn.
func (p *progress) ticks() (ticks <-chan time.Time, stop func()) {
	if p == nil {
		return nil, func() {}
	}
	t := time.NewTicker(drawEvery)
	return t.C, t.Stop
}

// printable replaces control characters and everything that is not ASCII,
// because names come from the repository.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
