// Package pattern matches JSON values with Kyverno's patterns: wildcards,
// operators and ranges in leaves, anchors in keys.
//
// [Compile] takes a pattern whose variables are substituted. [Pattern.Match]
// returns for each value a [Verdict] with the place of the mismatch.
//
// Kyverno reads every number as a float64. This package accepts numbers of any
// type, so objects need no conversion.
package pattern

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Status is the result of matching.
type Status uint8

// The statuses. Error is Kyverno's status for a mismatch if an anchor's key was
// missing everywhere it was looked for.
const (
	Pass Status = iota
	Fail
	Skip
	Error
)

func (s Status) String() string {
	return [...]string{"pass", "fail", "skip", "error"}[s]
}

// A Verdict is the result of matching a value with a pattern.
type Verdict struct {
	Status  Status
	Path    string // in Kyverno's form: /spec/containers/0/image/; "" for Pass and Error
	Pointer string // JSON pointer into the value: the compared value, or the missing field
	Err     string // Kyverno's message, which names the compared values; "" for Pass

	Literals []string // texts in the compared value that the pattern does not allow: :latest for !*:latest
}

// A Pattern is compiled, and safe for concurrent use.
type Pattern struct {
	root *node
	keys int // number of different keys with condition and existence anchors
}

// Match compares a JSON value with the pattern. A nil value is a missing one.
func (p *Pattern) Match(value any) Verdict { return p.match(value, nil) }

func (p *Pattern) match(value any, trace *tracer) Verdict {
	m := matcher{trace: trace}
	if p.keys > len(m.few)*64 {
		m.many = make([]presence, (p.keys+63)/64)
	}
	f := m.match(value, p.root)
	if f == nil {
		return Verdict{}
	}
	v := Verdict{Status: f.status, Path: f.path, Pointer: f.pointer, Err: f.Error(), Literals: f.literals()}
	if f.status == Fail && !f.negation && (f.path == "" || m.keysMissing()) {
		v.Status, v.Path = Error, ""
	}
	return v
}

// A Problem is a mistake in a pattern, and where it is.
type Problem struct{ Pointer, Message string }

// Check returns the mistakes for which Kyverno refuses a pattern, in the order
// of its keys. mutate is true for patchStrategicMerge, where any anchor is
// allowed.
func Check(p any, mutate bool) []Problem {
	var c checker
	if !mutate {
		c.anchors(p, "", maxDepth)
		c.metadata(p)
	}
	return c.problems
}

type checker struct{ problems []Problem }

func (c *checker) add(pointer, message string) {
	c.problems = append(c.problems, Problem{Pointer: pointer, Message: message})
}

func (c *checker) anchors(p any, pointer string, depth int) {
	if depth == 0 {
		c.add(pointer, "the pattern nests too deep")
		return
	}
	switch p := p.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(p)) {
			at := pointer + pointerTo(segment{key: key, index: -1})
			c.anchor(key, p[key], at)
			c.anchors(p[key], at, depth-1)
		}
	case []any:
		for i, v := range p {
			c.anchors(v, pointer+pointerTo(segment{index: i}), depth-1)
		}
	}
}

func (c *checker) anchor(key string, value any, at string) {
	switch a, _ := ParseKey(key); a {
	case Addition:
		c.add(at, "unsupported anchor "+key+": only mutate rules add fields")
	case Existence:
		if list, ok := value.([]any); !ok {
			c.add(at, "an existence anchor needs a list")
		} else if len(list) == 0 {
			c.add(at, "an existence anchor needs a list of at least one element")
		}
	}
}

// metadata checks labels and annotations where a whole object has them.
func (c *checker) metadata(p any) {
	root, _ := p.(map[string]any)
	metadata, _ := root["metadata"].(map[string]any)
	for _, tag := range []string{"annotations", "labels"} {
		tags, _ := metadata[tag].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(tags)) {
			if _, ok := tags[key].(string); !ok {
				at := pointerTo(segment{key: key, index: -1})
				c.add("/metadata/"+tag+at, "labels and annotations are strings: put the value in double quotes")
			}
		}
	}
}

