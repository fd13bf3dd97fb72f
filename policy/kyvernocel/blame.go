package kyvernocel

import (
	celgo "github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
)

// explainer compiles an expression once more, in the environment whose orValue
// is that which explanations understand. It returns nil where it can't be explained.
func (c *compiled) explainer(e *expression) *explain.Explainer {
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
		a, err := cel.Compile(s.env, v.source)
		if err != nil {
			return nil
		}
		s.fields[v.name] = a.OutputType()
		variables = append(variables, explain.Variable{Name: v.name, AST: a})
	}
	a, err := cel.Compile(s.env, e.source)
	if err != nil {
		return nil
	}
	x, _ := explain.New(d.Env(), a, variables)
	return x
}

// blame names the fields of the object that made a validation fail, as
// pointers into the object as it was evaluated. It names none where it can't
// tell, or where the policy sees the object in another version. literals are the
// texts that what failed compares them with.
func (r *run) blame(e *expression) (fields, literals []string) {
	if r.as.Kind != r.req.Kind {
		return nil, nil
	}
	return r.failure(e).Fields(r.ctx, e.explainer(), r.roots(), cel.RootOf(r.req.Operation))
}

func (r *run) failure(e *expression) cel.Failure {
	return cel.Failure{Source: e.source, Secret: r.secret}
}

// roots are the values that expressions start from.
func (r *run) roots() map[string]any {
	roots := map[string]any{"object": orEmpty(r.objects.Tree), "oldObject": orEmpty(r.objects.OldTree)}
	for _, name := range []string{
		"request", "namespaceObject", exceptionsName, nowName, "images", "attestors", "attestations",
		"resource", "http", "globalContext", "image",
	} {
		if v, ok := r.ResolveName(name); ok {
			roots[name] = v
		}
	}
	return roots
}

// orEmpty is a tree, empty where there is none: so Kyverno shows it.
func orEmpty(tree map[string]any) map[string]any {
	if tree == nil {
		return map[string]any{}
	}
	return tree
}

var _ celgo.Activation = (*run)(nil)
