package cel

import (
	"testing"

	"github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestPlainErrors holds what a person reads of expressions with one mistake each.
func TestPlainErrors(t *testing.T) {
	t.Parallel()
	field := func(name string, typ *apiservercel.DeclType) map[string]*apiservercel.DeclField {
		return map[string]*apiservercel.DeclField{name: apiservercel.NewDeclField(name, typ, true, nil, nil)}
	}
	spec := apiservercel.NewObjectType("Deployment.spec", field("replicas", apiservercel.IntType))
	object := apiservercel.NewObjectType("Deployment", field("spec", spec))
	env, err := Newest().Env(Declarations{Variables: map[string]*cel.Type{"object": object.CelType()}, Types: []*apiservercel.DeclType{object}})
	rendertest.OK(t, err)
	for source, want := range map[string]string{
		"object.spec.replicas = 3":         "syntax error: = is not an operator; did you mean ==?",
		"object.spec.replicas > 1 & true":  "syntax error: & is not an operator; did you mean &&?",
		"object.spec.replicas > 1 | true":  "syntax error: | is not an operator; did you mean ||?",
		"true and false":                   "syntax error: unexpected and; did you mean &&?",
		"has(object.spec":                  "syntax error: a ) is missing at the end",
		"object.spec.replicas <":           "syntax error: the expression is incomplete",
		"object.spec.replicas == 'x":       "syntax error: the quote ' that opens here is never closed",
		"object.spec.replicas > 1)":        "syntax error: unexpected )",
		"objet.spec.replicas > 1":          `there is no variable or function "objet"; did you mean object?`,
		"'x'.startWith('y')":               `there is no variable or function "startWith"; did you mean startsWith?`,
		"object.spec.replcas > 1":          `there is no field "replcas"; did you mean replicas?`,
		"object.spec.replicas == 'x'":      "== does not take (int, string)",
		"object.spec.a > 1 || object.b.c":  `there is no field "a" (and 1 more in this expression)`,
		"object.spec.replicas ? 'a' : 'b'": "the condition ? : does not take (int, string, string)",
	} {
		_, err := Compile(env, source)
		if wrong, ok := err.(*CompileError); ok {
			wrong.SuggestFields(env, source, func() *apiservercel.DeclTypeProvider { return apiservercel.NewDeclTypeProvider(object) })
		}
		if got := PlainError(err).Error(); got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}
