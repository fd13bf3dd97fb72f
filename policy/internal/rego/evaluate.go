package rego

import (
	"context"
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A usage counts evaluations of a query's plan, and those that were lost because
// OPA's evaluator had to answer.
type usage struct{ all, lost atomic.Int64 }

// hopeless reports whether the plan is given up so often that OPA's evaluator, which
// gives the same answer, is used at once.
func (u *usage) hopeless() bool {
	lost := u.lost.Load()
	return lost > 16 && lost*3 > u.all.Load()
}

// Prints reports whether the query may call print().
func (q *Query) Prints() bool { return q.plan == nil || q.plan.prints }

// evaluate answers a question by the query's plan. ok is false if OPA's evaluator has
// to answer.
func (q *Query) evaluate(ctx context.Context, in *Question) (ast.Value, bool) {
	if q.plan == nil || in.Print != nil && q.plan.prints || q.program.covered != nil || q.usage.hopeless() {
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

// trace evaluates the query's plan for a tracer. It returns false if OPA's evaluator
// has to do so.
func (q *Query) trace(ctx context.Context, in *Question, t *tracer) bool {
	if q.plan == nil || !q.plan.traceable || q.plan.several || len(q.body) != 1 {
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
