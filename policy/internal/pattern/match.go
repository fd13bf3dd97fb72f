package pattern

import "strings"

// A matcher walks a value and a pattern together, once. It allocates nothing
// until something doesn't match.
type matcher struct {
	few  [1]presence
	many []presence // in place of few, for more than 64 keys

	trace *tracer // nil: no trace is recorded

	at   [24]segment // the path to the current value
	deep []segment   // the segments for which at has no room
	len  int
}

// presence records for 64 raw keys which were looked for, and which were found.
type presence struct{ seen, found uint64 }

// A segment is a key of a map, or an index of a list.
type segment struct {
	key   string
	index int
}

func (m *matcher) push(s segment) {
	if m.len < len(m.at) {
		m.at[m.len] = s
	} else {
		m.deep = append(m.deep[:m.len-len(m.at)], s)
	}
	m.len++
}

func (m *matcher) pop() { m.len-- }

func (m *matcher) segment(i int) segment {
	if i < len(m.at) {
		return m.at[i]
	}
	return m.deep[i-len(m.at)]
}

func (m *matcher) track(number int, found bool) {
	words := m.many
	if words == nil {
		words = m.few[:]
	}
	word, bit := &words[number/64], uint64(1)<<(number%64)
	word.seen |= bit
	if found {
		word.found |= bit
	}
}

// keysMissing reports whether the key of some condition or existence anchor was
// looked for and never found.
func (m *matcher) keysMissing() bool {
	missing := m.few[0].seen &^ m.few[0].found
	for _, word := range m.many {
		missing |= word.seen &^ word.found
	}
	return missing != 0
}

// match returns nil if the value matches the pattern.
func (m *matcher) match(value any, n *node) *failure {
	switch n.kind {
	case mapNode:
		v, ok := value.(map[string]any)
		if !ok {
			return m.fail(failure{text: differentStructures, pattern: map[string]any(nil), value: value})
		}
		return m.matchMap(v, n)
	case listNode:
		v, ok := value.([]any)
		if !ok {
			return m.fail(failure{text: notSatisfied})
		}
		return m.matchList(v, n)
	}
	return m.matchScalar(value, &n.leaf)
}

// matchScalar compares a scalar. If the value is a list, every element must
// match.
func (m *matcher) matchScalar(value any, l *leaf) *failure {
	list, ok := value.([]any)
	if !ok {
		if l.matches(value) {
			return nil
		}
		return m.fail(failure{text: mismatch, value: value, pattern: l.pattern})
	}
	for i, v := range list {
		if !l.matches(v) {
			f := m.fail(failure{text: mismatch, value: value, pattern: l.pattern})
			f.pointer += pointerTo(segment{index: i})
			return f
		}
	}
	return nil
}

// matchMap matches a map in Kyverno's two phases: first the anchors that decide
// whether it is matched at all, then the rest.
func (m *matcher) matchMap(value map[string]any, n *node) *failure {
	for i := range n.anchors {
		if e := &n.anchors[i]; e.track >= 0 {
			_, found := value[n.resolve(value, e)]
			m.track(e.track, found)
		}
	}
	if f := m.matchAnchors(value, n); f != nil {
		return f
	}
	for i := range n.rest {
		e := &n.rest[i]
		if f := m.matchEntry(value, n.resolve(value, e), e); f != nil {
			f.direct = false
			return f
		}
	}
	return nil
}

// matchAnchors returns the failure or skip that ends the map, or nil. A failure
// does not count after a skip by an anchor of the same map. Skips from below do
// not count if another anchor holds.
func (m *matcher) matchAnchors(value map[string]any, n *node) *failure {
	var skips []*failure
	holds, direct := false, false
	for i := range n.anchors {
		e := &n.anchors[i]
		f := m.matchEntry(value, n.resolve(value, e), e)
		switch {
		case f == nil:
			holds = true
		case f.status == Skip:
			direct = direct || f.direct
			f.direct = false
			skips = append(skips, f)
		case !direct:
			return f
		}
	}
	if len(skips) == 0 || holds && !direct {
		return nil
	}
	return m.skip(skips)
}

// skip returns a skip of the current value, caused by skips in it.
func (m *matcher) skip(causes []*failure) *failure {
	f := m.fail(failure{status: Skip, text: combined, causes: causes})
	f.pointer = causes[0].pointer
	return f
}

