package rego

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/print"
)

// noData is the data of a question without data.
var noData = NewData(ast.NewObject())

// Ask evaluates the query. The error is an *Error if the program is at fault, such as
// two values for one rule or an evaluation that doesn't end, or the context's error
// if that ends first. With an error, the answer has only the needs known so far.
func (q *Query) Ask(ctx context.Context, in Question) (Answer, error) {
	if q.ended.Load() >= maxEnded {
		return Answer{}, q.broken(fmt.Sprintf("the evaluation of %v took too much for other objects, and is not begun again", q.ref))
	}
	if value, ok := q.evaluate(ctx, &in); ok {
		return q.sized(Answer{Value: value})
	}
	b, value, swallowed, err := q.once(ctx, in, true)
	if b.opened && err == nil {
		// Read again without rule indexing: the index compares fields before the
		// expressions above them are evaluated, so it may read an open place that the
		// rule never reaches.
		in.Print = nil // the first evaluation has printed
		b, value, swallowed, err = q.once(ctx, in, false)
	}
	a := Answer{Unknown: b.asked()}
	if err != nil {
		return a, q.fault(b, err)
	}
	a.Value = value
	for i := range swallowed {
		e := evalError(&swallowed[i])
		a.Errors = append(a.Errors, e)
		if e.byZero() {
			a.ByZero = append(a.ByZero, e)
		}
	}
	a.Errors, a.ByZero = tidy(a.Errors), tidy(a.ByZero)
	return q.sized(a)
}

// Certain returns the elements of the query's partial set that a rule gives without reading an unknown
// place, whatever the other rules depend on. It returns none for other documents.
func (q *Query) Certain(ctx context.Context, in Question) ast.Set {
	const element = ast.Var("__element__") // no variable of a policy begins so
	in.Print = nil
	all := ast.NewSet()
	for _, rule := range q.program.Rules(q.ref) {
		if rule.Head.Key == nil {
			continue
		}
		one, found := *q, ast.NewSet()
		one.body = rule.Body.Copy()
		one.body.Append(ast.Equality.Expr(rule.Head.Key, ast.VarTerm(string(element))))
		b := newBound(ctx, q.program.time)
		b.timeless = in.Now.IsZero()
		s := in
		s.Input = in.watched(b)
		_, _, err := one.run(ctx, s, b, setup{cache: openCache{topdown.NewVirtualCache()}, each: func(r topdown.QueryResult) { found.Add(r[element]) }})
		if err == nil && len(b.unknown) == 0 {
			all = all.Union(found)
		}
	}
	return all
}

// sized returns an error for an answer that is too large.
func (q *Query) sized(a Answer) (Answer, error) {
	if a.Value != nil && size(a.Value, maxTree) >= maxTree {
		return Answer{Unknown: a.Unknown}, q.broken(fmt.Sprintf("the value of %v is larger than %d MiB", q.ref, maxTree>>20))
	}
	return a, nil
}

// once evaluates the query within limits of its own.
func (q *Query) once(ctx context.Context, in Question, indexing bool) (*bound, ast.Value, []topdown.Error, error) {
	b := newBound(ctx, q.program.time)
	b.timeless = in.Now.IsZero()
	s := setup{indexing: indexing}
	if len(in.Open) > 0 {
		in.Input, s.cache = in.watched(b), openCache{topdown.NewVirtualCache()}
	}
	value, swallowed, err := q.run(ctx, in, b, s)
	return b, value, swallowed, err
}

// A setup holds the options of one evaluation.
type setup struct {
	indexing bool                 // OPA's index selects the rules
	cache    topdown.VirtualCache // nil: OPA's
	tracer   topdown.QueryTracer  // nil: none
	each     func(topdown.QueryResult)
}

// run evaluates the query with OPA's evaluator.
func (q *Query) run(ctx context.Context, in Question, b *bound, s setup) (ast.Value, []topdown.Error, error) {
	data := in.Data
	if data == nil {
		data = noData
	}
	var swallowed []topdown.Error
	t := topdown.NewQuery(q.body).
		WithQueryCompiler(q.compiler).
		WithCompiler(q.program.compiler).
		WithStore(data.store).
		WithTransaction(data.txn).
		WithInput(in.Input).
		WithTime(now(in.Now)).
		WithSeed(noSeed{}).
		WithCancel(b).
		WithMetrics(metrics.NoOp()).
		WithBuiltins(ownBuiltins).
		WithBuiltinErrorList(&swallowed)
	if in.Print != nil {
		t = t.WithPrintHook(printer(in.Print))
	}
	if q.program.covered != nil && s.tracer == nil {
		t, s.indexing = t.WithQueryTracer(q.program.covered.tracer()), false // expressions of rules that the index leaves out would not be counted
	}
	t = t.WithIndexing(s.indexing)
	if s.cache != nil {
		t = t.WithVirtualCache(s.cache)
	}
	if s.tracer != nil {
		t = t.WithQueryTracer(s.tracer)
	}
	var value ast.Value
	err := t.Iter(ctx, func(r topdown.QueryResult) error {
		if s.each != nil {
			s.each(r)
			return nil
		}
		value = r[answer].Value
		return nil
	})
	return value, swallowed, err
}

// now returns the time of a question. OPA would replace the zero time by the clock's.
// See byQuestion.
func now(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0)
	}
	return t
}

// fault returns the error of an evaluation that ended without an answer.
func (q *Query) fault(b *bound, err error) error {
	if b.err != nil {
		return b.fault(q)
	}
	var e *topdown.Error
	if errors.As(err, &e) {
		return evalError(e)
	}
	return newError(nil, err.Error())
}

// A printer passes the output of print() to a function.
type printer func(name string, line int, text string)

func (p printer) Print(c print.Context, text string) error {
	if c.Location == nil {
		p("", 0, text)
		return nil
	}
	p(c.Location.File, c.Location.Row, text)
	return nil
}

// noSeed is an empty source of randomness: no allowed built-in function reads it.
type noSeed struct{}

func (noSeed) Read([]byte) (int, error) {
	return 0, errors.New("policies are evaluated without randomness")
}

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
