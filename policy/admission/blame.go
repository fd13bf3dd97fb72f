package admission

import (
	celgo "github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
)

// explainer prepares the explanation of an expression on first use; nil when
// it can't be explained.
func (c *compiled) explainer(e *expression) func() *explain.Explainer {
	return c.names.ExplainerOf(e.ast, func(i int) *celgo.Ast { return c.variables[i].ast })
}

// blame names the fields of the object that made a validation fail, as
// pointers into the object as it was rendered. It names none where it can't
// tell, or where the policy sees the object in another version. literals are the
// texts that what failed compares them with.
func (r *run) blame(e *expression) (fields, literals []string) {
	if r.as.Kind != r.review.req.Kind {
		return nil, nil
	}
	f := cel.Failure{Source: e.source, Secret: r.secret()}
	return f.Fields(r.review.ctx, e.explainer(), r.roots(), cel.RootOf(r.review.req.Operation))
}

// roots are the values that the expression was evaluated over.
func (r *run) roots() map[string]any {
	roots := map[string]any{"object": any(nil), "oldObject": any(nil)}
	if r.objects.Tree != nil {
		roots["object"] = r.objects.Tree
	}
	if r.objects.OldTree != nil {
		roots["oldObject"] = r.objects.OldTree
	}
	for _, name := range []string{"params", "request", "namespaceObject", "authorizer", "authorizer.requestResource"} {
		if v, bound := r.act.ResolveName(name); bound {
			roots[name] = v
		}
	}
	return roots
}
