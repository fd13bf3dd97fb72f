package admission

import (
	"slices"

	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// Complete returns what may be written at the end of before, the beginning of the expression at a pointer of a
// policy. It returns nothing if there is no expression.
func Complete(types Types, kubeVersion string, o *render.Object, pointer, before string) []policy.Completion {
	version, err := cel.ParseVersion(kubeVersion)
	c := expressionsOf(o)
	if err != nil || c == nil {
		return nil
	}
	t := newTypeChecker(version, types)
	of := c.typing()
	readable := -1 // variables
	c.each(func(e *cel.Expression) {
		if e.Pointer == pointer {
			readable = min(e.Number, len(c.variables))
			of.message, of.patches = slices.Contains(c.messages, e), c.mutates != nil && slices.Contains(c.validations, e)
		}
	})
	if readable < 0 {
		return nil
	}
	return version.Complete(t.Known(c.policy.Spec.MatchConstraints), &c.names, c.variables[:readable], before, func(kind schema.GroupVersionKind) (s cel.Scope, err error) {
		of.object = kind
		typed, err := t.env(of)
		if err != nil {
			return s, err
		}
		return cel.Scope{Env: typed.Env, Types: []*apiservercel.DeclTypeProvider{typed.types()}}, nil
	})
}

// expressionsOf returns the expressions of a policy, which need not be valid. It returns nil for other objects.
func expressionsOf(o *render.Object) *compiled {
	switch gvk := o.GroupVersionKind(); {
	case gvk.Group != v1.GroupName:
	case gvk.Kind == validatingFamily.policy:
		p := &v1.ValidatingAdmissionPolicy{}
		if _, ok := decode(o, p, "policy"); ok {
			return sources(p)
		}
	case gvk.Kind == mutatingFamily.policy:
		p := &v1.MutatingAdmissionPolicy{}
		if _, ok := decode(o, p, "policy"); ok {
			c := sources(shellOf(p))
			(&mutates{mutations: p.Spec.Mutations}).sources(c)
			return c
		}
	}
	return nil
}
