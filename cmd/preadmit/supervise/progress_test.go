package supervise

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestProgress is what a terminal shows of a run, and that nothing is left of it.
func TestProgress(t *testing.T) {
	t.Parallel()
	began := time.Now()
	after := func(d time.Duration) time.Time { return began.Add(d) }
	var screen bytes.Buffer
	p := &progress{to: &screen, columns: func() int { return 40 }, began: began}
	p.restart()
	p.draw("rendering", after(500*time.Millisecond))
	if screen.Len() > 0 {
		t.Errorf("a short run shows %q", screen.String())
	}
	p.expect(Expected{RenderTask, 3})
	p.begin(Task{Number: 1, Work: Work{Name: "render head helm charts/a"}}, after(0))
	p.begin(Task{Number: 2, Work: Work{Name: "render head helm charts/b\x1b[2J"}}, after(time.Second))
	p.end(1)
	expect := func(phase string, d time.Duration, want string) {
		t.Helper()
		if got := p.line(phase, after(d)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect("rendering", 2*time.Second, "rendering: 1 units of at least 3, 2 s")
	expect("rendering", 9*time.Second, "rendering: 1 units of at least 3, 9 s; for 8 s: render head helm charts/b?[2J")
	p.end(2)
	p.expect(Expected{EvaluateTask, 2})
	p.begin(Task{Number: 3, Work: Work{Name: "evaluate CREATE a"}}, after(9*time.Second))
	p.begin(Task{Number: 4, Work: Work{Name: "evaluate CREATE a", Engine: "Kyverno"}}, after(9*time.Second))
	p.end(4)
	expect("evaluating", 10*time.Second, "evaluating: 0 of 2 objects, 10 s")
	p.end(3)
	expect("evaluating", 10*time.Second, "evaluating: 1 of 2 objects, 10 s")
	expect("", 10*time.Second, "starting, 10 s")

	p.restart() // a child that names no tasks but those that take long
	p.expect(Expected{EvaluateTask, 100_000})
	p.finished(Expected{EvaluateTask, 51})
	p.begin(Task{Number: 7, Work: Work{Name: "evaluate CREATE b"}}, after(9*time.Second))
	expect("evaluating", 12*time.Second, "evaluating: 51 of 100000 objects, 12 s; for 3 s: evaluate CREATE b")
	p.finished(Expected{EvaluateTask, 52})
	p.finished(Expected{Failures, 7})
	p.end(7)
	expect("evaluating", 12*time.Second, "evaluating: 52 of 100000 objects, failures so far: 7, 12 s")
	p.restart()
	p.expect(Expected{EvaluateTask, 2})
	p.begin(Task{Number: 3, Work: Work{Name: "evaluate CREATE a"}}, after(9*time.Second))
	p.end(3)

	p.draw("a phase of a child that lies about what it does", after(time.Second))
	p.draw("evaluating", after(time.Second))
	p.clear()
	for i, part := range strings.Split(screen.String(), "\r")[1:] {
		if len(part) > 39 || strings.ContainsAny(part, "\n\x1b") {
			t.Errorf("part %d is %q", i, part)
		}
	}
	if !strings.HasSuffix(screen.String(), "\r"+strings.Repeat(" ", len("evaluating: 1 of 2 objects, 1 s"))+"\r") {
		t.Errorf("something is left: %q", screen.String())
	}
	var none *progress
	none.restart()
	none.begin(Task{}, began)
	none.end(1)
	none.expect(Expected{})
	none.finished(Expected{})
	none.draw("", began)
	none.clear()
}
