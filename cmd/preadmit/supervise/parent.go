package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	maxApart    = 3               // tasks in which a policy or engine is skipped before it is skipped in all
	maxChildren = 40              // of one run
	maxStdin    = 10<<20 + 1      // the most that a child reads
	grace       = 8 * time.Second // beyond the run's time, for the report
	oneSignal   = time.Second     // timeout(1) sends its signal to the process and to the group
	exitBroken  = 3               // something could not be rendered, compiled or decided
	exitSignal  = 130             // SIGINT
)

// A parent runs children until one ends well.
type parent struct {
	args  []string
	dir   string // working directory of the child; "" is that of this process
	order Order
	began time.Time
	until time.Time // end of the run's time; zero until a child sends it
	stdin []byte
	// doubted is the task that ran when a careful child was killed, which the system may
	// have done: the zero Work if no single task is known. It is nil if none was killed since
	// the last answer of a [Service].
	doubted *Work
	signals chan os.Signal
	ending  bool // SIGTERM was received

	writesNothing bool // the parent replaces no files for the child

	progress *progress // nil without a terminal
}

func newParent(args []string) (*parent, error) {
	if _, err := executable(); err != nil {
		return nil, err
	}
	p := &parent{args: args, order: Order{Magic: Magic, Columns: columns(os.Stdout)}, began: time.Now(), signals: make(chan os.Signal, 4)}
	p.progress = newProgress(args, p.began)
	signal.Notify(p.signals, os.Interrupt, syscall.SIGTERM)
	IgnorePipe()
	return p, nil
}

// run returns the exit code.
func (p *parent) run() int {
	for n := 1; ; n++ {
		p.order.Elapsed = time.Since(p.began).Milliseconds()
		c, err := p.start()
		if err != nil {
			fmt.Fprintf(os.Stderr, "preadmit: can't start a child process: %v\n", err)
			return exitBroken
		}
		end := p.attend(c)
		switch {
		case end.interrupted:
			fmt.Fprintln(os.Stderr, "preadmit: interrupted")
			return exitSignal
		case end.exited:
			defer c.out.close()
			return p.finish(c, end.code)
		case p.order.Fatal != "": // the child that should have reported it ended too
			fmt.Fprintf(os.Stderr, "preadmit: %s, and no report could be written\n", p.order.Fatal)
			return exitBroken
		}
		c.out.close()
		p.learn(end, n)
	}
}

