package kyvernocel

import (
	celgo "github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
)

// explainer compiles an expression for explanations, in an environment without
// Kyverno's orValue, which they don't support. It returns nil if the expression
// can't be explained.
func (c *compiled) explainer(e *cel.Expression) *explain.Explainer {
	f := flavour{kind: c.policy.Kind, namespaced: c.policy.Namespace != "", strict: true}
	d, err := f.dialect()
	if err != nil {
		return nil
	}
	s, err := newScope(d)
	if err != nil {
		return nil
	}
	variables := make([]explain.Variable, 0, len(c.variables))
	for _, v := range c.variables {
		a, err := cel.Compile(s.env, v.Source)
		if err != nil {
			return nil
		}
		s.fields[v.Name] = a.OutputType()
		variables = append(variables, explain.Variable{Name: v.Name, AST: a})
	}
	a, err := cel.Compile(s.env, e.Source)
	if err != nil {
		return nil
	}
	x, _ := explain.New(d.Env(), a, variables)
	return x
}

// blame returns the fields that made a validation fail, as pointers into the
// evaluated object, and the literals that the failed part compares them with.
// It returns no fields if they are unknown, or if the policy sees the object in
// another version.
func (r *run) blame(e *cel.Expression) (fields, literals []string) {
	if r.as.Kind != r.req.Kind {
		return nil, nil
	}
	return r.failure(e).Fields(r.ctx, e.Explainer(), r.roots(), cel.RootOf(r.req.Operation))
}

func (r *run) failure(e *cel.Expression) cel.Failure {
	return cel.Failure{Source: e.Source, Secret: r.secret}
}

// roots returns the variables of expressions.
func (r *run) roots() map[string]any {
	return cel.RootsOf(orEmpty(r.objects.Tree), orEmpty(r.objects.OldTree), r,
		"request", "namespaceObject", exceptionsName, nowName, "images", "attestors", "attestations", "resource", "http", "globalContext", "image")
}

// orEmpty returns a tree, or an empty one if it is nil, as Kyverno does.
func orEmpty(tree map[string]any) map[string]any {
	if tree == nil {
		return map[string]any{}
	}
	return tree
}

var _ celgo.Activation = (*run)(nil)
