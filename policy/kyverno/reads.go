package kyverno

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/jmespath"
	"github.com/preadmit/preadmit/policy/internal/reads"
)

// ruleReads are the parts of a CREATE request that the verdict of a validate rule depends
// on, and those that only the message of a failure depends on. They are nil if it depends
// on anything else.
type ruleReads struct{ rule, message *reads.Part }

// readsOf returns what a rule reads.
func (e *Engine) readsOf(p *program) ruleReads {
	v := p.rule.Validate
	if v == nil || v.Manifests != nil || v.PodSecurity != nil || v.CEL != nil || e.options.CLI || e.covered != nil ||
		slices.ContainsFunc(e.exceptions, func(x *exemption) bool { return x.Covers(p.policy, p.rule.Name) }) {
		return ruleReads{}
	}
	r, m := newReader(), newReader()
	scope := visible(p.entries, nil)
	r.block(p.preconditions, scope)
	r.clause(p.clause, scope, reads.Flow{Parts: []*reads.Part{r.request.Field("object")}}, 0)
	m.template(p.message, scope).Consume()
	m.more = m.more || r.shadows && !p.message.static || r.messages != "" && strings.Contains(r.messages+v.Message, "{")
	return ruleReads{r.sealed(), m.sealed()}
}

// A reader follows parts of the request through a rule.
type reader struct {
	request  *reads.Part
	more     bool   // something else is read
	messages string // those of conditions, which become parts of that of the rule
	shadows  bool   // the message of the rule may see more names than those of the rule
	left     int    // context entries that may still be visited
}

const maxVisits = 10_000

func newReader() *reader { return &reader{request: &reads.Part{}, left: maxVisits} }

// requestNames are the fields of request that the key of a CREATE request may hold.
var requestNames = []string{"object", "oldObject", "operation", "name", "namespace"}

// sealed returns the parts that were read.
func (r *reader) sealed() *reads.Part {
	for name := range r.request.Fields {
		r.more = r.more || !slices.Contains(requestNames, name)
	}
	if r.more || r.request.All || r.request.Elements != nil {
		return nil
	}
	r.request.Seal()
	return r.request
}

// A name is visible to expressions: an element of foreach, or a context entry.
type name struct {
	text  string
	value reads.Flow
	entry *entry // nil: value is set
	outer *name
}

func visible(entries []*entry, scope *name) *name {
	for _, e := range entries {
		scope = &name{text: e.Name, entry: e, outer: scope}
	}
	return scope
}

// expression returns the flow of an expression's value in a scope.
func (r *reader) expression(expr *jmespath.Expression, scope *name) reads.Flow {
	f, ok := expr.Reads(func(text string) (reads.Flow, bool) {
		for s := scope; s != nil; s = s.outer {
			if s.text == text {
				return r.value(s), true
			}
		}
		return reads.Flow{Parts: []*reads.Part{r.request}}, text == "request"
	})
	r.more = r.more || !ok || aboutUser.MatchString(expr.String())
	return f
}

// value returns the flow of a name's value. A context entry that is a variable reads its
// value whole.
func (r *reader) value(n *name) reads.Flow {
	e := n.entry
	if e == nil {
		return n.value
	}
	switch r.left--; {
	case r.left < 0, e.Variable == nil, e.err != nil, e.static == nil && !e.fields["jmesPath"].static:
		r.more = true
	default:
		r.template(e.preset, n.outer).Consume()
		r.template(e.value, n.outer).Consume()
		if e.value == nil && e.static != nil {
			r.expression(e.static, n.outer).Consume()
		}
	}
	return reads.Flow{}
}

// template returns the flow of a template's value, which may be nil.
func (r *reader) template(t *template, scope *name) reads.Flow {
	switch {
	case t == nil:
		return reads.Flow{}
	case t.err != nil:
		r.more = true
		return reads.Flow{}
	}
	return r.node(t.root, scope)
}