// finish writes a child's output.
func (p *parent) finish(c *child, code int) int {
	err := c.out.print(os.Stdout, os.Stderr)
	if err == nil || errors.Is(err, BrokenPipe) {
		return code // a reader that ends early is no error
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	fmt.Fprintf(os.Stderr, "preadmit: standard output: not written: %v\n", err)
	return exitBroken
}

// An ending is how a child ended.
type ending struct {
	exited      bool
	code        int
	interrupted bool
	why         string // if it did not exit
	inFlight    []Task
	overran     []Work // tasks that exceeded their limits
	narrowest   bool   // overran contains no tasks with other tasks inside
	phase       string
}

// learn decides what the next child does differently. The first child is fast and does not report
// its tasks, so a careful one must find the task that ended it, unless the first child reported
// that a task with no others inside exceeded its limits.
func (p *parent) learn(e ending, n int) {
	over := n >= maxChildren || p.ending || !p.until.IsZero() && time.Now().After(p.until)
	suspects := e.suspects()
	var suspect Work
	if len(suspects) == 1 {
		suspect = suspects[0]
	}
	switch {
	case over:
		p.order.Fatal = e.inPhase()
	case len(suspects) == 1 && p.closer(suspects[0]): // the next child watches each of its policies
	case len(suspects) == 1 && e.isNarrowest(suspects[0]):
		p.setApart(suspects[0], e.why)
	case !p.order.Careful:
		p.order.Careful = true
	case e.why == killed && (p.doubted == nil || *p.doubted != suspect):
		p.doubted = &suspect // the system may have killed it for another reason
	case len(suspects) != 1:
		p.order.Fatal = e.inPhase()
	default:
		p.setApart(suspects[0], e.why)
	}
}

// inPhase returns why a child ended, with the phase it was in.
func (e *ending) inPhase() string {
	if e.phase == "" {
		return e.why
	}
	return e.phase + ": " + e.why
}

// closer makes later children watch each policy of the engine that ended a child. It returns false
// if they do so already, or if w is no engine's work.
func (p *parent) closer(w Work) bool {
	if w.Engine == "" || w.Policy != "" || slices.Contains(p.order.Closely, w.Engine) {
		return false
	}
	p.order.Closely = append(p.order.Closely, w.Engine)
	return true
}

// setApart lets later children skip work. A policy or an engine that is skipped in maxApart tasks
// is skipped in all, because then it is the cause rather than an object. If maxApart policies of an
// engine are skipped in one task, so is the engine, and if many are, it is skipped in all tasks.
// This limits the number of children.
func (p *parent) setApart(w Work, why string) {
	p.order.Apart = append(p.order.Apart, Apart{w, why})
	engine := Work{Name: w.Name, Engine: w.Engine}
	switch {
	case w.Name == "" || w.Engine == "":
	case p.countApart(func(a Work) bool { return a.Engine == w.Engine }) >= 4*maxApart:
		p.setApart(Work{Engine: w.Engine}, why)
	case p.countApart(func(a Work) bool { return a.Engine == w.Engine && a.Policy == w.Policy }) >= maxApart:
		p.setApart(Work{Engine: w.Engine, Policy: w.Policy}, why)
	case w.Policy != "" && p.countApart(engine.Holds) >= maxApart:
		p.setApart(engine, why)
	}
}

// countApart counts the work skipped in single tasks for which is returns true.
func (p *parent) countApart(is func(Work) bool) int {
	n := 0
	for _, a := range p.order.Apart {
		if a.Name != "" && is(a.Work) {
			n++
		}
	}
	return n
}

// suspects returns the tasks that may have ended a child, preferably those with no
// others inside.
func (e *ending) suspects() []Work {
	if len(e.overran) > 0 {
		return WithoutWhole(e.overran)
	}
	var narrowest, all []Work
	for _, t := range e.inFlight {
		if all = append(all, t.Work); t.Narrowest {
			narrowest = append(narrowest, t.Work)
		}
	}
	if len(narrowest) > 0 {
		return narrowest
	}
	return WithoutWhole(all)
}

// isNarrowest reports whether the task that ended a child has no others inside.
func (e *ending) isNarrowest(w Work) bool {
	return slices.Contains(e.overran, w) && (e.narrowest || w.Engine != "")
}

// A child is a running child process.
type child struct {
	*process
	to     *Pipe
	out    spool
	file   *file
	flying map[int]Task
	phase  string
	began  time.Time
	wrote  time.Time   // when it last sent output or a phase
	late   atomic.Bool // it was ended because it took too long
}

func (p *parent) start() (*child, error) {
	proc, err := startProcess(p.args, p.dir)
	if err != nil {
		return nil, err
	}
	c := &child{process: proc, to: NewPipe(proc.stdin), flying: make(map[int]Task), began: time.Now()}
	order, err := json.Marshal(p.order)
	if err != nil {
		c.kill()
		c.wait()
		return nil, err
	}
	_ = c.to.Send(Hello, order) // attend notices if the child has ended already
	return c, nil
}

// attend handles a child's frames until it ends.
func (p *parent) attend(c *child) ending {
	frames := make(chan received)
	go receive(c.stdout, frames)
	defer c.file.drop()
	defer c.wait()
	defer c.kill()
	over := time.NewTimer(time.Hour)
	defer over.Stop()
	p.progress.restart()
	defer p.progress.clear()
	ticks, stop := p.progress.ticks()
	defer stop()
	for {
		if !p.until.IsZero() {
			over.Reset(time.Until(p.until) + p.toReport(c))
		}
		select {
		case f, more := <-frames:
			if !more {
				return c.ended(c.causeOfDeath())
			}
			if e, done := p.frame(c, f); done {
				return e
			}
		case s := <-p.signals:
			switch {
			case s == os.Interrupt || p.ending && time.Since(p.until) > oneSignal:
				return ending{interrupted: true}
			case !p.ending:
				p.ending, p.until = true, time.Now()
				c.to.Send(Terminate, nil)
			}
		case now := <-ticks:
			p.progress.draw(c.phase, now)
		case <-over.C:
			return c.ended("the run's time is over, and it did not stop")
		}
	}
}

// toReport returns how long after the end of the run's time a child may take. A
// child that writes its report may take as long as it keeps sending parts of it.
func (p *parent) toReport(c *child) time.Duration {
	const pause = time.Minute
	switch {
	case p.order.Fatal != "":
		return max(0, c.began.Sub(p.until)) + grace
	case c.phase == Writing:
		return max(0, c.wrote.Sub(p.until)) + pause
	}
	return grace
}

type received struct {
	kind    Kind
	payload []byte
	err     error
}

func receive(from io.Reader, to chan<- received) {
	defer close(to)
	var rooms [2][]byte // buffers for the current frame and the next
	for r, i := NewReader(from), 0; ; i = 1 - i {
		k, payload, err := r.nextIn(rooms[i])
		if cap(payload) <= maxRoom {
			rooms[i] = payload
		}
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, os.ErrClosed) {
			return
		}
		to <- received{k, payload, err}
		if err != nil || k == Exit {
			return
		}
	}
}

