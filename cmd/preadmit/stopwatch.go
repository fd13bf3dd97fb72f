package main

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
	spent   map[string]time.Duration
	running map[int]lap
	next    int
}

type lap struct {
	name  string
	began time.Time
}

// start begins to measure; the function that it returns ends that.
func (s *stopwatch) start(name string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running, s.spent = make(map[int]lap), make(map[string]time.Duration)
	}
	s.next++
	number := s.next
	s.running[number] = lap{name, time.Now()}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.spent[name] += time.Since(s.running[number].began)
		delete(s.running, number)
	}
}

// slowest names what took the longest until now, as a hint for a report, or
// returns "". What is still running counts.
func (s *stopwatch) slowest() string {
	const most, least = 5, 100 * time.Millisecond
	s.mu.Lock()
	defer s.mu.Unlock()
	spent, still := make(map[string]time.Duration), make(map[string]bool)
	for name, d := range s.spent {
		spent[name] += d
	}
	for _, r := range s.running {
		spent[r.name] += time.Since(r.began)
		still[r.name] = true
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

// slowest is what took the longest in this process, or "".
func (w *watch) slowest() string {
	if w == nil {
		return ""
	}
	return w.clock.slowest()
}

// timed has engines tell the watch's clock of the policies that they evaluate.
func (w *watch) timed(ctx context.Context) context.Context {
	if w == nil {
		return ctx
	}
	return policy.WithTimer(ctx, func(engine, name string) func() {
		return w.clock.start(strings.TrimSpace("policy " + name + " (" + engine + ")"))
	})
}
