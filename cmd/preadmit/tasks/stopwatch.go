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

// A stopwatch adds up how long units take to render and policies to evaluate, so
// that a run whose time is over can say what took it.
type stopwatch struct {
	mu      sync.Mutex
	spent   map[timed]time.Duration
	running []lap
	free    []int // of running
}

// Timed is what takes time: a task, or a policy of an engine.
type timed struct{ name, engine string }

func (t timed) String() string {
	if t.engine == "" {
		return t.name
	}
	return strings.TrimSpace("policy " + t.name + " (" + t.engine + ")")
}

// A lap is what is measured now. One that has ended began at the zero time.
type lap struct {
	timed
	began time.Time
}

// start begins to measure; the function that it returns ends that.
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

// slowest names what took the longest until now, as a hint for a report, or
// returns "". What is still running counts.
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

// Measure begins to measure what has a name; the function that it returns ends that.
func (w *Watch) Measure(name string) (end func()) { return w.clock.start(timed{name: name}) }

// Slowest is what took the longest in this process, or "".
func (w *Watch) Slowest() string {
	if w == nil {
		return ""
	}
	return w.clock.slowest()
}

// Timed has engines tell the watch's clock of the policies that they evaluate.
func (w *Watch) Timed(ctx context.Context) context.Context {
	if w == nil {
		return ctx
	}
	return policy.WithTimer(ctx, func(engine, name string) func() {
		return w.clock.start(timed{name, engine})
	})
}
