package tui

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
)

// A session is the state that the screen and the dialogue share: the results,
// the marks, the staged decisions, and the writes.
type session struct {
	index
	marked int // number of marked entries

	staged staged
	undone []staged // decisions to redo, the next one last
	done   []staged // decisions to undo, the last one last

	writes []write // writes that can be undone, the last one last
	// Decisions written, or taken back, since the shown results were evaluated.
	applied []Decisions

	ambiguous map[string]bool // object patterns of more than one unit; nil until asked for
}

// A write is a change of the file, with the decisions that were staged for it.
type write struct {
	change *Change
	staged staged
}

// An index prepares a report for navigation.
type index struct {
	report  *report.Report
	entries []*entry
	rules   map[[3]string]*policy.Rule
	counts  [numStates]int // number of entries by state, with all decisions
}

// A staged is a group of decisions with a description.
type staged struct {
	Decisions
	did string // description of the decision that changed the previous one
}

// A state classifies a result for the user.
type state uint8

const (
	isNew        state = iota // counts: not accepted, and not at the base
	isKnown                   // also at the base
	isSuppressed              // accepted
	isUndecided               // could not be rendered, compiled or decided
	isPassed                  // passed or exempted
	isFixed                   // at the base only
	numStates
)

var stateWords = [numStates]string{"new", "known", "suppressed", "unknown", "passed", "fixed"}

// compared reports whether the results are those of a change. Without a base,
// results are open rather than new.
func (i *index) compared() bool { return i.report.Base != nil }

// word returns the name of a state.
func (i *index) word(s state) string {
	if s == isNew && !i.compared() {
		return "open"
	}
	return stateWords[s]
}

// An entry is a result in the list.
type entry struct {
	*policy.Result
	bare     state         // its state without suppressions
	now      atomic.Uint32 // its state, which an arrangement reads while decisions change it
	rank     int           // rank of its class, 0 is the worst
	class    string
	proposed bool   // the result of a changed policy, which is not in force yet
	cluster  string // its cluster, if there are several
	file     string
	line     int
	key      string // identifies it, also after the next evaluation
	text     string // lower-case text that words of a filter are searched in

	held     *policy.Suppression // the suppression that accepts it
	marked   bool
	accepted bool // accepted by a staged suppression
	restored bool // its suppression is staged for removal
}

// state returns the state of the result with all decisions so far.
func (e *entry) state() state { return state(e.now.Load()) }

func newSession() *session {
	return &session{index: newIndex(&report.Report{})}
}

// newIndex indexes the results in the report's order. It keeps the report.
func newIndex(r *report.Report) index {
	x := index{report: r, rules: make(map[[3]string]*policy.Rule, len(r.Rules))}
	lists := [][]policy.Result{r.Results, report.Unrendered(r), r.Proposed}
	entries := make([]entry, len(lists[0])+len(lists[1])+len(lists[2]))
	x.entries = make([]*entry, 0, len(entries))
	seen, clusters := make(map[string]int, len(entries)), clustersOf(r)
	for l, list := range lists {
		for i := range list {
			e := &entries[len(x.entries)]
			e.Result, e.proposed = &list[i], l == 2
			e.fill(seen)
			e.cluster = clusters[e.Object.Unit]
			x.entries = append(x.entries, e)
		}
	}
	for i := range r.Rules {
		x.rules[[3]string{r.Rules[i].Engine, r.Rules[i].Policy, r.Rules[i].Name}] = &r.Rules[i]
	}
	return x
}

// clustersOf returns the clusters of units, or nil unless there are several.
func clustersOf(r *report.Report) map[string]string {
	of, names := make(map[string]string), make(map[string]bool)
	for i := range r.Units {
		if c := r.Units[i].Cluster; c != "" {
			of[r.Units[i].Identity()], names[c] = c, true
		}
	}
	if len(names) < 2 {
		return nil
	}
	return of
}

// load loads a new report. Entries that still exist keep their marks.
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
	s.updateStates()
}

