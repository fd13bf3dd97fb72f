package rego

import "github.com/open-policy-agent/opa/v1/ast"

// refer goes on for each value that a reference leads to. other is the operand that
// it is compared with, if any.
func (m *machine) refer(s *scope, r *reference, other *operand, next sink) *stop {
	w := walk{scope: s, reference: r, next: next}
	if other != nil && other.kind != referring && other.kind != comprehended {
		w.want = m.known(s, other)
	}
	switch r.root {
	case ofInput:
		if m.input == nil {
			return nil
		}
		return m.walk(w, 0, m.input)
	case ofData:
		return m.walk(w, 0, m.data)
	case ofDocument:
		return m.walkDocument(w)
	}
	if t := s.slots[r.slot]; t != nil {
		return m.walk(w, 0, t)
	}
	return nil
}

// A walk follows the steps of a reference.
type walk struct {
	scope     *scope
	reference *reference
	want      *ast.Term // the term that the value is compared with, if known
	next      sink
}

// walk goes on from a value before step i.
func (m *machine) walk(w walk, i int, t *ast.Term) *stop {
	for ; i < len(w.reference.steps); i++ {
		step := &w.reference.steps[i]
		key := m.known(w.scope, step)
		if m.unreadable(t, key) || w.reference.root == ofData && key != nil && !stored(t, key) {
			return givenUp
		}
		if key == nil {
			return m.enumerate(w, i, step, t)
		}
		if t = below(t, key); t == nil {
			return nil
		}
	}
	return m.sink(w.scope, w.next, t)
}

// below returns the value at a key; in a set, the key itself.
func below(t, key *ast.Term) *ast.Term {
	switch v := t.Value.(type) {
	case ast.Object:
		return v.Get(key)
	case *ast.Array:
		return v.Get(key)
	case ast.Set:
		if v.Contains(key) {
			return key
		}
	}
	return nil
}

// stored reports whether OPA's store has a key of data: it accepts numbers for texts,
// and the other way around.
func stored(t, key *ast.Term) bool {
	_, isText := key.Value.(ast.String)
	_, isArray := t.Value.(*ast.Array)
	return isText != isArray
}

// unreadable reports whether a step, or any step if key is nil, may read an unknown
// field.
func (m *machine) unreadable(t, key *ast.Term) bool {
	if key != nil && m.hides(key) {
		return true
	}
	for i := range m.hidden {
		h := &m.hidden[i]
		if h.object != t.Value {
			continue
		}
		if key == nil {
			return true
		}
		if s, ok := key.Value.(ast.String); !ok || string(s) == h.key && h.key != "" {
			return true
		}
	}
	return false
}

// enumerate goes on for each element of a value whose key matches a step.
func (m *machine) enumerate(w walk, i int, step *operand, t *ast.Term) *stop {
	var late *stop
	var h *stop
	switch v := t.Value.(type) {
	case *ast.Array:
		if step.kind != variable {
			return nil
		}
		for n := range v.Len() {
			if h, late = m.visit(w, i, step, ast.InternedTerm(n), v.Elem(n), late); h != nil {
				return h
			}
		}
	case ast.Object:
		keys := v.KeysIterator()
		for key, more := keys.Next(); more; key, more = keys.Next() {
			if h, late = m.visit(w, i, step, key, v.Get(key), late); h != nil {
				return h
			}
		}
	case ast.Set:
		if w.want != nil && i == len(w.reference.steps)-1 {
			if v.Contains(w.want) {
				h, late = m.visit(w, i, step, w.want, w.want, late)
			}
			if h != nil {
				return h
			}
			return late
		}
		for _, e := range v.Slice() {
			if h, late = m.visit(w, i, step, e, e, late); h != nil {
				return h
			}
		}
	}
	return late
}

// visit goes on from an element if its key matches a step. The enumeration ends with
// the first stop, or goes on and ends with the second.
func (m *machine) visit(w walk, i int, step *operand, key, element *ast.Term, late *stop) (now, later *stop) {
	mark := len(m.undo)
	var h *stop
	if m.match(w.scope, step, key) && m.mustTrace(w, i+1, element) {
		h = m.walk(w, i+1, element)
	}
	m.unbind(mark)
	switch {
	case h == nil || h == givenUp || !h.deferred:
		return h, late
	case late == nil:
		return nil, h
	}
	return nil, late
}