// matchEntry matches a map's value at a key.
func (m *matcher) matchEntry(value map[string]any, key string, e *entry) *failure {
	v, found := value[key]
	m.push(segment{key: key, index: -1})
	defer m.pop()
	if m.trace != nil {
		return m.trace.entry(m, v, found, e)
	}
	return m.matchAnchored(v, found, e)
}

// matchAnchored matches the value at a key by the rules of its anchor.
func (m *matcher) matchAnchored(v any, found bool, e *entry) *failure {
	switch e.anchor {
	case Condition:
		if !found {
			return m.fail(failure{status: Skip, text: conditionKeyMissing, direct: true})
		}
		return mismatched(m.match(v, e.value), conditionMismatch)
	case Global:
		if !found {
			return nil
		}
		return mismatched(m.match(v, e.value), globalMismatch)
	case Equality:
		if !found {
			return nil
		}
	case Existence:
		if !found {
			return nil
		}
		return m.matchExistence(v, e.value)
	case Negation:
		if !found {
			return nil
		}
		return m.fail(failure{text: notAllowed, negation: true})
	}
	if e.star {
		return m.matchStar(v)
	}
	return m.match(v, e.value)
}

// matchStar requires a field that is not null. The fault is at the parent.
func (m *matcher) matchStar(value any) *failure {
	if value != nil {
		return nil
	}
	f := m.fail(failure{text: notFound})
	f.key = m.segment(m.len - 1).key
	f.path = m.path(m.len - 1)
	return f
}

// mismatched turns a failure inside a condition into a skip.
func mismatched(f *failure, text message) *failure {
	if f == nil {
		return nil
	}
	return &failure{status: Skip, text: text, direct: true, path: f.path, pointer: f.pointer, causes: []*failure{f}}
}

// matchExistence requires an element of the list for each pattern.
func (m *matcher) matchExistence(value any, n *node) *failure {
	list, ok := value.([]any)
	if !ok {
		return m.fail(failure{text: existenceOfNoList, value: value})
	}
	if n.kind != listNode {
		return m.fail(failure{text: existencePatternNoList, pattern: n.leaf.pattern})
	}
	for _, element := range n.list {
		if element.kind != mapNode {
			return m.fail(failure{text: existencePatternNoMap})
		}
		if !m.anyMatches(list, element) {
			return m.fail(failure{text: existenceFailed})
		}
	}
	return nil
}

func (m *matcher) anyMatches(list []any, n *node) bool {
	for i, v := range list {
		m.push(segment{index: i})
		f := m.match(v, n)
		m.pop()
		if f == nil {
			return true
		}
	}
	return false
}

func (m *matcher) matchList(value []any, n *node) *failure {
	if len(n.list) == 0 {
		return m.fail(failure{text: emptyPattern})
	}
	switch first := n.list[0]; first.kind {
	case scalarNode:
		return m.matchScalar(value, &first.leaf)
	case mapNode:
		return m.matchElements(value, n.list, false)
	}
	if len(value) < len(n.list) {
		f := m.fail(failure{text: lengthMismatch, value: len(value), pattern: len(n.list)})
		f.path = ""
		return f
	}
	return m.matchElements(value, n.list, true)
}

// matchElements matches each element of a value with the one pattern, or each
// pattern with the element of its index. Skips count only if nothing matches.
func (m *matcher) matchElements(value []any, patterns []*node, byIndex bool) *failure {
	matched := false
	var skips []*failure
	for i, v := range value {
		n := patterns[0]
		if byIndex {
			if i == len(patterns) {
				break
			}
			n = patterns[i]
		}
		m.push(segment{index: i})
		f := m.match(v, n)
		m.pop()
		switch {
		case f == nil:
			matched = true
		case f.status != Skip:
			return f
		default:
			f.direct = false
			skips = append(skips, f)
		}
	}
	if matched || len(skips) == 0 {
		return nil
	}
	return m.skip(skips)
}

// resolve returns the key of the value for an entry. If keys may contain
// wildcards, it is the first matching key of the value, preferably one whose
// value matches too, or else the key as written.
func (n *node) resolve(value map[string]any, e *entry) string {
	if !n.expand || !e.wild {
		return e.key
	}
	both, either := "", ""
	for k, v := range value {
		if !Wildcard(e.key, k) {
			continue
		}
		either = earlier(either, k)
		if e.value.kind == scalarNode && e.value.leaf.matches(v) {
			both = earlier(both, k)
		}
	}
	switch {
	case both != "":
		return both
	case either != "":
		return either
	}
	return e.key
}

func earlier(a, b string) string {
	if a == "" || strings.Compare(b, a) < 0 {
		return b
	}
	return a
}
