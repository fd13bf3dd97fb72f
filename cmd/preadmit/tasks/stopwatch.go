package tasks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/preadmit/preadmit/policy"
)

// A stopwatch sums the time spent on rendering each unit and evaluating each policy, so that a run
// that is out of time can name the slowest.
type stopwatch struct {
	mu      sync.Mutex
	spent   map[timed]time.Duration
	running []lap
	free    []int // of running
}

// timed identifies a task, or a policy of an engine, whose time is measured.
type timed struct{ name, engine string }

func (t timed) String() string {
	if t.engine == "" {
		return t.name
	}
	return strings.TrimSpace("policy " + t.name + " (" + t.engine + ")")
}

// A lap is a running measurement. One that has ended has a zero start.
type lap struct {
	timed
	began time.Time
}

// start starts a measurement. The caller must call end.
func (s *stopwatch) start(what timed) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		s.free, s.running = append(s.free, len(s.running)), append(s.running, lap{})
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.running[i] = lap{what, time.Now()}
	return func() { s.end(i) }
}

func (s *stopwatch) end(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spent == nil {
		s.spent = make(map[timed]time.Duration)
	}
	s.spent[s.running[i].timed] += time.Since(s.running[i].began)
	s.running[i] = lap{}
	s.free = append(s.free, i)
}

// slowest names the tasks that have taken the longest, including running ones,
// as a hint for a report. It returns "" if there are none.
func (s *stopwatch) slowest() string {
	const most, least = 5, 100 * time.Millisecond
	s.mu.Lock()
	defer s.mu.Unlock()
	spent, still := make(map[string]time.Duration), make(map[string]bool)
	for what, d := range s.spent {
		spent[what.String()] += d
	}
	for _, r := range s.running {
		if r.began.IsZero() {
			continue
		}
		spent[r.String()] += time.Since(r.began)
		still[r.String()] = true
	}
	var names []string
	for name, d := range spent {
		if d >= least {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(spent[b], spent[a]), strings.Compare(a, b))
	})
	names = names[:min(len(names), most)]
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.1f s", name, spent[name].Seconds())
		if still[name] {
			names[i] += " and running"
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "slowest: " + strings.Join(names, ", ") + "; --timeout allows more"
}

// Measure starts a measurement. The caller must call end.
func (w *Watch) Measure(name string) (end func()) { return w.clock.start(timed{name: name}) }

// Slowest returns the slowest tasks of this process, or "".
func (w *Watch) Slowest() string {
	if w == nil {
		return ""
	}
	return w.clock.slowest()
}

// Timed returns a context with which engines report the time of each policy.
func (w *Watch) Timed(ctx context.Context) context.Context {
	if w == nil {
		return ctx
	}
	return policy.WithTimer(ctx, func(engine, name string) func() {
		return w.clock.start(timed{name, engine})
	})
}