// mark marks entries, or unmarks them if all are marked.
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
	e.bare, e.held = stateOf(e.Result), e.Suppression
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

// stateOf returns the state of a result that nothing suppresses.
func stateOf(x *policy.Result) state {
	_, _, finding := report.Class(x)
	bare := *x
	bare.Suppression = nil
	switch {
	case x.Baseline == policy.Absent:
		return isFixed
	case !finding:
		return isPassed
	case x.Undecided():
		return isUndecided
	case report.Open(&bare):
		return isNew
	default:
		return isKnown
	}
}

// rule returns the documentation of the result's rule, or nil.
func (s *session) rule(e *entry) *policy.Rule {
	return s.rules[[3]string{e.Engine, e.Policy, e.Rule}]
}

// stage stages further decisions; it skips those that are staged already. It
// returns the number of new ones.
func (s *session) stage(did string, d Decisions) int {
	return s.restage(did, Decisions{
		Add:    joined(s.staged.Add, d.Add, accepts),
		Remove: joined(s.staged.Remove, d.Remove, policy.Suppression.Unplaced),
	})
}

// restage replaces the staged decisions, and returns by how many their number changes.
func (s *session) restage(did string, d Decisions) int {
	n := d.Len() - s.staged.Len()
	if n != 0 {
		s.done, s.undone = append(s.done, s.staged), nil
		s.staged = staged{d, did}
		s.updateStates()
	}
	return max(n, -n)
}

// unaccept stages the removal of the suppressions that accept entries. A
// suppression that is only staged is unstaged instead. If an entry is accepted by a comment in
// another file, which stays, where says so.
func (s *session) unaccept(entries []*entry) (n int, where string) {
	var gone []policy.Suppression
	drop := make(map[policy.Suppression]bool)
	for _, e := range entries {
		switch {
		case e.held == nil:
		case e.held.Line > 0:
			where = fmt.Sprintf("a comment accepts it: edit %s:%d", report.Visible(e.held.Path, 1024), e.held.Origin.Line)
		case e.accepted:
			drop[*e.held] = true
		default:
			gone = append(gone, *e.held)
		}
	}
	next := Decisions{Remove: joined(s.staged.Remove, gone, policy.Suppression.Unplaced)}
	for _, x := range s.staged.Add {
		if !drop[x] {
			next.Add = append(next.Add, x)
		}
	}
	n = len(drop) + len(next.Remove) - len(s.staged.Remove)
	if n > 0 && next.Len() == s.staged.Len() { // one is dropped for each removed one
		s.done, s.undone = append(s.done, s.staged), nil
		s.staged = staged{next, "removing " + policy.Plural(n, "suppression")}
		s.updateStates()
		return n, where
	}
	s.restage("removing "+policy.Plural(n, "suppression"), next)
	return n, where
}

// accepts returns only the fields of a suppression that select results.
func accepts(x policy.Suppression) policy.Suppression {
	return policy.Suppression{Rule: x.Rule, Object: x.Object, Path: x.Path}
}

// joined returns list with those of more whose key is not in it yet.
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

// undo takes back the last staged decisions, and returns their description.
func (s *session) undo() (did string, ok bool) {
	if len(s.done) == 0 {
		return "", false
	}
	did = s.staged.did
	s.undone = append(s.undone, s.staged)
	s.staged, s.done = s.done[len(s.done)-1], s.done[:len(s.done)-1]
	s.updateStates()
	return did, true
}

func (s *session) redo() (did string, ok bool) {
	if len(s.undone) == 0 {
		return "", false
	}
	s.done = append(s.done, s.staged)
	s.staged, s.undone = s.undone[len(s.undone)-1], s.undone[:len(s.undone)-1]
	s.updateStates()
	return s.staged.did, true
}

// canUndo reports whether there is something to take back.
func (s *session) canUndo() bool { return len(s.done)+len(s.writes) > 0 }

