package rego

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"
)

// A machine evaluates a plan for one question. It decides as OPA's evaluator
// does, or gives up: wherever OPA would report an error or read something unknown, it
// stops, and OPA's evaluator is asked. Without a tracer it evaluates all that OPA
// would, and more, but each document once. With a tracer it evaluates in the order of
// OPA without its index and cache, so that the tracer sees the same events.
type machine struct {
	bound   *bound
	input   *ast.Term
	data    *ast.Term
	hidden  []hiddenField
	tracer  *tracer // or nil
	values  []memo
	calls   map[callKey]memo
	undo    []binding
	slots   []*ast.Term // of all scopes, the latest last
	free    []*scope
	idle    []*application // not in use
	next    uint64
	lost    bool // OPA's evaluator has to be asked
	context topdown.BuiltinContext
}

// A hiddenField is an unknown field of the input. An expression that reads the field, or
// the whole object around it, can't be evaluated by a machine.
type hiddenField struct {
	object ast.Value
	key    string // "" for an object above
}

// A memo is the value of a document, once it is known.
type memo struct {
	known bool
	term  *ast.Term // nil: undefined
}

type binding struct {
	slots []*ast.Term
	slot  int
}

// A stop ends the search for further solutions, as in OPA, because a definition that
// needs only one solution has found it. With a nil stop the search continues.
type stop struct {
	before   *stop
	deferred bool // not this body but one further above needs only one
}

// givenUp ends an evaluation that is lost.
var givenUp = &stop{}

var errHalted = errors.New("halted")

// A scope is an evaluation of a body.
type scope struct {
	machine *machine
	names   map[ast.Var]int
	slots   []*ast.Term
	body    *body
	id      uint64
	parent  *scope
	findOne bool
	probes  bool // only whether there is a solution matters: found
	found   bool
	done    func() *stop // for each solution; nil: that of a called function
	called  called
}

// A called is the call of a function whose definition a scope evaluates.
type called struct {
	definition     *definition
	output         output
	before, result *ast.Term // of the definitions before, and of this one
	next           resume
}

// A resume is the continuation of an evaluation: a body from an expression on, or a
// function.
type resume struct {
	scope *scope
	step  int
	then  func() *stop
}

func (m *machine) resume(r resume) *stop {
	if r.then != nil {
		return r.then()
	}
	return m.run(r.scope, r.step)
}

// machine returns a machine that is ready for a question. release must follow.
func (q *Query) machine(ctx context.Context, in *Question, b *bound) *machine {
	data := in.Data
	if data == nil {
		data = noData
	}
	m, _ := q.machines.Get().(*machine)
	if m == nil {
		m = &machine{values: make([]memo, q.plan.cached), calls: map[callKey]memo{}}
	}
	m.bound, m.input, m.data = b, in.Input, data.documents
	m.context = topdown.BuiltinContext{
		Context: ctx, Metrics: metrics.NoOp(), Seed: noSeed{}, Cancel: b, Cache: builtins.Cache{}, Capabilities: q.program.compiler.Capabilities(),
		Time: ast.NumberTerm(json.Number(strconv.FormatInt(now(in.Now).UnixNano(), 10))),
	}
	return m
}

// release keeps the memory of a machine for its next evaluation.
func (q *Query) release(m *machine) {
	clear(m.values)
	clear(m.calls)
	*m = machine{values: m.values, calls: m.calls, undo: m.undo[:0], slots: m.slots[:0], free: m.free, idle: m.idle}
	q.machines.Put(m)
}

// answer evaluates the documents of a plan. ok is false if OPA's evaluator has to be asked.
func (m *machine) answer(p *plan) (answer ast.Value, ok bool) {
	terms := make([]*ast.Term, len(p.documents))
	for i, d := range p.documents {
		v, h := m.value(nil, d)
		if h != nil || m.lost || v != nil && m.hides(v) {
			return nil, false
		}
		terms[i] = v
	}
	if len(m.bound.unknown) > 0 {
		return nil, false
	}
	for _, t := range terms {
		if t == nil {
			return nil, true
		}
	}
	if p.several {
		return ast.NewArray(terms...), true
	}
	return terms[0].Value, true
}

