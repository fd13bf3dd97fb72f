package supervise

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

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
