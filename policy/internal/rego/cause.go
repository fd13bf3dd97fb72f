package rego

import (
	"context"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A Cause explains why a value is in a query's answer.
type Cause struct {
	Fields []Field   // the places of the input that it depends on, the likeliest first
	Rule   *ast.Rule // the first definition that yields the value; nil if unknown
}

// Causes evaluates the query again and returns the cause of each of the values,
// elements of its set. A value that isn't in the answer, or doesn't depend on the
// input, has no fields.
func (q *Query) Causes(ctx context.Context, in Question, values []ast.Value) ([]Cause, error) {
	o := in.origins()
	in.Input, in.Print = o.input, nil
	t := q.tracer(o, values)
	if !q.trace(ctx, &in, t) {
		t = q.tracer(o, values)
		_, _, err := q.run(ctx, in, newBound(ctx, q.program.time), setup{cache: noCache{}, tracer: t})
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	causes := make([]Cause, len(values))
	for i, reads := range t.found {
		causes[i] = Cause{fields(reads, o.about()), t.from[i]}
	}
	return causes, nil
}

func (q *Query) tracer(o *origins, values []ast.Value) *tracer {
	t := newTracer(o, values)
	t.rules = &q.program.seen
	return t
}