// trace evaluates the one document of a plan for the tracer.
func (m *machine) trace(p *plan, query *body) (ok bool) {
	root := m.scope()
	root.body = query
	m.tracer.enter(query.boxed, root.id, 0, root)
	m.tracer.eval(root.id, query.steps[0].expr)
	d := p.documents[0]
	var h *stop
	if d.isSet {
		_, h = m.elements(root, d, nil)
	} else {
		h = m.complete(root, d, func(*ast.Term) *stop { return nil })
	}
	return h != givenUp && !m.lost
}

// enter begins the evaluation of a definition. leave must follow.
func (m *machine) enter(parent *scope, d *definition) *scope {
	s := m.scope()
	s.names, s.body, s.parent = d.names, d.body, parent
	n, size := len(m.slots), len(d.names)
	if n+size > cap(m.slots) {
		m.slots, n = make([]*ast.Term, 0, max(256, 2*size)), 0 // those in use stay where they are
	}
	m.slots = m.slots[:n+size]
	s.slots = m.slots[n : n+size : n+size]
	if m.tracer != nil {
		m.tracer.enter(d.rule, s.id, parentID(parent), s)
	}
	return s
}

// leave ends a call of enter.
func (m *machine) leave(s *scope) {
	clear(s.slots)
	if n := len(m.slots) - len(s.slots); n >= 0 && len(s.slots) > 0 && &m.slots[n] == &s.slots[0] {
		m.slots = m.slots[:n]
	}
	m.drop(s)
}

// within begins the evaluation of a body inside another one. drop must follow.
func (m *machine) within(parent *scope, b *body) *scope {
	s := m.scope()
	s.names, s.slots, s.body, s.parent = parent.names, parent.slots, b, parent
	if m.tracer != nil {
		m.tracer.enter(b.boxed, s.id, parent.id, s)
	}
	return s
}

// scope returns an empty scope, a dropped one if there is one.
func (m *machine) scope() *scope {
	id := m.next
	m.next++
	if n := len(m.free); n > 0 {
		s := m.free[n-1]
		m.free = m.free[:n-1]
		s.id = id
		return s
	}
	return &scope{machine: m, id: id}
}

func (m *machine) drop(s *scope) {
	*s = scope{machine: m}
	m.free = append(m.free, s)
}

func parentID(parent *scope) uint64 {
	if parent == nil {
		return 0
	}
	return parent.id
}

func (m *machine) left(s *scope) {
	if m.tracer != nil {
		m.tracer.exit(s.id)
	}
}

// run evaluates a body from an expression on, and calls done for each solution.
func (m *machine) run(s *scope, i int) *stop {
	if m.bound.Cancelled() {
		return givenUp
	}
	if i == len(s.body.steps) {
		var h *stop
		switch {
		case s.probes:
			m.left(s)
			s.found = true
		case s.done != nil:
			h = s.done()
		default:
			h = m.returned(s)
		}
		switch {
		case h == givenUp:
			return h
		case h != nil:
			return &stop{before: h, deferred: !s.findOne}
		case s.findOne:
			return &stop{}
		}
		return nil
	}
	st := &s.body.steps[i]
	if m.tracer != nil {
		return m.traced(s, st, i)
	}
	next := resume{scope: s, step: i + 1}
	if st.inner != nil {
		return m.not(s, st, next)
	}
	return m.step(s, st, next)
}

// traced evaluates an expression and sends its events to the tracer.
func (m *machine) traced(s *scope, st *step, i int) *stop {
	m.tracer.eval(s.id, st.expr)
	defined := false
	next := func() *stop {
		defined = true
		h := m.run(s, i+1)
		if m.tracer != nil && (st.inner == nil || st.isNot) {
			m.tracer.redo(s.id, st.expr)
		}
		return h
	}
	var h *stop
	if st.inner != nil {
		h = m.not(s, st, resume{then: next})
	} else {
		h = m.step(s, st, resume{then: next})
	}
	if h == nil && !defined {
		m.tracer.fail(s.id, st.expr)
	}
	return h
}

// not goes on if a body has no solution.
func (m *machine) not(s *scope, st *step, next resume) *stop {
	inner := m.within(s, st.inner)
	inner.probes = true
	h := m.run(inner, 0)
	defined := inner.found
	m.drop(inner)
	if h != nil || defined {
		return h
	}
	return m.resume(next)
}

// step goes on for each solution of an expression.
func (m *machine) step(s *scope, st *step, next resume) *stop {
	switch {
	case st.function != nil:
		return m.call(s, st, next)
	case st.builtin != nil:
		return m.builtin(s, st, next)
	case len(st.operands) == 1:
		return m.each(s, &st.operands[0], nil, sink{next: next})
	}
	return m.equal(s, &st.operands[0], &st.operands[1], next)
}