// mustTrace reports whether the tracer has to see the evaluation that follows from an
// element.
func (m *machine) mustTrace(w walk, i int, element *ast.Term) bool {
	return m.tracer == nil || !m.tracer.isExact(w.scope.id) || m.hasSolution(w.scope, func() *stop { return m.walk(w, i, element) })
}

// walkDocument goes on from the value of a document.
func (m *machine) walkDocument(w walk) *stop {
	d := w.reference.document
	if m.tracer == nil {
		t, h := m.value(w.scope, d)
		if h != nil || t == nil {
			return h
		}
		return m.walk(w, 0, t)
	}
	if !d.isSet {
		return m.complete(w.scope, d, func(t *ast.Term) *stop { return m.walk(w, 0, t) })
	}
	var key *operand
	if len(w.reference.steps) > 0 {
		key = &w.reference.steps[0]
	}
	t, h := m.elements(w.scope, d, key)
	if h != nil {
		return h
	}
	return m.walk(w, 0, t)
}

// value returns the value of a document, nil if it is undefined. It is evaluated
// once.
func (m *machine) value(s *scope, d *virtual) (*ast.Term, *stop) {
	v := &m.values[d.index]
	if v.known {
		return v.term, nil
	}
	var h *stop
	if d.isSet {
		v.term, h = m.elements(s, d, nil)
	} else {
		h = m.complete(s, d, func(t *ast.Term) *stop {
			v.term = t
			return nil
		})
	}
	v.known = true
	return v.term, h
}

// elements returns the set of a document: all of it, or the elements that may match a
// key.
func (m *machine) elements(s *scope, d *virtual, key *operand) (*ast.Term, *stop) {
	set := ast.NewSet()
	for _, def := range d.rules {
		c := m.enter(s, def)
		c.done = func() *stop {
			m.left(c)
			k := m.known(c, &def.key)
			if k == nil || m.hides(k) {
				return givenUp
			}
			if !set.Contains(k) {
				set.Add(k)
			}
			return nil
		}
		mark := len(m.undo)
		var h *stop
		if key == nil || m.narrow(s, key, c, &def.key) {
			h = m.run(c, 0)
		}
		m.unbind(mark)
		m.leave(c)
		if h != nil {
			return nil, h
		}
	}
	return ast.NewTerm(set), nil
}

// narrow binds the variables of a definition's head to the values that its caller
// knows. It returns false if they differ.
func (m *machine) narrow(s *scope, o *operand, c *scope, head *operand) bool {
	switch t := m.known(s, o); {
	case t != nil:
		return m.match(c, head, t)
	case o.kind == variable:
		return true
	}
	if t := m.known(c, head); t != nil {
		mark := len(m.undo)
		matched := m.match(s, o, t)
		m.unbind(mark)
		return matched
	}
	a, aOK := o.term.Value.(ast.Object)
	b, bOK := head.term.Value.(ast.Object)
	if head.kind != collection || !aOK || !bOK {
		m.lost = true
		return false
	}
	return a.Len() == b.Len() && m.narrowFields(s, o, c, head)
}

func (m *machine) narrowFields(s *scope, o *operand, c *scope, head *operand) bool {
	for i := 0; i < len(o.parts); i += 2 {
		key, found := m.known(s, &o.parts[i]), false
		for j := 0; j < len(head.parts); j += 2 {
			k := m.known(c, &head.parts[j])
			m.lost = m.lost || k == nil || key == nil
			if m.lost {
				return false
			}
			if k.Equal(key) {
				found = m.narrow(s, &o.parts[i+1], c, &head.parts[j+1])
			}
		}
		if !found {
			return false
		}
	}
	return true
}

// complete goes on for the value of a document that is not a set.
func (m *machine) complete(s *scope, d *virtual, next func(*ast.Term) *stop) *stop {
	if len(d.rules) > 0 && len(d.rules[0].args) > 0 || d.fallback != nil && len(d.fallback.args) > 0 {
		return nil // a function has no value
	}
	return m.first(d, func(def *definition, before *ast.Term) (*ast.Term, *stop) {
		var result *ast.Term
		c := m.enter(s, def)
		c.findOne = d.early && m.tracer != nil
		c.done = func() *stop {
			m.left(c)
			result = m.known(c, &def.value)
			switch {
			case result == nil:
				return givenUp
			case before == nil:
				before = result
				return next(result)
			case !m.same(before, result):
				return givenUp // two values
			}
			return nil
		}
		h := m.run(c, 0)
		m.leave(c)
		return result, h
	})
}

