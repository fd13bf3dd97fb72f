package rego

import (
	"context"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// A Cause is why a value is in a query's answer.
type Cause struct {
	Fields []Field   // as Blame has them
	Rule   *ast.Rule // the definition that gave it first; nil where that isn't known
}

// Causes is Blame that also says which of a rule's definitions gave each of
// the values.
func (q *Query) Causes(ctx context.Context, in Question, values []ast.Value) ([]Cause, error) {
	o := in.origins()
	in.Input, in.Print = o.input, nil
	t := newTracer(o, values)
	t.rules = &q.program.seen
	_, _, err := q.run(ctx, in, newBound(ctx, q.program.time), func(x *topdown.Query) {
		x.WithQueryTracer(t).WithIndexing(false).WithVirtualCache(forgetful{})
	})
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	causes := make([]Cause, len(values))
	for i, reads := range t.found {
		causes[i] = Cause{fields(reads, o.about()), t.from[i]}
	}
	return causes, nil
}
