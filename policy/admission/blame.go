package admission

import (
	"strings"
	"sync"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/render"
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
	why, err := explainer.Explain(x.review.ctx, explain.Input{Roots: x.roots(), Want: true})
	if err != nil {
		return nil, nil
	}
	root := "object"
	if x.review.req.Operation == policy.Delete {
		root = "oldObject"
	}
	for _, c := range why.Culprits {
		if c.Root == root {
			fields = append(fields, x.pointer(e, &c))
			telling = append(telling, c.Literals()...)
		}
	}
	return fields, telling
}

// pointer is where a culprit stands. The name of a missing field that the
// expression does not have may come from a Secret's values: then it is that of
// what would hold it.
func (x *run) pointer(e *expression, c *explain.Culprit) string {
	path := render.Path(c.Pointer)
	if n := len(path); c.Missing && n > 0 && x.secret() && !strings.Contains(e.source, path[n-1]) {
		return strings.TrimSuffix(c.Pointer, render.Pointer(path[n-1]))
	}
	return c.Pointer
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
	for _, name := range []string{"params", "request", "namespaceObject", "authorizer", "authorizer.requestResource"} {
		if v, bound := x.act.ResolveName(name); bound {
			roots[name] = v
		}
	}
	return roots
}
