package rego

import (
	"context"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A usage counts how often a query's plan was evaluated, and how often that was in
// vain because OPA's evaluator had to be asked.
type usage struct{ all, lost atomic.Int64 }

// hopeless says whether to ask OPA's evaluator at once, which changes no answer.
func (u *usage) hopeless() bool {
	lost := u.lost.Load()
	return lost > 16 && lost*3 > u.all.Load()
}

// Prints says whether the query may call print().
func (q *Query) Prints() bool { return q.plan == nil || q.plan.prints }

// evaluate answers a question by the query's plan. It is not ok if OPA's evaluator
// has to be asked.
func (q *Query) evaluate(ctx context.Context, in *Question) (ast.Value, bool) {
	if q.plan == nil || in.Print != nil && q.plan.prints || in.Strict || q.program.covered != nil || q.usage.hopeless() {
		return nil, false
	}
	q.usage.all.Add(1)
	b := newBound(ctx, q.program.time)
	b.timeless = in.Now.IsZero()
	m := q.machine(ctx, in, b)
	if in.Input != nil {
		m.hide(in.Open)
	}
	value, ok := m.answer(q.plan)
	q.release(m)
	if !ok {
		q.usage.lost.Add(1)
	}
	return value, ok
}

// trace has a tracer watch the evaluation of the query's plan. It is false if OPA's
// evaluator has to be watched.
func (q *Query) trace(ctx context.Context, in *Question, t *tracer) bool {
	if q.plan == nil || !q.plan.traceable || q.plan.several || len(q.body) != 1 || in.Strict {
		return false
	}
	b := newBound(ctx, q.program.time)
	b.timeless = in.Now.IsZero()
	m := q.machine(ctx, in, b)
	m.tracer = t
	ok := m.trace(q.plan, &body{node: q.body, boxed: q.body, steps: []step{{expr: q.body[0]}}})
	q.release(m)
	return ok && len(b.unknown) == 0
}
