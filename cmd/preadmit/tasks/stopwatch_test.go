package tasks

import (
	"regexp"
	"testing"
	"time"
)

// TestStopwatch names what took the longest, that which still runs among it.
func TestStopwatch(t *testing.T) {
	t.Parallel()
	var s stopwatch
	if got := s.slowest(); got != "" {
		t.Errorf("nothing ran, and %q", got)
	}
	for _, name := range []string{"unit a", "unit b", "unit a"} {
		s.start(timed{name: name})()
	}
	s.start(timed{"p", "Kyverno"})
	for n, l := range s.running {
		l.began = l.began.Add(-2 * time.Second)
		s.running[n] = l
	}
	s.spent[timed{name: "unit a"}] += 3 * time.Second
	want := regexp.MustCompile(`^slowest: unit a 3\.0 s, policy p \(Kyverno\) 2\.\d s and running; --timeout allows more$`)
	if got := s.slowest(); !want.MatchString(got) {
		t.Errorf("got %q", got)
	}
}
