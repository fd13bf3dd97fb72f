package rego

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A callKey identifies a function and its arguments: scalars by value, collections by
// identity.
type callKey struct {
	function *virtual
	args     [2]ast.Value
}

// results holds the results of a function that depends on its arguments alone, for
// all questions. It is safe for concurrent use.
type results struct {
	known sync.Map // of [2]ast.Value: *ast.Term, nil if undefined
	size  atomic.Int64
}

// maxResults bounds the kept results of a function, and maxResult the bytes of a text
// in them.
const (
	maxResults = 4096
	maxResult  = 64
)

// callOf returns the key of a call. ok is false if its result is not kept.
func (m *machine) callOf(s *scope, st *step) (k callKey, ok bool) {
	n := st.arguments()
	if n == 0 || n > len(k.args) {
		return k, false
	}
	k.function = st.function
	for i := range n {
		t := m.known(s, &st.operands[i])
		if t == nil {
			return k, false
		}
		k.args[i] = t.Value
	}
	return k, true
}

// arguments returns the number of arguments of the called function.
func (s *step) arguments() int {
	switch {
	case len(s.function.rules) > 0:
		return len(s.function.rules[0].args)
	case s.function.fallback != nil:
		return len(s.function.fallback.args)
	}
	return 0
}

// callOnce goes on for the result of a call, evaluating it only the first time.
func (m *machine) callOnce(s *scope, st *step, k callKey, next resume) *stop {
	result, known := m.result(k)
	if !known {
		if h := m.evaluateCall(s, st, &result, resume{}); h != nil {
			return h
		}
		m.keep(k, result)
	}
	switch n := st.arguments(); {
	case result == nil:
		return nil
	case n < len(st.operands):
		return m.unify(s, &st.operands[n], result, next)
	case isFalse(result):
		return nil
	}
	return m.resume(next)
}

// result returns the kept result of a call, nil if it is undefined.
func (m *machine) result(k callKey) (*ast.Term, bool) {
	if k.isLasting() {
		if t, ok := k.function.results.known.Load(k.args); ok {
			return t.(*ast.Term), true
		}
	}
	r := m.calls[k]
	return r.term, r.known
}

// keep stores the result of a call, for this question or for all.
func (m *machine) keep(k callKey, result *ast.Term) {
	if m.lost {
		return
	}
	if k.isLasting() && (result == nil || isShort(result.Value)) && k.function.results.size.Load() < maxResults {
		k.function.results.size.Add(1)
		for i, a := range k.args {
			k.args[i] = cloned(a)
		}
		if result != nil {
			result = ast.NewTerm(cloned(result.Value))
		}
		k.function.results.known.Store(k.args, result)
		return
	}
	if m.calls == nil {
		m.calls = map[callKey]memo{}
	}
	m.calls[k] = memo{true, result}
}

// isLasting reports whether the result of a call is the same for all questions.
func (c *callKey) isLasting() bool {
	return !c.function.depends && isShort(c.args[0]) && (c.args[1] == nil || isShort(c.args[1]))
}

// isShort reports whether a value is a short scalar.
func isShort(v ast.Value) bool {
	switch v := v.(type) {
	case ast.String:
		return len(v) <= maxResult
	case ast.Number:
		return len(v) <= maxResult
	case ast.Boolean, ast.Null:
		return true
	}
	return false
}

// cloned copies a scalar, so that it doesn't keep a larger text alive.
func cloned(v ast.Value) ast.Value {
	switch v := v.(type) {
	case ast.String:
		return ast.String(strings.Clone(string(v)))
	case ast.Number:
		return ast.Number(strings.Clone(string(v)))
	}
	return v
}