// lastWrite returns the change that undo takes back next. It returns nil if a staged decision comes
// first, or if there is no change.
func (s *session) lastWrite() *Change {
	if len(s.done) > 0 || len(s.writes) == 0 {
		return nil
	}
	return s.writes[len(s.writes)-1].change
}

// written records that a change wrote the staged decisions, and applies them, or that it wrote a fix.
func (s *session) written(c *Change) {
	if c.Fix != "" {
		s.writes = append(s.writes, write{change: c})
		return
	}
	s.writes = append(s.writes, write{c, s.staged})
	s.applied = append(s.applied, s.staged.Decisions)
	s.staged, s.done, s.undone = staged{}, nil, nil
	s.updateStates()
}

// unwritten records that the last change was taken back. Redo stages its
// decisions again.
func (s *session) unwritten() {
	w := s.writes[len(s.writes)-1]
	s.writes = s.writes[:len(s.writes)-1]
	if w.change.Fix != "" {
		return
	}
	s.applied = append(s.applied, Decisions{Add: w.staged.Remove, Remove: w.staged.Add})
	s.undone = []staged{w.staged}
	s.updateStates()
}

// discard drops the staged decisions.
func (s *session) discard() {
	s.staged, s.done, s.undone = staged{}, nil, nil
	s.updateStates()
}

// A coverage is an index of decisions that quickly finds those for an entry.
type coverage struct {
	literal map[string][]*policy.Suppression // by the name of their object
	globs   []*policy.Suppression
	removed map[policy.Suppression]bool
}

func newCoverage(d Decisions) coverage {
	x := coverage{literal: make(map[string][]*policy.Suppression), removed: make(map[policy.Suppression]bool, len(d.Remove))}
	for i := range d.Add {
		a := &d.Add[i]
		if strings.Contains(a.Object, "*") {
			x.globs = append(x.globs, a)
		} else {
			x.literal[a.Object] = append(x.literal[a.Object], a)
		}
	}
	for _, r := range d.Remove {
		x.removed[r.Unplaced()] = true
	}
	return x
}

// covering returns the suppression that accepts a result, or nil.
func (c *coverage) covering(x *policy.Result) *policy.Suppression {
	if len(c.literal) > 0 {
		for _, a := range c.literal[policy.ObjectPattern(x.Object)] {
			if a.Covers(x) {
				return a
			}
		}
	}
	for _, a := range c.globs {
		if a.Covers(x) {
			return a
		}
	}
	return nil
}

// updateStates sets the state of every entry from the writes since the evaluation and the staged
// decisions, and counts the states.
func (s *session) updateStates() {
	var steps []coverage
	for _, d := range s.applied {
		steps = append(steps, newCoverage(d))
	}
	steps = append(steps, newCoverage(s.staged.Decisions))
	s.counts = [numStates]int{}
	for _, e := range s.entries {
		e.decide(steps)
		if !e.proposed {
			s.counts[e.state()]++
		}
	}
}

// decide applies decisions in order. The last step holds the staged ones.
func (e *entry) decide(steps []coverage) {
	e.held, e.accepted, e.restored = e.Suppression, false, false
	for i := range steps {
		d, staged := &steps[i], i == len(steps)-1
		if e.held != nil && d.removed[e.held.Unplaced()] {
			e.held, e.restored = nil, staged
		}
		if e.held == nil && e.open() {
			if e.held = d.covering(e.Result); e.held != nil {
				e.accepted, e.restored = staged, false
			}
		}
	}
	now := e.bare
	if e.held != nil && e.open() {
		now = isSuppressed
	}
	e.now.Store(uint32(now))
}

// open reports whether a suppression would make a difference to the entry.
func (e *entry) open() bool {
	return !e.proposed && (e.bare == isNew || e.bare == isKnown || e.bare == isUndecided)
}

// acceptable reports whether the entry can be accepted.
func (e *entry) acceptable() bool { return e.open() && e.held == nil }