func isFalse(t *ast.Term) bool {
	b, ok := t.Value.(ast.Boolean)
	return ok && !bool(b)
}

// equal goes on for each way in which both sides are equal.
func (m *machine) equal(s *scope, a, b *operand, next resume) *stop {
	if a.kind != referring && (b.kind == referring || a.kind != comprehended && b.kind == comprehended) {
		a, b = b, a
	}
	if a.kind == referring || a.kind == comprehended {
		return m.each(s, a, b, sink{operand: b, next: next})
	}
	if t := m.known(s, a); t != nil {
		return m.unify(s, b, t, next)
	}
	if t := m.known(s, b); t != nil {
		return m.unify(s, a, t, next)
	}
	return givenUp // each side is known in part only
}

// each goes on for each value of an operand. other is the operand that it is compared
// with, or nil.
func (m *machine) each(s *scope, o, other *operand, next sink) *stop {
	switch o.kind {
	case referring:
		return m.refer(s, o.reference, other, next)
	case comprehended:
		t, h := m.comprehend(s, o.made)
		if h != nil {
			return h
		}
		return m.sink(s, next, t)
	}
	if t := m.known(s, o); t != nil {
		return m.sink(s, next, t)
	}
	return givenUp
}

// A sink consumes the values of an operand: it passes them to a function, unifies
// them with another operand or, without both, tests them.
type sink struct {
	then    func(*ast.Term) *stop
	operand *operand
	next    resume
}

func (m *machine) sink(s *scope, k sink, t *ast.Term) *stop {
	switch {
	case k.then != nil:
		return k.then(t)
	case k.operand != nil:
		return m.unify(s, k.operand, t, k.next)
	case isFalse(t):
		return nil
	}
	return m.resume(k.next)
}

// unify goes on for each way in which an operand equals a value.
func (m *machine) unify(s *scope, o *operand, t *ast.Term, next resume) *stop {
	switch o.kind {
	case referring, comprehended:
		if o.kind == comprehended && !o.made.maybe(t) {
			return nil // OPA does not evaluate it
		}
		return m.each(s, o, &operand{term: t}, sink{then: func(v *ast.Term) *stop {
			if !m.same(v, t) {
				return nil
			}
			return m.resume(next)
		}})
	case variable:
		if s.slots[o.slot] == nil {
			s.slots[o.slot] = t
			h := m.resume(next)
			s.slots[o.slot] = nil
			return h
		}
	}
	mark := len(m.undo)
	var h *stop
	if m.match(s, o, t) {
		h = m.resume(next)
	}
	m.unbind(mark)
	return h
}

// match binds the variables of an operand so that it equals a value, if possible.
// undo lists the bindings to undo.
func (m *machine) match(s *scope, o *operand, t *ast.Term) bool {
	switch o.kind {
	case constant:
		return m.same(o.term, t)
	case variable:
		if is := s.slots[o.slot]; is != nil {
			return m.same(is, t)
		}
		s.slots[o.slot] = t
		m.undo = append(m.undo, binding{s.slots, o.slot})
		return true
	}
	m.lost = m.lost || m.hides(t)
	switch v := t.Value.(type) {
	case *ast.Array:
		if _, ok := o.term.Value.(*ast.Array); !ok || v.Len() != len(o.parts) {
			return false
		}
		for i := range o.parts {
			if !m.match(s, &o.parts[i], v.Elem(i)) {
				return false
			}
		}
		return true
	case ast.Object:
		if _, ok := o.term.Value.(ast.Object); !ok || v.Len() != len(o.parts)/2 {
			return false
		}
		for i := 0; i < len(o.parts); i += 2 {
			k := m.known(s, &o.parts[i])
			if k == nil {
				m.lost = true
				return false
			}
			below := v.Get(k)
			if below == nil || !m.match(s, &o.parts[i+1], below) {
				return false
			}
		}
		return true
	}
	known := m.known(s, o)
	return known != nil && m.same(known, t)
}

// same reports whether two values are equal.
func (m *machine) same(a, b *ast.Term) bool {
	m.lost = m.lost || m.hides(a) || m.hides(b)
	return a.Equal(b)
}

