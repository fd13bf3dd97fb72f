package tui

import (
	"slices"
	"strings"
	"time"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
)

// A session is what the screen and the plain dialogue share: the results, what
// is marked, and what is staged.
type session struct {
	index
	today  time.Time
	marked int // entries that are

	staged staged
	undone []staged // to redo, the next one last
	done   []staged // to undo, the last one last

	ambiguous map[string]bool // object patterns of more than one unit; nil until asked for
}

// An index is a report made ready to be gone through.
type index struct {
	report  *report.Report
	source  *report.Source
	entries []*entry
	rules   map[[3]string]*policy.Rule
	counts  [numStates]int
}

// staged are decisions, with what they are called.
type staged struct {
	Decisions
	did string // what made it from the one before
}

// A state is what a result is to the person who goes through them.
type state uint8

const (
	isNew        state = iota // counts: nobody accepted it and it was not there before
	isKnown                   // was there at the base
	isSuppressed              // accepted
	isUndecided               // could not be rendered, compiled or decided
	isPassed                  // holds, or is exempted
	isFixed                   // was there at the base and is not any more
	numStates
)

var stateWords = [numStates]string{"new", "known", "suppressed", "unknown", "passed", "fixed"}

// An entry is a result in the list.
type entry struct {
	*policy.Result
	state    state
	rank     int // of its class, 0 the worst
	class    string
	proposed bool // said by changed policies, which don't judge yet
	file     string
	line     int
	key      string // tells it from others, also after the next evaluation
	text     string // what words of a filter are looked for in, lower case

	marked   bool
	accepted bool // by a staged suppression
	restored bool // its suppression is staged for removal
}

func newSession(today time.Time) *session {
	return &session{today: today, index: newIndex(&report.Report{})}
}

// newIndex takes the results as they are sorted in a report, which it keeps.
func newIndex(r *report.Report) index {
	x := index{report: r, source: report.NewSource(r), rules: make(map[[3]string]*policy.Rule, len(r.Rules))}
	lists := [][]policy.Result{r.Results, report.Unrendered(r), r.Proposed}
	entries := make([]entry, len(lists[0])+len(lists[1])+len(lists[2]))
	x.entries = make([]*entry, 0, len(entries))
	seen := make(map[string]int, len(entries))
	for l, list := range lists {
		for i := range list {
			e := &entries[len(x.entries)]
			e.Result, e.proposed = &list[i], l == 2
			e.fill(seen)
			x.entries = append(x.entries, e)
			if !e.proposed {
				x.counts[e.state]++
			}
		}
	}
	for i := range r.Rules {
		x.rules[[3]string{r.Rules[i].Engine, r.Rules[i].Policy, r.Rules[i].Name}] = &r.Rules[i]
	}
	return x
}

// load takes a new report. Marks stay on what is still there.
func (s *session) load(x index) {
	marked := make(map[string]bool)
	for _, e := range s.entries {
		if e.marked {
			marked[e.key] = true
		}
	}
	s.index, s.ambiguous = x, nil
	for _, e := range s.entries {
		e.marked = len(marked) > 0 && marked[e.key]
	}
	s.countMarks()
	s.note()
}

// mark marks entries, or unmarks them when all are marked.
func (s *session) mark(entries []*entry) {
	all := true
	for _, e := range entries {
		all = all && e.marked
	}
	for _, e := range entries {
		e.marked = !all
	}
	s.countMarks()
}

func (s *session) countMarks() {
	s.marked = 0
	for _, e := range s.entries {
		if e.marked {
			s.marked++
		}
	}
}

func (e *entry) fill(seen map[string]int) {
	e.class, e.rank, _ = report.Class(e.Result)
	e.state = stateOf(e.Result)
	at := report.Place(e.Result)
	e.file, e.line = at.File, at.Line
	e.key = e.Fingerprint + string(e.Operation) + e.Engine
	if e.Fingerprint == "" {
		e.key = strings.Join([]string{e.Engine, e.Policy, e.Rule, e.Object.Kind, e.Object.Namespace, e.Object.Name, e.Object.Unit}, "\x00")
	}
	if seen[e.key]++; seen[e.key] > 1 {
		e.key += strings.Repeat("+", min(seen[e.key]-1, 99))
	}
	e.text = strings.ToLower(strings.Join([]string{
		e.Policy, "/", e.Rule, " ", e.Object.Kind, " ", e.Object.Namespace, "/", e.Object.Name, " ", e.Object.Unit, " ", e.file, " ", e.Message,
	}, ""))
}

