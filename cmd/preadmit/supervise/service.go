package supervise

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Service runs a command that answers questions in a child. If the child dies,
// the Service starts another one that leaves out the task at fault. The child can't
// replace files.
type Service struct {
	Died func(why string) // called when a child ends before it has answered; may be nil

	mu      sync.Mutex
	p       *parent
	c       *child // nil if none is running
	starts  int
	number  uint32
	waiting map[uint32]*question
	closed  bool
}

// A question is a request that the child has not answered yet.
type question struct {
	part bytes.Buffer // of the current message
	most int          // most bytes of a message
	news chan []byte
	done chan reply
}

type reply struct {
	answer []byte
	err    error
}

// A Question is a request to the child, with the limits of its answer.
type Question struct {
	Text  any           // sent as JSON
	Limit time.Duration // the child is ended after this time
	Most  int           // most bytes of a message; 0 means those of a frame
	News  func([]byte)  // gets the messages that come before the answer; while it is busy, others are dropped; may be nil
}

// An Ended is the error of Ask if the child ended the command without an
// answer, for example because of a wrong flag.
type Ended struct {
	Code int
	Text string // of standard error
}

func (e *Ended) Error() string { return strings.TrimPrefix(strings.TrimSpace(e.Text), "preadmit: ") }

var (
	errAgain  = errors.New("the process that was asked has ended")
	errClosed = errors.New("it is over")
)

// NewService returns a Service for a command line in a directory; "" is that of this process. stdin is
// the child's standard input. It fails if no child can be started.
func NewService(dir string, args []string, stdin []byte) (*Service, error) {
	if _, err := executable(); err != nil {
		return nil, err
	}
	if len(stdin) > maxFrame {
		return nil, fmt.Errorf("standard input has more than %d MiB: name a file instead", maxFrame>>20)
	}
	if stdin == nil {
		stdin = []byte{}
	}
	p := &parent{args: args, dir: dir, order: Order{Magic: Magic}, began: time.Now(), stdin: stdin, writesNothing: true}
	return &Service{p: p, waiting: make(map[uint32]*question)}, nil
}

// Ask sends a question to the child and returns the answer. If the child dies, Ask
// starts another one and asks again. If the child can't answer, the error holds its
// message.
func (s *Service) Ask(ctx context.Context, q Question) ([]byte, error) {
	text, err := json.Marshal(q.Text)
	if err != nil || len(text) > maxFrame-4 {
		return nil, errors.Join(err, errors.New("the request is too large"))
	}
	for {
		answer, err := s.askOnce(ctx, &q, text)
		if !errors.Is(err, errAgain) {
			return answer, err
		}
	}
}

func (s *Service) askOnce(ctx context.Context, q *Question, text []byte) ([]byte, error) {
	open := &question{most: max(q.Most, maxFrame), news: make(chan []byte, 4), done: make(chan reply, 1)}
	s.mu.Lock()
	c, err := s.running()
	s.number++
	number := s.number
	if err == nil {
		s.waiting[number] = open
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	defer func() {
		s.mu.Lock()
		delete(s.waiting, number)
		s.mu.Unlock()
	}()
	late := time.AfterFunc(q.Limit, func() { c.late.Store(true); c.kill() })
	defer late.Stop()
	go c.to.Send(Ask, append(binary.LittleEndian.AppendUint32(nil, number), text...)) // attend notices if it does not arrive
	for {
		select {
		case news := <-open.news:
			if q.News != nil {
				q.News(news)
			}
		case r := <-open.done:
			return r.answer, r.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close ends the child.
func (s *Service) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.c != nil {
		s.c.kill()
	}
}

// MayWrite reports whether the parent may write a file for the child: one in the
// repository, or one that the command line names.
func (s *Service) MayWrite(name string) bool {
	p := parent{args: s.p.args}
	return p.mayWrite(name)
}

// running returns the child, and starts it if needed.
func (s *Service) running() (*child, error) {
	switch {
	case s.closed:
		return nil, errClosed
	case s.c != nil:
		return s.c, nil
	}
	type started struct {
		c   *child
		err error
	}
	result := make(chan started)
	go func() {
		runtime.LockOSThread() // the child ends with its parent's thread
		defer runtime.UnlockOSThread()
		c, err := s.p.start()
		result <- started{c, err}
		if err == nil {
			s.attend(c)
		}
	}()
	r := <-result
	if r.err != nil {
		return nil, fmt.Errorf("can't start a child process: %w", r.err)
	}
	s.c, s.starts = r.c, s.starts+1
	return s.c, nil
}

// attend handles the child's frames until it ends.
func (s *Service) attend(c *child) {
	frames := make(chan received)
	go receive(c.stdout, frames)
	defer c.out.close()
	for f := range frames {
		s.mu.Lock()
		e, done := s.frame(c, f)
		s.mu.Unlock()
		if done {
			s.over(c, e)
			c.kill()
			for range frames { // drain until the reader ends
			}
			c.wait()
			return
		}
	}
	c.wait()
	why := c.causeOfDeath()
	if c.late.Load() {
		why = "it does not end"
	}
	s.over(c, c.ended(why))
}

// frame handles a frame. Frames other than those of answers are handled as for other commands.
func (s *Service) frame(c *child, f received) (ending, bool) {
	if f.err != nil || f.kind != Part && f.kind != News && f.kind != Answer && f.kind != Refusal {
		return s.p.frame(c, f)
	}
	if len(f.payload) < 4 {
		return c.ended("it sent an invalid message"), true
	}
	number := binary.LittleEndian.Uint32(f.payload)
	q := s.waiting[number]
	if q == nil {
		return ending{}, false // no request is waiting
	}
	if q.part.Len()+len(f.payload) > q.most {
		return c.ended("it sent more than an answer may have"), true
	}
	q.part.Write(f.payload[4:])
	if f.kind == Part {
		return ending{}, false
	}
	message := bytes.Clone(q.part.Bytes())
	q.part = bytes.Buffer{}
	switch {
	case f.kind == Answer:
		s.p.doubted = nil
		q.done <- reply{answer: message}
		delete(s.waiting, number)
	case f.kind == Refusal:
		q.done <- reply{err: errors.New(string(message))}
		delete(s.waiting, number)
	default:
		select {
		case q.news <- message:
		default: // dropped; more will come
		}
	}
	return ending{}, false
}

// over records how a child ended, and makes Ask repeat or fail the requests that it did not answer.
func (s *Service) over(c *child, e ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == c {
		s.c = nil
	}
	r := reply{err: errAgain}
	switch {
	case s.closed:
		r.err = errClosed
	case e.exited:
		var text strings.Builder
		c.out.print(&text, &text)
		r.err = &Ended{e.code, text.String()}
	case len(s.waiting) > 0:
		s.died(e)
		s.p.learn(e, s.starts)
		if s.p.order.Fatal != "" {
			r.err = fmt.Errorf("%s: no single unit, object or policy is the cause", s.p.order.Fatal)
			s.p.order.Fatal = ""
		}
	}
	for _, number := range sortedNumbers(s.waiting) {
		s.waiting[number].done <- r
		delete(s.waiting, number)
	}
}

func (s *Service) died(e ending) {
	if s.Died != nil {
		s.Died(e.inPhase())
	}
}

func sortedNumbers(waiting map[uint32]*question) []uint32 {
	var all []uint32
	for n := range waiting {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// CanServe reports whether the process is a program that can start itself as a
// child, rather than a test.
func CanServe() bool {
	return os.Args[0] != Marker && !strings.HasSuffix(strings.TrimSuffix(os.Args[0], ".exe"), ".test")
}