// first evaluates the definitions of a document that has one value: each, with its
// elses as long as it has none, and the default if none has. evaluate gets the
// value so far.
func (m *machine) first(d *virtual, evaluate func(def *definition, before *ast.Term) (*ast.Term, *stop)) *stop {
	var before *ast.Term
	var late *stop
	one := func(def *definition) (value *ast.Term, end *stop) {
		value, h := evaluate(def, before)
		if h != nil && h != givenUp && h.deferred {
			if late == nil {
				late = h
			}
			h = nil
		}
		return value, h
	}
	for _, def := range d.rules {
		value, h := one(def)
		if h != nil {
			return unwrap(h)
		}
		for i := 0; value == nil && i < len(def.elses); i++ {
			if value, h = one(def.elses[i]); h != nil {
				return unwrap(h)
			}
		}
		if value != nil {
			before = value
		}
	}
	if d.fallback != nil && before == nil {
		_, h := evaluate(d.fallback, nil)
		return unwrap(h)
	}
	return unwrap(late)
}

// unwrap returns the stop for the evaluation above the definition that stopped.
func unwrap(h *stop) *stop {
	if h == nil || h == givenUp {
		return h
	}
	return h.before
}

// call goes on for the result of a function.
func (m *machine) call(s *scope, st *step, next resume) *stop {
	if m.tracer == nil {
		if k, ok := m.callOf(s, st); ok {
			return m.callOnce(s, st, k, next)
		}
	}
	return m.evaluateCall(s, st, nil, next)
}

// evaluateCall goes on for the result of a function, or stores it in result.
func (m *machine) evaluateCall(s *scope, st *step, result **ast.Term, next resume) *stop {
	return m.first(st.function, func(def *definition, before *ast.Term) (*ast.Term, *stop) {
		if !m.mayMatch(s, st, def) {
			return nil, nil
		}
		mark := len(m.undo)
		c := m.enter(s, def)
		c.findOne = st.function.early && m.tracer != nil
		out, ok := m.bindArguments(s, c, st, def, result)
		var h *stop
		if ok {
			c.called = called{definition: def, output: out, before: before, next: next}
			h = m.run(c, 0)
		}
		value := c.called.result
		m.unbind(mark)
		m.leave(c)
		return value, h
	})
}

// mayMatch reports whether a call has the constants in a definition's arguments.
func (m *machine) mayMatch(s *scope, st *step, def *definition) bool {
	for i := range def.args {
		a := &def.args[i]
		if a.kind != constant {
			continue
		}
		if t := m.known(s, &st.operands[i]); t != nil && !m.same(a.term, t) {
			return false
		}
	}
	return true
}

// returned goes on with the result of a function, for a solution of a definition.
func (m *machine) returned(c *scope) *stop {
	m.left(c)
	k := &c.called
	k.result = m.known(c, &k.definition.value)
	switch {
	case k.result == nil:
		return givenUp
	case k.before != nil && !m.same(k.before, k.result):
		return givenUp // two values
	case k.output.result == nil && k.output.operand == nil && isFalse(k.result):
		k.before = k.result
		return nil
	case k.before != nil:
		return nil
	}
	k.before = k.result
	if k.output.result != nil {
		*k.output.result = k.result
		return nil
	}
	if !k.output.open {
		return m.resume(k.next)
	}
	slots, slot := c.parent.slots, k.output.operand.slot
	slots[slot] = k.result
	h := m.resume(k.next)
	slots[slot] = nil
	return h
}

// An output is the operand of a call that takes its result. It is open if it has no
// value before the call.
type output struct {
	operand *operand // nil: the call is a test
	open    bool
	result  **ast.Term // gets the result instead, if it isn't nil
}

// bindArguments gives a function's definition its arguments, and its result if the
// caller knows that. It is not ok if they don't match.
func (m *machine) bindArguments(s, c *scope, st *step, def *definition, result **ast.Term) (out output, ok bool) {
	n := len(def.args)
	for i := range n {
		t := m.known(s, &st.operands[i])
		if t == nil {
			m.lost = true
			return out, false
		}
		if !m.match(c, &def.args[i], t) {
			return out, false
		}
	}
	if out.result = result; result != nil || len(st.operands) == n {
		return out, true
	}
	out.operand = &st.operands[n]
	if t := m.known(s, out.operand); t != nil {
		return out, m.match(c, &def.value, t)
	}
	out.open = true
	m.lost = m.lost || out.operand.kind != variable
	return out, !m.lost
}
