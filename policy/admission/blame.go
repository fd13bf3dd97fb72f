package admission

import (
	"sync"

	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
)

// explainer prepares the explanation of an expression on first use; nil when
// it can't be explained.
func (c *compiled) explainer(e *expression) func() *explain.Explainer {
	return sync.OnceValue(func() *explain.Explainer {
		env, err := cel.RunEnv()
		if err != nil {
			return nil
		}
		variables := make([]explain.Variable, len(c.variables))
		for i, v := range c.variables {
			variables[i] = explain.Variable{Name: c.policy.Spec.Variables[i].Name, AST: v.ast}
		}
		x, err := explain.New(env, e.ast, variables)
		if err != nil {
			return nil
		}
		return x
	})
}

// blame names the fields of the object that made a validation fail, as
// pointers into the object as it was rendered. It names none where it can't
// tell, or where the policy sees the object in another version.
func (x *run) blame(e *expression) []string {
	if x.as.Kind != x.review.req.Kind {
		return nil
	}
	explainer := e.explainer()
	if explainer == nil {
		return nil
	}
	why, err := explainer.Explain(x.review.ctx, explain.Input{Roots: x.roots(), Want: true})
	if err != nil {
		return nil
	}
	root := "object"
	if x.review.req.Operation == policy.Delete {
		root = "oldObject"
	}
	var fields []string
	for _, c := range why.Culprits {
		if c.Root == root {
			fields = append(fields, c.Pointer)
		}
	}
	return fields
}

// roots are the values that the expression was evaluated over.
func (x *run) roots() map[string]any {
	roots := map[string]any{"object": any(nil), "oldObject": any(nil)}
	if x.objects.objectTree != nil {
		roots["object"] = x.objects.objectTree
	}
	if x.objects.oldTree != nil {
		roots["oldObject"] = x.objects.oldTree
	}
	for name, v := range map[string]ref.Val{
		"params": x.act.params, "request": x.act.request, "namespaceObject": x.act.namespace,
		"authorizer": x.act.authorizer, "authorizer.requestResource": x.act.requestResource,
	} {
		if v != nil {
			roots[name] = v
		}
	}
	return roots
}
