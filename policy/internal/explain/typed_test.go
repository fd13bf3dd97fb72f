package explain

import (
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

const typedSchema = `
type: object
properties:
  x-prop: {type: string}
  namespace: {type: string}
  when: {type: string, format: date-time}
  port: {x-kubernetes-int-or-string: true}
  labels: {type: object, additionalProperties: {type: string}}
  tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  more: {type: array, x-kubernetes-list-type: set, items: {type: string}}
  widgets:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [key]
    items:
      type: object
      properties: {key: {type: string}, foo: {type: integer}, a.b: {type: boolean}}
  extra:
    type: array
    x-kubernetes-list-type: map
    x-kubernetes-list-map-keys: [key]
    items: {type: object, properties: {key: {type: string}, foo: {type: integer}}}
`

const typedObject = `
x-prop: bad
namespace: shop
when: "2024-01-01T00:00:00Z"
port: http
labels: {a__dash__b: x, app: web}
tags: [a, b]
more: [b, c]
widgets:
- {key: x, foo: 12}
- {key: z, foo: 3, a.b: true}
extra:
- {key: q, foo: 99}
`

// typedSelf is an environment whose self follows a schema, as that of a
// CustomResourceDefinition's rules does, and the value.
func typedSelf(t testing.TB) (*cel.Env, any) {
	t.Helper()
	var s spec.Schema
	rendertest.OK(t, yaml.Unmarshal([]byte(typedSchema), &s))
	schema := &openapi.Schema{Schema: &s}
	decl := common.SchemaDeclType(schema, true).MaybeAssignTypeName("self")
	provider := apiservercel.NewDeclTypeProvider(decl)
	opts, err := provider.EnvOptions(testEnv().CELTypeProvider())
	rendertest.OK(t, err)
	env, err := testEnv().Extend(append(opts, cel.Variable("typed", decl.CelType()))...)
	rendertest.OK(t, err)
	return env, common.UnstructuredToVal(parseYAML(t, []byte(typedObject)), schema)
}

func TestTypedRoot(t *testing.T) {
	t.Parallel()
	env, self := typedSelf(t)
	for expr, want := range map[string][]string{
		`typed.x__dash__prop == 'good'`:                                       {"typed#/x-prop"},
		`typed.__namespace__ == 'x'`:                                          {"typed#/namespace"},
		`has(typed.labels.team)`:                                              {"typed#/labels/team"},
		`'team' in typed.labels`:                                              {"typed#/labels/team"},
		`typed.labels.all(k, k == 'app')`:                                     {"typed#/labels/a__dash__b"},
		`typed.labels.all(k, v, v == 'web')`:                                  {"typed#/labels/a__dash__b"},
		`typed.when < timestamp('2020-01-01T00:00:00Z')`:                      {"typed#/when"},
		`type(typed.port) == int`:                                             {"typed#/port"},
		`typed.widgets.all(w, w.foo < 10)`:                                    {"typed#/widgets/0/foo"},
		`!typed.widgets.exists(w, has(w.a__dot__b) && w.a__dot__b)`:           {"typed#/widgets/1/a.b"},
		`typed.tags == ['b']`:                                                 {"typed#/tags"},
		`(typed.tags + typed.more).all(x, x != 'c')`:                          {"typed#/more/1"},
		`(dyn(typed.widgets) + dyn(typed.extra)).all(w, w.foo < 50)`:          {"typed#/extra/0/foo"},
		`(dyn(typed.widgets) + dyn(typed.extra)).filter(w, w.foo > 50) == []`: {"typed#/extra/0/foo"},
		`typed.?widgets.orValue([]).exists(w, w.key == 'q')`:                  {"typed#/widgets"},
		`typed.widgets[0].foo == 1`:                                           {"typed#/widgets/0/foo"},
		`typed.widgets.exists(w, w.key == 'x' && has(w.a__dot__b))`:           {"typed#/widgets/0/a.b"},
	} {
		ast := compileExpr(t, env, expr)
		e, err := New(env, ast, nil)
		rendertest.OK(t, err)
		ex, err := e.Explain(t.Context(), Input{Roots: map[string]any{"typed": self}, Want: true})
		rendertest.OK(t, err)
		if diff := cmp.Diff(want, pointers(ex)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", expr, diff)
		}
		program, err := env.Program(ast)
		rendertest.OK(t, err)
		if v, _, err := program.Eval(map[string]any{"typed": self}); err == nil && v.Value() == true {
			t.Errorf("%s: does not fail", expr)
		}
	}
}

// TestTypedVariables has variables declared as an object type, as the API
// server does.
func TestTypedVariables(t *testing.T) {
	t.Parallel()
	decl := apiservercel.NewObjectType("kubernetes.variables", map[string]*apiservercel.DeclField{
		"replicas": apiservercel.NewDeclField("replicas", apiservercel.IntType, true, nil, nil),
		"double":   apiservercel.NewDeclField("double", apiservercel.IntType, true, nil, nil),
	})
	provider := apiservercel.NewDeclTypeProvider(decl)
	base, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.EnableMacroCallTracking())
	rendertest.OK(t, err)
	opts, err := provider.EnvOptions(base.CELTypeProvider())
	rendertest.OK(t, err)
	env, err := base.Extend(append(opts, cel.Variable("variables", decl.CelType()))...)
	rendertest.OK(t, err)
	e, err := New(env, compileExpr(t, env, "has(variables.double) && variables.double < 10"), []Variable{
		{"replicas", compileExpr(t, env, "object.spec.replicas")},
		{"double", compileExpr(t, env, "variables.replicas * 2")},
	})
	rendertest.OK(t, err)
	object := map[string]any{"spec": map[string]any{"replicas": int64(9)}}
	ex, err := e.Explain(t.Context(), Input{Roots: map[string]any{"object": object}, Want: true})
	rendertest.OK(t, err)
	rendertest.Equal(t, []string{"object#/spec/replicas"}, pointers(ex))
}