func stateOf(x *policy.Result) state {
	_, _, finding := report.Class(x)
	switch {
	case x.Baseline == policy.Absent:
		return isFixed
	case !finding:
		return isPassed
	case x.Suppression != nil:
		return isSuppressed
	case x.Undecided():
		return isUndecided
	case report.Open(x):
		return isNew
	default:
		return isKnown
	}
}

// rule documents the rule of a result; nil where the report does not.
func (s *session) rule(e *entry) *policy.Rule {
	return s.rules[[3]string{e.Engine, e.Policy, e.Rule}]
}

// stage adds decisions to those staged; what is there already is left out.
func (s *session) stage(did string, d Decisions) int {
	next := staged{Decisions{
		Add:    joined(s.staged.Add, d.Add, accepts),
		Remove: joined(s.staged.Remove, d.Remove, func(x policy.Suppression) policy.Suppression { return x }),
	}, did}
	n := next.Len() - s.staged.Len()
	if n > 0 {
		s.done, s.undone = append(s.done, s.staged), nil
		s.staged = next
		s.note()
	}
	return n
}

// accepts is what a suppression is about, without who says so and why.
func accepts(x policy.Suppression) policy.Suppression {
	return policy.Suppression{Rule: x.Rule, Object: x.Object, Path: x.Path}
}

// joined is a list with those of more whose key it has not yet.
func joined(list, more []policy.Suppression, key func(policy.Suppression) policy.Suppression) []policy.Suppression {
	seen := make(map[policy.Suppression]bool, len(list)+len(more))
	all := slices.Clone(list)
	for _, x := range list {
		seen[key(x)] = true
	}
	for _, x := range more {
		if k := key(x); !seen[k] {
			seen[k] = true
			all = append(all, x)
		}
	}
	return all
}

// undo takes the last decision back and says which it was.
func (s *session) undo() (did string, ok bool) {
	if len(s.done) == 0 {
		return "", false
	}
	did = s.staged.did
	s.undone = append(s.undone, s.staged)
	s.staged, s.done = s.done[len(s.done)-1], s.done[:len(s.done)-1]
	s.note()
	return did, true
}

func (s *session) redo() (did string, ok bool) {
	if len(s.undone) == 0 {
		return "", false
	}
	s.done = append(s.done, s.staged)
	s.staged, s.undone = s.undone[len(s.undone)-1], s.undone[:len(s.undone)-1]
	s.note()
	return s.staged.did, true
}

// settled forgets what was staged: it is written, or discarded.
func (s *session) settled() {
	s.staged, s.done, s.undone = staged{}, nil, nil
	s.note()
}

// note marks the entries that staged decisions are about.
func (s *session) note() {
	literal := make(map[string][]*policy.Suppression)
	var globs []*policy.Suppression
	for i := range s.staged.Add {
		a := &s.staged.Add[i]
		if strings.Contains(a.Object, "*") {
			globs = append(globs, a)
		} else {
			literal[a.Object] = append(literal[a.Object], a)
		}
	}
	if s.staged.Len() == 0 {
		for _, e := range s.entries {
			e.accepted, e.restored = false, false
		}
		return
	}
	removed := make(map[policy.Suppression]bool, len(s.staged.Remove))
	for _, x := range s.staged.Remove {
		removed[x] = true
	}
	covers := func(x *policy.Result) func(*policy.Suppression) bool {
		return func(a *policy.Suppression) bool { return a.Covers(x) }
	}
	for _, e := range s.entries {
		open := e.acceptable()
		e.accepted = open && len(literal) > 0 && slices.ContainsFunc(literal[objectPattern(e.Object)], covers(e.Result)) ||
			open && slices.ContainsFunc(globs, covers(e.Result))
		e.restored = e.Suppression != nil && removed[*e.Suppression]
	}
}

// acceptable says whether a suppression would make a difference to it.
func (e *entry) acceptable() bool {
	return !e.proposed && (e.state == isNew || e.state == isKnown || e.state == isUndecided)
}
