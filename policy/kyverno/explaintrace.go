package kyverno

import (
	"slices"

	"github.com/preadmit/preadmit/policy/internal/conditions"
	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/internal/kyvernodoc"
	diff "github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/internal/podsecurity"
	"github.com/preadmit/preadmit/render"
)

// A trace notes how one rule reaches its verdict. Nobody asks
// for most: then it is nil, and its methods, and those of what they return,
// do nothing.
type trace struct {
	program *program
	whole   *tracedElement // the rule, outside of any foreach
	at      *tracedElement // what is noted now
	entries map[*entry]*tracedEntry
	notes   int // how many there are

	found, spared []podsecurity.Violation
	pod           bool // podSecurity was asked
	images        []tracedImage
}

// Limits of a trace.
const (
	maxShown = 16   // elements of one list that are shown, beside one that fails
	maxNotes = 4096 // notes, beyond which elements are shown only if they fail
	maxSteps = 256  // of one pattern
)

func newTrace(p *program) *trace {
	whole := &tracedElement{}
	return &trace{program: p, whole: whole, at: whole, entries: map[*entry]*tracedEntry{}}
}

// A tracedElement is an element of a foreach, or the rule as a whole, and what
// was asked of it in order: *tracedBlock, *tracedMatch, *tracedList,
// *tracedEntry.
type tracedElement struct {
	index   int
	value   any
	pointer string // in the object; "" where it was made
	verdict *verdict
	patched bool // by mutate
	changed int  // so many fields
	notes   []any
}

// A change is a field that a patch set.
type change struct {
	pointer  string
	was, is  any
	had, has bool
}

// A tracedBlock is conditions with what they compared.
type tracedBlock struct {
	block    *block
	scope    *scope
	compares []tracedCondition
	held     bool
	err      error
}

type tracedCondition struct {
	*conditions.Condition
	key, value any
	err        error
}

// A tracedMatch is a pattern on a value.
type tracedMatch struct {
	clause  *clause
	index   int // of anyPattern
	value   any
	where   func() string // the pointer of value in the object; nil: it is the object
	static  bool          // the pattern has no variables
	verdict pattern.Verdict
	steps   []pattern.Step
}

// A tracedList is a list that foreach goes through.
type tracedList struct {
	trace    *trace
	pointer  string // of the foreach, in the policy as it is written
	scope    *scope
	expr     *jmespath.Expression
	count    int
	err      error
	elements []*tracedElement
	dropped  int
	outer    *tracedElement
}

// A tracedEntry is a context entry that was loaded.
type tracedEntry struct {
	*entry
	scope *scope
	value any
	err   error
}

// A tracedImage is an image held against an entry of verifyImages.
type tracedImage struct {
	entry   *kyvernodoc.VerifyImages
	ref     string
	verdict *verdict // nil: the entry is not about it
}

func (t *trace) note(n any) {
	t.notes++
	t.at.notes = append(t.at.notes, n)
}

// asks begins conditions.
func (t *trace) asks(b *block, s *scope) *tracedBlock {
	if t == nil {
		return nil
	}
	n := &tracedBlock{block: b, scope: s}
	t.note(n)
	return n
}

func (t *tracedBlock) compared(c *conditions.Condition, key, value any, err error) {
	if t != nil {
		t.compares = append(t.compares, tracedCondition{c, key, value, err})
	}
}

func (t *tracedBlock) came(held bool, err error) {
	if t != nil {
		t.held, t.err = held, err
	}
}

// loaded notes a context entry: of the rule, or of the element at hand.
func (t *trace) loaded(b *binding, s *scope, i int) {
	if t == nil {
		return
	}
	n := &tracedEntry{entry: b.entry, scope: s.before(i), value: b.value, err: b.err}
	if slices.Contains(t.program.entries, b.entry) {
		t.entries[b.entry] = n
		return
	}
	t.note(n)
}

// match matches, and notes how.
func (t *trace) match(c *clause, i int, p *pattern.Pattern, value any, at *element) pattern.Verdict {
	if t == nil {
		return p.Match(value)
	}
	n := &tracedMatch{clause: c, index: i, value: value}
	if at != nil { // which must not be kept: it is on the stack where nobody asks
		n.where = at.pointer
	}
	n.verdict, n.steps = p.Trace(value, max(maxSteps-t.notes/16, 8))
	n.static = c.comparison(i).template.static
	t.note(n)
	t.notes += len(n.steps)
	return n.verdict
}

// comparison is the pattern, or the i-th of anyPattern.
func (c *clause) comparison(i int) *comparison {
	if c.pattern != nil {
		return c.pattern
	}
	return c.anyPattern[i]
}

// goes begins a list.
func (t *trace) goes(pointer string, s *scope, expr *jmespath.Expression, elements []any, err error) *tracedList {
	if t == nil {
		return nil
	}
	n := &tracedList{trace: t, pointer: pointer, scope: s, expr: expr, count: len(elements), err: err, outer: t.at}
	t.note(n)
	return n
}

// into begins an element, out ends it.
func (t *tracedList) into(i int, value any) {
	if t == nil {
		return
	}
	t.trace.at = &tracedElement{index: i, value: value}
	t.elements = append(t.elements, t.trace.at)
}

func (t *tracedList) out(v *verdict) {
	if t == nil {
		return
	}
	e := t.elements[len(t.elements)-1]
	t.trace.at, e.verdict = t.outer, v
	fails := v != nil && v.status != StatusPass && v.status != StatusSkip
	if !fails && (len(t.elements) > maxShown || t.trace.notes > maxNotes) {
		t.elements = t.elements[:len(t.elements)-1]
		t.dropped++
		return
	}
	t.scope.review.quietly(func() { e.pointer = t.scope.elementPointer(t.expr, e.index, e.value) })
}

// patched ends an element that a patch was for.
func (t *tracedList) patched(before, after map[string]any, v *verdict) {
	if t == nil {
		return
	}
	if v == nil {
		e := t.elements[len(t.elements)-1]
		e.patched, e.changed = true, len(diff.Differences(before, after))
	}
	t.out(v)
}

// changes are the fields in which an object differs from what it was.
func changes(before, after map[string]any) []change {
	var all []change
	for _, pointer := range diff.Differences(before, after) {
		if len(all) == maxFields {
			break
		}
		c := change{pointer: pointer}
		c.was, c.had = render.Lookup(before, pointer)
		c.is, c.has = render.Lookup(after, pointer)
		all = append(all, c)
	}
	return all
}

// spares notes violations of which some are excluded.
func (t *trace) spares(all, left []podsecurity.Violation) {
	if t == nil {
		return
	}
	for _, v := range all {
		if !slices.ContainsFunc(left, func(l podsecurity.Violation) bool { return l.CheckID == v.CheckID && len(l.Fields) == len(v.Fields) }) {
			t.spared = append(t.spared, v)
		}
	}
}

func (t *trace) finds(violations []podsecurity.Violation) {
	if t != nil {
		t.found, t.pod = violations, true
	}
}

func (t *trace) image(entry *kyvernodoc.VerifyImages, image map[string]any, v *verdict) {
	if t == nil || len(t.images) == maxSteps {
		return
	}
	ref, _ := image["reference"].(string)
	t.images = append(t.images, tracedImage{entry, ref, v})
}

// quietly does something again that leaves no notes for the verdict; what
// Secrets it saw is remembered.
func (r *review) quietly(do func()) {
	saved := *r.notes
	do()
	secrets := r.secrets
	*r.notes = saved
	r.secrets = secrets
}