func (r *reader) node(n node, scope *name) reads.Flow {
	switch n := n.(type) {
	case *textNode:
		if n.whole != nil {
			return r.variable(n.whole, scope)
		}
		for _, p := range n.parts {
			r.more = r.more || strings.Contains(p.literal, "{") // which may become a part of a variable
			if p.variable != nil {
				r.variable(p.variable, scope).Consume()
			}
		}
	case listNode:
		for _, e := range n {
			r.node(e, scope).Consume()
		}
	case mapNode:
		for _, e := range n {
			r.node(e.key, scope).Consume()
			r.node(e.value, scope).Consume()
		}
	}
	return reads.Flow{}
}

func (r *reader) variable(v *variable, scope *name) reads.Flow {
	if v.here || v.user || v.err != nil {
		r.more = true
		return reads.Flow{}
	}
	return r.expression(v.expr, scope)
}

// block follows conditions.
func (r *reader) block(b *block, scope *name) {
	if b == nil {
		return
	}
	for _, t := range b.terms {
		r.template(t.key, scope).Consume()
		r.template(t.value, scope).Consume()
		r.template(t.message, scope).Consume()
	}
}

// clause follows a clause for a value that patterns match, in a foreach of a depth.
func (r *reader) clause(c *clause, scope *name, value reads.Flow, depth int) {
	scope = visible(c.entries, scope)
	r.block(c.preconditions, scope)
	r.block(c.deny, scope)
	if c.deny != nil {
		for condition := range c.deny.terms {
			r.messages += condition.Message
		}
	}
	for _, p := range append(slices.Clone(c.anyPattern), c.pattern) {
		r.comparison(p, scope, value)
	}
	for _, l := range c.loops {
		r.shadows = r.shadows || len(l.clause.entries) > 0
		r.loop(l, scope, value, depth)
	}
}

func (r *reader) comparison(c *comparison, scope *name, value reads.Flow) {
	switch {
	case c == nil:
	case c.compiled != nil:
		c.compiled.Reads(value)
	default:
		r.template(c.template, scope).Consume()
		value.Consume()
	}
}

// loop follows a foreach. Its elements may be a value that is no list.
func (r *reader) loop(l *loop, scope *name, outer reads.Flow, depth int) {
	if l.list.text != nil || l.list.err != nil {
		r.more = true
		return
	}
	list := r.expression(l.list.expr, scope)
	items := list.Items().Or(list)
	for _, p := range items.Parts {
		p.Few = true
	}
	if !l.list.expr.InOrder() { // the place of an element is searched by its content
		items.Consume()
	}
	value := items
	switch {
	case l.scope == nil:
		value = items.Or(outer)
	case !*l.scope:
		value = outer
	}
	for _, text := range []string{"element", "element" + strconv.Itoa(depth)} {
		scope = &name{text: text, value: items, outer: scope}
	}
	for _, text := range []string{"elementIndex", "elementIndex" + strconv.Itoa(depth)} {
		scope = &name{text: text, outer: scope}
	}
	r.clause(l.clause, scope, value, depth+1)
}

// repeatable reports whether a verdict follows from the parts of the request that the
// rule's readers know of.
func (r *run) repeatable() bool {
	rev := r.review
	return rev.operation == opCreate && rev.object != nil && rev.old == nil && !rev.simulated && len(rev.assumed) == 0 &&
		rev.explainer == nil && !r.isSecret() && rev.isSmall()
}

// A rule's work grows with values that it does not read. With both limits it can't exceed
// maxWork for one of the objects that share a verdict.
const (
	maxSharedWork = 1000
	maxSharedSize = 1000 // values of an object
)

// isSmall reports whether the object has few values.
func (r *review) isSmall() bool {
	if !r.measured {
		r.measured, r.small = true, count(r.object, maxSharedSize) > 0
	}
	return r.small
}

// count returns left less the number of values in v, or less than 1 if there are more.
func count(v any, left int) int {
	left--
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if left = count(e, left); left <= 0 {
				return 0
			}
		}
	case []any:
		for _, e := range v {
			if left = count(e, left); left <= 0 {
				return 0
			}
		}
	}
	return left
}

// A requestKey is the key of a request that creates an object.
type requestKey struct{ run *run }

