package admission

import (
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
)

// explainer returns a function that compiles an expression for explanations on
// first use. It returns nil if the expression can't be explained.
func (c *compiled) explainer(e *cel.Expression) func() *explain.Explainer {
	return c.names.ExplainerOf(e.AST, c.variables)
}

// blame returns the fields that made a validation fail, as pointers into the
// rendered object, and the literals that the failed part compares them with. It
// returns no fields if they are unknown, or if the policy sees the object in
// another version.
func (r *run) blame(e *cel.Expression) (fields, literals []string) {
	if r.as.Kind != r.review.req.Kind {
		return nil, nil
	}
	f := cel.Failure{Source: e.Source, Secret: r.secret()}
	return f.Fields(r.review.ctx, e.Explainer(), r.roots(), cel.RootOf(r.review.req.Operation))
}

// roots returns the variables with which the expression was evaluated.
func (r *run) roots() map[string]any {
	return cel.RootsOf(r.objects.Tree, r.objects.OldTree, &r.act, "params", "request", "namespaceObject", "authorizer", "authorizer.requestResource")
}
