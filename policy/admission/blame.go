package admission

import (
	celgo "github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/policy"
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
// tell, or where the policy sees the object in another version. telling are the
// texts that what failed compares them with.
func (x *run) blame(e *expression) (fields, telling []string) {
	if x.as.Kind != x.review.req.Kind {
		return nil, nil
	}
	explainer := e.explainer()
	if explainer == nil {
		return nil, nil
	}
	why, err := explainer.Explain(x.review.ctx, explain.Input{Roots: x.roots(), Want: true, Places: true})
	if err != nil {
		return nil, nil
	}
	root := "object"
	if x.review.req.Operation == policy.Delete {
		root = "oldObject"
	}
	return x.failure(e).Fields(&why, root)
}

func (x *run) failure(e *expression) cel.Failure {
	return cel.Failure{Source: e.source, Secret: x.secret()}
}

// roots are the values that the expression was evaluated over.
func (x *run) roots() map[string]any {
	roots := map[string]any{"object": any(nil), "oldObject": any(nil)}
	if x.objects.Tree != nil {
		roots["object"] = x.objects.Tree
	}
	if x.objects.OldTree != nil {
		roots["oldObject"] = x.objects.OldTree
	}
	for _, name := range []string{"params", "request", "namespaceObject", "authorizer", "authorizer.requestResource"} {
		if v, bound := x.act.ResolveName(name); bound {
			roots[name] = v
		}
	}
	return roots
}
