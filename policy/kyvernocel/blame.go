package kyvernocel

import (
	"sync"

	celgo "github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
)

// explaining makes the explainer of an expression on first use.
type explaining struct {
	once sync.Once
	is   *explain.Explainer // nil when it can't be explained
}

// explainer compiles an expression once more, in the environment whose orValue
// is that which explanations understand.
func (c *compiled) explainer(e *expression) *explain.Explainer {
	e.explaining.once.Do(func() {
		f := flavour{kind: c.policy.Kind, namespaced: c.policy.Namespace != "", strict: true}
		d, err := f.dialect()
		if err != nil {
			return
		}
		s, err := newScope(d)
		if err != nil {
			return
		}
		variables := make([]explain.Variable, 0, len(c.variables))
		for _, v := range c.variables {
			a, err := cel.Compile(s.env, v.source)
			if err != nil {
				return
			}
			s.fields[v.name] = a.OutputType()
			variables = append(variables, explain.Variable{Name: v.name, AST: a})
		}
		a, err := cel.Compile(s.env, e.source)
		if err != nil {
			return
		}
		e.explaining.is, _ = explain.New(d.Env(), a, variables)
	})
	return e.explaining.is
}

// blame names the fields of the object that made a validation fail, as
// pointers into the object as it was judged. It names none where it can't
// tell, or where the policy sees the object in another version. telling are the
// texts that what failed compares them with.
func (x *run) blame(e *expression) (fields, telling []string) {
	if x.as.Kind != x.req.Kind {
		return nil, nil
	}
	explainer := x.c.explainer(e)
	if explainer == nil {
		return nil, nil
	}
	why, err := explainer.Explain(x.ctx, explain.Input{Roots: x.roots(), Want: true, Places: true})
	if err != nil {
		return nil, nil
	}
	root := "object"
	if x.req.Operation == policy.Delete {
		root = "oldObject"
	}
	return x.failure(e).Fields(&why, root)
}

func (x *run) failure(e *expression) cel.Failure {
	return cel.Failure{Source: e.source, Secret: x.secret}
}

// roots are the values that expressions start from.
func (x *run) roots() map[string]any {
	roots := map[string]any{"object": orEmpty(x.objects.Tree), "oldObject": orEmpty(x.objects.OldTree)}
	for _, name := range []string{
		"request", "namespaceObject", exceptionsName, nowName, "images", "attestors", "attestations",
		"resource", "http", "globalContext", "image",
	} {
		if v, ok := x.ResolveName(name); ok {
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