// A Step records what a key of a pattern required of a value, and the result.
type Step struct {
	Place   string // JSON pointer into the pattern, as compiled
	Pointer string // JSON pointer into the value
	Anchor  Anchor // None also of an Addition
	Scalar  bool   // Wants is the scalar that the value is compared with
	Wants   any
	Value   any
	Found   bool // the key has a value
	Status  Status
	Depth   int // number of anchors around it
}

// Trace is Match with a trace: a step for each scalar and each anchor, in
// order, and for each value that is a scalar where the pattern has a map or
// list. Beyond limit steps those that hold are left out.
func (p *Pattern) Trace(value any, limit int) (Verdict, []Step) {
	t := &tracer{limit: limit, places: map[*entry]string{}}
	t.place(p.root, "")
	v := p.match(value, t)
	kept := t.steps[:0]
	for i, s := range t.steps {
		if !t.dropped[i] {
			kept = append(kept, s)
		}
	}
	return v, kept
}

// Steps returns a step for each scalar and each anchor in the pattern, without
// values.
func (p *Pattern) Steps() []Step {
	t := &tracer{places: map[*entry]string{}}
	t.place(p.root, "")
	var all []Step
	for e, place := range t.places {
		s := Step{Place: place}
		s.Wants, s.Scalar = e.scalar()
		if e.anchor != Addition {
			s.Anchor = e.anchor
		}
		if s.Scalar || s.Anchor != None {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b Step) int { return strings.Compare(a.Place, b.Place) })
	return all
}

// A tracer records the steps of a matcher.
type tracer struct {
	limit   int
	places  map[*entry]string
	steps   []Step
	dropped map[int]bool
	depth   int
}

// place finds the pointer of every entry in the pattern.
func (t *tracer) place(n *node, at string) {
	for i, e := range n.list {
		t.place(e, at+"/"+strconv.Itoa(i))
	}
	for _, entries := range [][]entry{n.anchors, n.rest} {
		for i := range entries {
			e := &entries[i]
			t.places[e] = at + pointerTo(segment{key: e.raw, index: -1})
			t.place(e.value, t.places[e])
		}
	}
}

// entry matches an entry, and records its step.
func (t *tracer) entry(m *matcher, v any, found bool, e *entry) *failure {
	i := len(t.steps)
	s := Step{Place: t.places[e], Pointer: m.pointer(), Value: v, Found: found, Depth: t.depth}
	s.Wants, s.Scalar = e.scalar()
	anchored := e.anchor != None && e.anchor != Addition
	if anchored {
		s.Anchor = e.anchor
		t.depth++
		defer func() { t.depth-- }()
	}
	t.steps = append(t.steps, s)
	f := m.matchAnchored(v, found, e)
	if f != nil {
		t.steps[i].Status = f.status
	}
	switch {
	case len(t.steps) > t.limit && (f == nil || f.status == Skip):
		t.truncate(i)
	case !s.Scalar && !anchored && (f == nil || len(t.steps) > i+1):
		t.drop(i)
	}
	return f
}

func (t *tracer) truncate(i int) {
	for j := range t.dropped {
		if j >= i {
			delete(t.dropped, j)
		}
	}
	t.steps = t.steps[:i]
}

func (t *tracer) drop(i int) {
	if i == len(t.steps)-1 {
		t.truncate(i)
		return
	}
	if t.dropped == nil {
		t.dropped = map[int]bool{}
	}
	t.dropped[i] = true
}

// scalar returns the scalar that a value is compared with, if there is one: the
// element, if the pattern is a list of one.
func (e *entry) scalar() (any, bool) {
	n := e.value
	if n.kind == listNode && e.anchor != Existence && len(n.list) > 0 {
		n = n.list[0]
	}
	if n.kind != scalarNode {
		return nil, false
	}
	return n.leaf.pattern, true
}