func (m *machine) unbind(mark int) {
	for i := len(m.undo) - 1; i >= mark; i-- {
		m.undo[i].slots[m.undo[i].slot] = nil
	}
	m.undo = m.undo[:mark]
}

// known returns the value of an operand, or nil if a variable in it is unbound.
func (m *machine) known(s *scope, o *operand) *ast.Term {
	switch o.kind {
	case constant:
		return o.term
	case variable:
		return s.slots[o.slot]
	case collection:
		return m.collect(s, o)
	}
	return nil
}

// collect builds a collection, or returns nil if a part is not known.
func (m *machine) collect(s *scope, o *operand) *ast.Term {
	parts := make([]*ast.Term, len(o.parts))
	for i := range parts {
		if parts[i] = m.known(s, &o.parts[i]); parts[i] == nil {
			return nil
		}
		m.lost = m.lost || m.hides(parts[i])
	}
	t := &ast.Term{Location: o.term.Location}
	switch o.term.Value.(type) {
	case *ast.Array:
		t.Value = ast.NewArray(parts...)
	case ast.Set:
		t.Value = ast.NewSet(parts...)
	default:
		made := ast.NewObjectWithCapacity(len(parts) / 2)
		for i := 0; i < len(parts); i += 2 {
			made.Insert(parts[i], parts[i+1])
		}
		t.Value = made
	}
	return t
}

// hides reports whether a value is an object with an unknown field. An expression that
// reads all of the object can't be evaluated by a machine.
func (m *machine) hides(t *ast.Term) bool {
	for i := range m.hidden {
		if m.hidden[i].object == t.Value {
			return true
		}
	}
	return false
}

// An application calls one of OPA's functions.
type application struct {
	machine  *machine
	scope    *scope
	step     *step
	next     resume
	operands []*ast.Term
	end      *stop
	result   func(*ast.Term) error // the method value received, allocated once
}

// apply returns an idle application, or a new one.
func (m *machine) apply(s *scope, st *step, next resume) *application {
	var a *application
	if n := len(m.idle); n > 0 {
		a, m.idle = m.idle[n-1], m.idle[:n-1]
	} else {
		a = &application{machine: m}
		a.result = a.received
	}
	a.scope, a.step, a.next = s, st, next
	return a
}

// builtin calls one of OPA's functions.
func (m *machine) builtin(s *scope, st *step, next resume) *stop {
	a := m.apply(s, st, next)
	h := a.call()
	clear(a.operands)
	*a = application{machine: m, operands: a.operands[:0], result: a.result}
	m.idle = append(m.idle, a)
	return h
}

func (a *application) call() *stop {
	m, st := a.machine, a.step
	arity := st.builtin.Decl.Arity()
	for i := range st.operands {
		o := &st.operands[i]
		t := m.known(a.scope, o)
		switch {
		case t == nil && i < arity:
			return givenUp
		case t == nil:
			t = a.scope.Plug(o.term)
		case i < arity && m.hides(t) && (i > 0 || !m.readable(a.scope, st, t)):
			return givenUp
		}
		a.operands = append(a.operands, t)
	}
	m.context.Location = st.expr.Location
	if err := st.call(m.context, a.operands, a.result); a.end == nil && err != nil {
		return givenUp
	}
	return a.end
}

// received goes on with the function's result.
func (a *application) received(out *ast.Term) error {
	m, n := a.machine, len(a.operands)
	switch {
	case a.step.builtin.Decl.Result() == nil:
		a.end = m.resume(a.next)
	case n == a.step.builtin.Decl.Arity():
		if !isFalse(out) {
			a.end = m.resume(a.next)
		}
	default:
		a.end = m.unify(a.scope, &a.step.operands[n-1], out, a.next)
	}
	if a.end != nil {
		return topdown.Halt{Err: errHalted}
	}
	return nil
}

// readable reports whether a call reads only a known field of an object.
func (m *machine) readable(s *scope, st *step, object *ast.Term) bool {
	if st.builtin.Name != "object.get" || len(st.operands) < 2 {
		return false
	}
	key := m.known(s, &st.operands[1])
	if key == nil {
		return false
	}
	path := []*ast.Term{key}
	if list, ok := key.Value.(*ast.Array); ok {
		path = nil
		list.Foreach(func(k *ast.Term) { path = append(path, k) })
	}
	for _, k := range path {
		if object == nil || m.unreadable(object, k) {
			return object == nil
		}
		object = below(object, k)
	}
	return true
}

