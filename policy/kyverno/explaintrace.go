package kyverno

import (
	"slices"

	"github.com/preadmit/preadmit/policy/internal/jmespath"
	diff "github.com/preadmit/preadmit/policy/internal/patch"
	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/internal/podsecurity"
	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

// A trace records how one rule reaches its verdict. It is nil unless the rule
// is being explained; methods of a nil trace, and of the nil values that they
// return, do nothing.
type trace struct {
	program *program
	whole   *tracedElement // the rule, outside of any foreach
	at      *tracedElement // the element that is being evaluated
	entries map[*entry]*tracedEntry
	notes   int // number of notes

	found, spared []podsecurity.Violation
	pod           bool // the rule's podSecurity was evaluated
	images        []tracedImage
}

// Limits of a trace.
const (
	maxShown = 16   // elements of one list that are shown, beside one that fails
	maxNotes = 4096 // notes, beyond which elements are shown only if they fail
	maxSteps = 256  // steps of one pattern
)

func newTrace(p *program) *trace {
	whole := &tracedElement{}
	return &trace{program: p, whole: whole, at: whole, entries: map[*entry]*tracedEntry{}}
}

// A tracedElement records an element of a foreach, or the rule as a whole. Its
// notes are the steps in order: *tracedBlock, *tracedMatch, *tracedList,
// *tracedEntry.
type tracedElement struct {
	index   int
	value   any
	pointer string // in the object; "" if the list computed the element
	verdict *verdict
	patched bool // by mutate
	changed int  // number of fields that the patch changed
	notes   []any
}

// A change is a field that a patch set.
type change struct {
	pointer  string
	was, is  any
	had, has bool
}

// A tracedBlock records conditions with the values that they compared.
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

// A tracedMatch records the match of a pattern with a value.
type tracedMatch struct {
	clause  *clause
	index   int // index in anyPattern
	value   any
	where   func() string // the pointer of value in the object; nil: it is the object
	static  bool          // the pattern has no variables
	verdict pattern.Verdict
	steps   []pattern.Step
}

// A tracedList records a foreach over a list.
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

// A tracedEntry records a context entry that was loaded.
type tracedEntry struct {
	*entry
	scope *scope
	value any
	err   error
}

// A tracedImage records the comparison of an image with an entry of
// verifyImages.
type tracedImage struct {
	entry   *document.VerifyImages
	ref     string
	verdict *verdict // nil: the entry does not match the image
}

func (t *trace) note(n any) {
	t.notes++
	t.at.notes = append(t.at.notes, n)
}

// block begins recording a block of conditions.
func (t *trace) block(b *block, s *scope) *tracedBlock {
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

func (t *tracedBlock) result(held bool, err error) {
	if t != nil {
		t.held, t.err = held, err
	}
}

// loaded records a context entry of the rule or of the current element.
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

// match matches value with a pattern and records the steps.
func (t *trace) match(c *clause, i int, p *pattern.Pattern, value any, at *element) pattern.Verdict {
	if t == nil {
		return p.Match(value)
	}
	n := &tracedMatch{clause: c, index: i, value: value}
	if at != nil { // at must not be kept, or it would be allocated in every evaluation
		n.where = at.pointer
	}
	n.verdict, n.steps = p.Trace(value, max(maxSteps-t.notes/16, 8))
	n.static = c.comparison(i).template.static
	t.note(n)
	t.notes += len(n.steps)
	return n.verdict
}

// comparison returns the clause's pattern, or the i-th of its anyPattern.
func (c *clause) comparison(i int) *comparison {
	if c.pattern != nil {
		return c.pattern
	}
	return c.anyPattern[i]
}

// list begins recording a list.
func (t *trace) list(pointer string, s *scope, expr *jmespath.Expression, elements []any, err error) *tracedList {
	if t == nil {
		return nil
	}
	n := &tracedList{trace: t, pointer: pointer, scope: s, expr: expr, count: len(elements), err: err, outer: t.at}
	t.note(n)
	return n
}

// begin begins recording an element, end ends it.
func (t *tracedList) begin(i int, value any) {
	if t == nil {
		return
	}
	t.trace.at = &tracedElement{index: i, value: value}
	t.elements = append(t.elements, t.trace.at)
}

func (t *tracedList) end(v *verdict) {
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

// patched ends the recording of an element that was patched.
func (t *tracedList) patched(before, after map[string]any, v *verdict) {
	if t == nil {
		return
	}
	if v == nil {
		e := t.elements[len(t.elements)-1]
		e.patched, e.changed = true, len(diff.Differences(before, after))
	}
	t.end(v)
}

// changes returns the fields in which an object differs from its earlier state.
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

// excluded records violations, some of which are excluded.
func (t *trace) excluded(all, left []podsecurity.Violation) {
	if t == nil {
		return
	}
	for _, v := range all {
		if !slices.ContainsFunc(left, func(l podsecurity.Violation) bool { return l.CheckID == v.CheckID && len(l.Fields) == len(v.Fields) }) {
			t.spared = append(t.spared, v)
		}
	}
}

func (t *trace) violations(violations []podsecurity.Violation) {
	if t != nil {
		t.found, t.pod = violations, true
	}
}

func (t *trace) image(entry *document.VerifyImages, image map[string]any, v *verdict) {
	if t == nil || len(t.images) == maxSteps {
		return
	}
	ref, _ := image["reference"].(string)
	t.images = append(t.images, tracedImage{entry, ref, v})
}

// quietly calls do, whose questions and assumptions do not affect the verdict.
// Secrets that it reads are still recorded.
func (r *review) quietly(do func()) {
	saved := *r.notes
	do()
	secrets := r.secrets
	*r.notes = saved
	r.secrets = secrets
}
