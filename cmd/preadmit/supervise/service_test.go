package supervise

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"
)

// answering is a service whose child is there, and a question to it.
func answering(most int) (*Service, *child, *question) {
	p := &parent{order: Order{Magic: Magic}, stdin: []byte{}, writesNothing: true}
	c := &child{to: NewPipe(&bytes.Buffer{}), flying: make(map[int]Task)}
	q := &question{most: most, news: make(chan []byte, 1), done: make(chan reply, 1)}
	return &Service{p: p, c: c, waiting: map[uint32]*question{7: q}}, c, q
}

func message(k Kind, number uint32, text string) received {
	return received{kind: k, payload: append(binary.LittleEndian.AppendUint32(nil, number), text...)}
}

// TestAnswersInParts holds that messages are put together from their parts, and that
// no child can send more than was asked for, or answer what was not asked.
func TestAnswersInParts(t *testing.T) {
	t.Parallel()
	s, c, q := answering(100)
	for _, f := range []received{
		message(Part, 7, "half "), message(News, 7, "done"), message(News, 7, "dropped: nobody took the last"),
		message(Answer, 8, "not asked"), message(Part, 7, "the "), message(Answer, 7, "answer"), message(Answer, 7, "again"),
	} {
		if e, done := s.frame(c, f); done {
			t.Fatalf("%c: %+v", f.kind, e)
		}
	}
	if got := string(<-q.news); got != "half done" {
		t.Errorf("news %q", got)
	}
	if r := <-q.done; string(r.answer) != "the answer" || r.err != nil || len(s.waiting) != 0 {
		t.Errorf("%q %v, %d wait", r.answer, r.err, len(s.waiting))
	}

	s, c, q = answering(100)
	s.frame(c, message(Refusal, 7, "no such file"))
	if r := <-q.done; r.err == nil || r.err.Error() != "no such file" {
		t.Errorf("%v", r.err)
	}

	for why, frames := range map[string][]received{
		"more than an answer may have": {message(Part, 7, strings.Repeat("x", 60)), message(Part, 7, strings.Repeat("x", 60))},
		"invalid message":              {{kind: Answer, payload: []byte("x")}},
	} {
		s, c, _ := answering(100)
		var e ending
		done := false
		for _, f := range frames {
			e, done = s.frame(c, f)
		}
		if !done || !strings.Contains(e.why, why) {
			t.Errorf("%s: %v %+v", why, done, e)
		}
	}
}

// TestQuestionsOfEndedChild holds what becomes of questions whose child ends.
func TestQuestionsOfEndedChild(t *testing.T) {
	t.Parallel()
	unit := Task{Number: 1, Work: Work{Name: "render a"}, Narrowest: true}
	s, c, q := answering(0)
	s.over(c, ending{why: "takes too long", overran: []Work{unit.Work}, narrowest: true})
	if r := <-q.done; !errors.Is(r.err, errAgain) || s.c != nil || len(s.p.order.Apart) != 1 {
		t.Errorf("%v, apart %v", r.err, s.p.order.Apart)
	}
	s, c, q = answering(100)
	s.p.order.Careful = true
	s.over(c, ending{why: killed, phase: "evaluating"})
	if r := <-q.done; !errors.Is(r.err, errAgain) { // it may be an accident
		t.Errorf("killed once: %v", r.err)
	}
	s.waiting[7] = q
	s.frame(c, message(Answer, 7, "answer"))
	if r := <-q.done; r.err != nil {
		t.Errorf("answered: %v", r.err)
	}
	s.waiting[7] = q
	s.over(c, ending{why: killed, phase: "evaluating"})
	if r := <-q.done; !errors.Is(r.err, errAgain) {
		t.Errorf("killed after an answer: %v", r.err)
	}
	s.waiting[7] = q
	s.over(c, ending{why: killed, phase: "evaluating"}) // nobody knows why
	if r := <-q.done; r.err == nil || errors.Is(r.err, errAgain) || !strings.Contains(r.err.Error(), "evaluating: "+killed) || s.p.order.Fatal != "" {
		t.Errorf("%v, fatal %q", r.err, s.p.order.Fatal)
	}
	s, c, q = answering(0)
	c.out.add(Stderr, []byte("preadmit: apps: no such file\n"))
	s.over(c, ending{exited: true, code: 2})
	var ended *Ended
	if r := <-q.done; !errors.As(r.err, &ended) || ended.Code != 2 || ended.Error() != "apps: no such file" {
		t.Errorf("%v", r.err)
	}
	s, c, q = answering(0)
	s.closed = true
	s.over(c, ending{why: killed})
	if r := <-q.done; !errors.Is(r.err, errClosed) {
		t.Errorf("%v", r.err)
	}
	if _, err := s.Ask(context.Background(), Question{Limit: time.Second}); !errors.Is(err, errClosed) {
		t.Errorf("%v", err)
	}
}

// TestServiceWritesNothing holds that a child has no file replaced.
func TestServiceWritesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	s, c, _ := answering(0)
	s.frame(c, received{kind: Create, payload: []byte("report.json")})
	s.frame(c, received{kind: Data, payload: []byte("x")})
	if c.file != nil {
		t.Error("a file is begun")
	}
}