// comprehend builds the collection of a comprehension.
func (m *machine) comprehend(s *scope, c *comprehension) (*ast.Term, *stop) {
	var elements []*ast.Term
	inner := m.within(s, c.body)
	inner.done = func() *stop {
		m.left(inner)
		if c.key.term != nil {
			k := m.known(s, &c.key)
			if k == nil || m.hides(k) {
				return givenUp
			}
			elements = append(elements, k)
		}
		v := m.known(s, &c.value)
		if v == nil || m.hides(v) {
			return givenUp
		}
		elements = append(elements, v)
		return nil
	}
	h := m.run(inner, 0)
	m.drop(inner)
	if h != nil {
		return nil, h
	}
	switch c.kind.(type) {
	case *ast.Array:
		if len(elements) == 0 {
			return ast.InternedEmptyArray, nil
		}
		return ast.ArrayTerm(elements...), nil
	case ast.Set:
		if len(elements) == 0 {
			return ast.InternedEmptySet, nil
		}
		return ast.NewTerm(setOf(elements)), nil
	}
	if len(elements) == 0 {
		return ast.InternedEmptyObject, nil
	}
	made := ast.NewObject()
	for i := 0; i < len(elements); i += 2 {
		if is := made.Get(elements[i]); is != nil && !is.Equal(elements[i+1]) {
			return nil, givenUp
		}
		made.Insert(elements[i], elements[i+1])
	}
	return ast.NewTerm(made), nil
}

// maybe reports whether a comprehension makes values of a term's kind.
func (c *comprehension) maybe(t *ast.Term) bool {
	switch t.Value.(type) {
	case *ast.Array, ast.Object:
		return ast.ValueName(c.kind) == ast.ValueName(t.Value)
	case ast.Set:
		return true
	}
	return false
}

// setOf returns the set of elements. Of equal elements it keeps the first.
func setOf(elements []*ast.Term) ast.Set {
	set := ast.NewSet()
	for _, e := range elements {
		set.Add(e)
	}
	return set
}

// Plug replaces the bound variables of a term by their values.
func (s *scope) Plug(t *ast.Term) *ast.Term {
	switch v := t.Value.(type) {
	case ast.Var:
		if i, ok := s.names[v]; ok && s.slots[i] != nil {
			return s.slots[i]
		}
		return t
	case ast.Ref:
		out := make(ast.Ref, len(v))
		for i := range v {
			out[i] = s.Plug(v[i])
		}
		return ast.NewTerm(out)
	}
	if t.IsGround() {
		return t
	}
	switch v := t.Value.(type) {
	case *ast.Array:
		out := make([]*ast.Term, v.Len())
		for i := range out {
			out[i] = s.Plug(v.Elem(i))
		}
		return ast.ArrayTerm(out...)
	case ast.Set:
		plugged, _ := v.Map(func(e *ast.Term) (*ast.Term, error) { return s.Plug(e), nil })
		return ast.NewTerm(plugged)
	case ast.Object:
		plugged, _ := v.Map(func(k, e *ast.Term) (*ast.Term, *ast.Term, error) { return s.Plug(k), s.Plug(e), nil })
		return ast.NewTerm(plugged)
	}
	return t
}

// Input returns the input of the evaluation.
func (s *scope) Input() *ast.Term { return s.machine.input }

// hide records the unknown places of the input.
func (m *machine) hide(open []Open) {
	for _, o := range open {
		at := m.input
		for i, key := range o.Path {
			object, ok := at.Value.(ast.Object)
			if !ok {
				break
			}
			if i == len(o.Path)-1 {
				m.hidden = append(m.hidden, hiddenField{object, key})
				break
			}
			m.hidden = append(m.hidden, hiddenField{object, ""})
			if at = object.Get(ast.StringTerm(key)); at == nil {
				break
			}
		}
	}
}

// hasSolution reports whether a body has a solution. It evaluates without the tracer, which
// ignores the failures of a body that the bodies above it need.
func (m *machine) hasSolution(s *scope, evaluate func() *stop) bool {
	tracer, done, next, found := m.tracer, s.done, m.next, false
	m.tracer = nil
	s.done = func() *stop {
		found = true
		return &stop{}
	}
	h := evaluate()
	m.tracer, s.done, m.next = tracer, done, next
	m.lost = m.lost || h == givenUp
	return found
}