// frame handles a frame. done reports that the child has ended.
func (p *parent) frame(c *child, f received) (e ending, done bool) {
	if f.err != nil {
		return c.ended("it sent an invalid message"), true
	}
	switch f.kind {
	case Stdout, Stderr, Data, Phase:
		c.wrote = time.Now()
	}
	switch f.kind {
	case Stdout, Stderr:
		c.out.add(f.kind, f.payload)
	case Begin:
		var t Task
		if json.Unmarshal(f.payload, &t) == nil {
			c.flying[t.Number] = t
			p.progress.begin(t, time.Now())
		}
	case End:
		var n int
		if json.Unmarshal(f.payload, &n) == nil {
			delete(c.flying, n)
			p.progress.end(n)
		}
	case Expect:
		var x Expected
		if json.Unmarshal(f.payload, &x) == nil {
			p.progress.expect(x)
		}
	case Done:
		var x Expected
		if json.Unmarshal(f.payload, &x) == nil {
			p.progress.finished(x)
		}
	case Phase:
		c.phase = string(f.payload)
	case Until:
		var ms int64
		if json.Unmarshal(f.payload, &ms) == nil && !p.ending {
			p.until = p.began.Add(time.Duration(min(ms, 1<<40)) * time.Millisecond)
		}
	case Create:
		c.file.drop()
		if c.file = nil; !p.writesNothing && p.mayWrite(string(f.payload)) {
			c.file = createFile(string(f.payload))
		}
	case Data:
		if c.file != nil {
			c.file.Write(f.payload)
		}
	case Commit:
		c.to.Send(Written, []byte(c.commit()))
	case AskIn:
		if p.stdin == nil {
			p.stdin, _ = io.ReadAll(io.LimitReader(os.Stdin, maxStdin))
		}
		c.to.Send(Stdin, p.stdin)
	case Overrun:
		var x Excess
		if json.Unmarshal(f.payload, &x) != nil {
			return c.ended("it sent an invalid message"), true
		}
		e := c.ended(x.Why)
		e.overran, e.narrowest = x.Tasks, x.Narrowest
		return e, true
	case Exit:
		if len(f.payload) != 1 {
			return c.ended("it sent an invalid message"), true
		}
		return ending{exited: true, code: int(f.payload[0])}, true
	}
	return ending{}, false
}

// commit replaces the file. It returns the reason if it can't, or "".
func (c *child) commit() string {
	f := c.file
	c.file = nil
	if f == nil {
		return "is neither named on the command line nor in the repository"
	}
	err := f.commit()
	if err == nil {
		return ""
	}
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}

func (c *child) ended(why string) ending {
	e := ending{why: why, phase: c.phase}
	for _, t := range c.flying {
		e.inFlight = append(e.inFlight, t)
	}
	slices.SortFunc(e.inFlight, func(a, b Task) int { return a.Number - b.Number })
	return e
}

// causeOfDeath describes how a process ended without a message.
func (c *child) causeOfDeath() string {
	c.wait()
	text := c.stderr.String()
	for _, cause := range []struct{ sign, words string }{
		{"stack exceeds", "recurses without end"},
		{"stack overflow", "recurses without end"},
		{"out of memory", OutOfMemory},
		{"cannot allocate memory", OutOfMemory},
		{"failed to create new OS thread", OutOfMemory}, // no memory for its stack
		{"runtime.(*spanQueue).", OutOfMemory},          // Go 1.26's collector does not check whether it got memory for its queue
	} {
		if strings.Contains(text, cause.sign) {
			return cause.words
		}
	}
	if _, trace, ok := strings.Cut(text, "panic: "); ok {
		return internalError(trace)
	}
	return killed
}

// internalError describes a panic by the first function of this program in the trace. It uses no
// regular expression: package regexp, and what waits for it, would be initialized before the parent
// runs.
func internalError(trace string) string {
	const (
		words = "fails by an internal error"
		own   = "github.com/preadmit/preadmit/"
		names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.*()"
	)
	for line := range strings.Lines(trace) {
		call, ok := strings.CutPrefix(line, own)
		arguments := strings.LastIndexByte(call, '(')
		if !ok || arguments < 0 {
			continue
		}
		if name := strings.TrimSuffix(call[:arguments], "[...]"); strings.Trim(name, names) == "" && strings.Contains(name, ".") {
			return words + ", in " + name + ": please report it"
		}
	}
	return words + ": please report it"
}

// killed is the reason given for a task that ended its process without an error message.
const killed = "ends the process that does it"

// OutOfMemory is the reason for skipping a task that needs more memory than
// allowed.
const OutOfMemory = "needs too much memory"