// Known implements reads.Key.
func (k requestKey) Known() bool { return k.run.program.reads().rule != nil }

// Append implements reads.Key.
func (k requestKey) Append(b []byte, messages bool) ([]byte, bool) {
	parts, r, ok := k.run.program.reads(), k.run.review, true
	p := parts.rule
	if messages {
		p = parts.message
	}
	if p == nil {
		return b, false
	}
	if object := p.Fields["object"]; object != nil {
		if b, ok = appendPart(b, object, r.object); !ok {
			return b, false
		}
	}
	if p.Fields["name"] != nil {
		b, ok = appendText(b, r.req.Name)
	}
	if p.Fields["namespace"] != nil && ok {
		b, ok = appendText(b, r.req.Namespace)
	}
	return b, ok
}

// fewElements is the length of the longest list over which a foreach may run: the place
// of an element of a longer one is searched by its content, see elementPointer.
const fewElements = 10

// appendPart appends a part of a value: each value after its type and length, so that
// different values have different texts.
func appendPart(b []byte, p *reads.Part, v any) ([]byte, bool) {
	if p.All {
		return appendWhole(b, v)
	}
	ok := true
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return append(b, 'e'), true
		}
		if b = append(b, 'm'); p.Keys {
			if b, ok = appendKeys(b, v); !ok {
				return b, false
			}
		}
		for _, name := range p.Names {
			field, found := v[name]
			if !found {
				b = append(b, '-')
				continue
			}
			if b, ok = appendPart(b, p.Fields[name], field); !ok {
				return b, false
			}
		}
		return b, true
	case []any:
		if p.Few && len(v) > fewElements {
			return b, false
		}
		b = binary.AppendUvarint(append(b, 'l'), uint64(len(v)))
		for i := 0; p.Elements != nil && i < len(v); i++ {
			if b, ok = appendPart(b, p.Elements, v[i]); !ok {
				return b, false
			}
		}
		return b, true
	case string:
		if v != "" {
			return append(b, 'S'), true
		}
	case int64, int:
		return append(b, 'I'), true
	case float64:
		return append(b, 'D'), true
	}
	return appendWhole(b, v)
}

// appendKeys appends the keys of a map.
func appendKeys(b []byte, m map[string]any) (_ []byte, ok bool) {
	b = binary.AppendUvarint(b, uint64(len(m)))
	var room [16]string
	for _, key := range sortedKeys(m, room[:0]) {
		if b, ok = appendText(b, key); !ok {
			return b, false
		}
	}
	return b, true
}

func sortedKeys(m map[string]any, room []string) []string {
	for key := range m {
		room = append(room, key)
	}
	slices.Sort(room)
	return room
}

func appendWhole(b []byte, v any) (_ []byte, ok bool) {
	switch v := v.(type) {
	case nil:
		return append(b, '0'), true
	case bool:
		if v {
			return append(b, 'b', 1), true
		}
		return append(b, 'b', 0), true
	case int64:
		return binary.AppendVarint(append(b, 'i'), v), true
	case int:
		return binary.AppendVarint(append(b, 'i'), int64(v)), true
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v)), true
	case string:
		return appendText(append(b, 's'), v)
	case []any:
		b = binary.AppendUvarint(append(b, 'l'), uint64(len(v)))
		for _, e := range v {
			if b, ok = appendWhole(b, e); !ok {
				return b, false
			}
		}
		return b, true
	case map[string]any:
		b = binary.AppendUvarint(append(b, 'm'), uint64(len(v)))
		var room [16]string
		for _, key := range sortedKeys(v, room[:0]) {
			if b, ok = appendText(b, key); !ok {
				return b, false
			}
			if b, ok = appendWhole(b, v[key]); !ok {
				return b, false
			}
		}
		return b, true
	}
	return b, false
}

// appendText appends a text, unless it may be a part of a variable.
func appendText(b []byte, text string) ([]byte, bool) {
	if strings.Contains(text, "{{") || strings.HasPrefix(text, "{") || strings.HasSuffix(text, "{") {
		return b, false
	}
	return append(binary.AppendUvarint(b, uint64(len(text))), text...), true
}
