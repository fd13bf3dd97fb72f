package kyvernocel

import (
	"slices"

	celgo "github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// Complete returns what may be written at the end of before, the beginning of the expression at a pointer of a
// policy. It returns nothing if there is no expression.
func Complete(types cel.Types, o *render.Object, pointer, before string) []policy.Completion {
	var d document
	kind := kindOf(o)
	if kind == "" || len(decode(o, &d, "policy")) > 0 {
		return nil
	}
	c := &compiled{policy: &Policy{Object: o, Kind: kind}, spec: &d.Spec}
	c.sources()
	at := slices.IndexFunc(c.expressions, func(e *cel.Expression) bool { return e.Pointer == pointer })
	if at < 0 {
		return nil
	}
	names, readable := &c.names, c.variables
	if i := slices.Index(c.variables, c.expressions[at]); i >= 0 {
		readable = readable[:i]
	} else if kind == Validating && slices.Contains(c.conditions, c.expressions[at]) {
		names = nil // they can't read variables
	}
	t := cel.NewKindTypes(types)
	kinds := t.Known(d.Spec.MatchConstraints)
	if d.Spec.TargetMatchConstraints != nil {
		kinds = t.Known(nil) // an object may be one that matches or a target
	}
	f := flavour{kind: kind, namespaced: kind != o.GetKind()}
	return cel.Newest().Complete(kinds, names, readable, before, func(kind schema.GroupVersionKind) (cel.Scope, error) {
		object := apiservercel.DynType
		if mode := d.Spec.Evaluation.Mode; mode == "" || mode == modeKubernetes {
			object = t.Decl(kind, "")
		}
		all := append(objectTypes(), object)
		env, err := celgo.NewEnv(f.options(object)...)
		return cel.Scope{Env: env, Types: []*apiservercel.DeclTypeProvider{apiservercel.NewDeclTypeProvider(all...)}}, err
	})
}
