package admission

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/admissionregistration/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render/rendertest"
)

const completed = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: a}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{apiGroups: [%q], apiVersions: [%s], operations: ["*"], resources: [%s]}]}
  variables:
  - {name: first, expression: %s}
  - {name: second, expression: variables.first}
  matchConditions: [{name: a, expression: "true"}]
  validations:
  - {expression: "true", messageExpression: "'a'"}
  auditAnnotations: [{key: a, valueExpression: "'a'"}]
`

const completedRules = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              namespace: {type: string}
              a-b: {type: array, items: {type: object, properties: {int: {type: integer}, c.d: {type: object, additionalProperties: {type: string}}}}}
`

// A walk is an expression that reads a path of a schema.
type walk struct {
	before string // what encloses the operand
	value  string // the operand
	closed string // what closes it
	schema *spec.Schema
}

func (w *walk) with(value string) string { return w.before + value + w.closed }

// fields returns the names that expressions use for the fields of a schema.
func fields(s *spec.Schema) map[string]*spec.Schema {
	all := make(map[string]*spec.Schema)
	for name := range s.Properties {
		inner := s.Properties[name]
		if escaped, ok := apiservercel.Escape(name); ok {
			if strings.HasPrefix(escaped, "__") && strings.HasSuffix(escaped, "__") {
				escaped = name // a reserved word
			}
			all[escaped] = &inner
		}
	}
	return all
}

// step goes to a field, an item or a value.
func (w *walk) step(r *rand.Rand) (name string, ok bool) {
	depth := strings.Count(w.before, "(")
	switch s := w.schema; {
	case len(s.Properties) > 0:
		all := fields(s)
		name = slices.Sorted(maps.Keys(all))[r.IntN(len(all))]
		w.value, w.schema = w.value+"."+name, all[name]
		return name, true
	case s.Items != nil && s.Items.Schema != nil && r.IntN(3) == 0:
		w.value, w.schema = w.value+"[0]", s.Items.Schema
	case s.Items != nil && s.Items.Schema != nil:
		x := fmt.Sprintf("x%d", depth)
		forms := []string{".all(%s, ", ".exists(%s, size(\")\") > 0 && ", ".all(i, %s, [1][0] == 1 || ", ".filter(%s, 'a(' != r'b\\' && ", ".exists_one(%s, true ? "}
		closing := []string{")", ")", ")", ").size() > 0", ": false)"}
		n := r.IntN(len(forms))
		w.before += w.value + fmt.Sprintf(forms[n], x)
		w.closed = closing[n] + w.closed
		w.value, w.schema = x, s.Items.Schema
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		w.value, w.schema = w.value+`["a.b"]`, s.AdditionalProperties.Schema
	default:
		return "", false
	}
	return w.step(r)
}

// namesOf returns the completions of some kinds of names.
func namesOf(all []policy.Completion, kinds ...policy.NameKind) []string {
	var names []string
	for _, c := range all {
		if slices.Contains(kinds, c.Kind) {
			names = append(names, c.Name)
		}
	}
	return names
}

func compiles(env *celgo.Env, expression string) bool {
	_, err := cel.Compile(env, expression)
	return err == nil
}

// macros are those that may be methods.
var macros = strings.Fields("all exists exists_one existsOne map filter sortBy transformList transformMap transformMapEntry optMap optFlatMap")

// callable reports whether a value has a method or macro, by trying to call it.
func callable(env *celgo.Env, of func(string) string, value, name string) bool {
	calls := []string{"", "dyn(1)", "dyn(1), dyn(1)", "dyn(1), dyn(1), dyn(1)"}
	if slices.Contains(macros, name) {
		calls = []string{"z, true", "z, z", "z, y, true", "z, y, {z: y}", "z, 1", "z, optional.of(z)"}
	}
	return slices.ContainsFunc(calls, func(args string) bool { return compiles(env, of("dyn("+value+name+"("+args+")) != 1")) })
}

// TestComplete walks random paths of the schemas of kinds. At each dot, the fields of the schema are offered and no
// others, and those methods that the checker knows and no others.
func TestComplete(t *testing.T) {
	t.Parallel()
	types := &CheckedTypes{Types: kindsOf(t, rendertest.Parse(t, "crd.yaml", []byte(completedRules))...)}
	for _, gvr := range []apischema.GroupVersionResource{
		{Version: "v1", Resource: "pods"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "batch", Version: "v1", Resource: "cronjobs"},
		{Version: "v1", Resource: "services"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
		{Version: "v1", Resource: "configmaps"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "example.com", Version: "v1", Resource: "widgets"},
	} {
		t.Run(gvr.Resource, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, uint64(len(gvr.Resource))))
			checker := newTypeChecker(cel.Newest(), types)
			kind := checker.Of([]v1.NamedRuleWithOperations{{RuleWithOperations: v1.RuleWithOperations{Rule: v1.Rule{APIGroups: []string{gvr.Group}, APIVersions: []string{gvr.Version}, Resources: []string{gvr.Resource}}}}})[0]
			root, _ := types.Schema(kind)
			typed, err := checker.env(typing{object: kind, hasParams: true, params: apischema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}})
			rendertest.OK(t, err)
			asked := make(map[string]bool)
			for range 12 {
				w := &walk{value: []string{"object", "oldObject", "(object)", "[object][0]"}[r.IntN(4)], schema: root}
				for {
					was := *w
					name, ok := w.step(r)
					if !ok {
						break
					}
					w := &walk{before: w.before, closed: w.closed, value: strings.TrimSuffix(w.value, "."+name), schema: was.schema}
					if w.before == was.before && w.value == was.value {
						was.schema = nil
					}
					start := w.before + w.value + "."
					if asked[start] {
						continue
					}
					asked[start] = true
					o := rendertest.Parse(t, "p.yaml", fmt.Appendf(nil, completed, gvr.Group, gvr.Version, gvr.Resource, "object"))[0]
					all := Complete(types, "", o, "/spec/validations/0/expression", start+name[:r.IntN(len(name)+1)])
					got := namesOf(all, policy.NameField)
					if !slices.Contains(got, name) {
						t.Fatalf("%s: %s is not offered, but %v", start, name, got)
					}
					for _, f := range got {
						if !compiles(typed.Env, w.with("dyn("+w.value+"."+f+") != 1")) {
							t.Errorf("%s: %s is offered, but %s is wrong", start, f, w.with("dyn("+w.value+"."+f+") != 1"))
						}
					}
				}
				checkMethods(t, types, typed.Env, gvr, w, asked)
			}
			if len(asked) < 6 {
				t.Errorf("only %d places", len(asked))
			}
		})
	}
}

// checkMethods compares the methods that are offered with those that the checker knows.
func checkMethods(t *testing.T, types Types, env *celgo.Env, gvr apischema.GroupVersionResource, w *walk, asked map[string]bool) {
	t.Helper()
	start, shape := w.before+w.value+".", fmt.Sprint(w.schema.Type, w.schema.Format, w.schema.AdditionalProperties != nil)
	if asked[shape] || compiles(env, w.with(w.value+" == 1 || "+w.value+" == 'a'")) { // of any type
		return
	}
	asked[shape] = true
	o := rendertest.Parse(t, "p.yaml", fmt.Appendf(nil, completed, gvr.Group, gvr.Version, gvr.Resource, "object"))[0]
	got := namesOf(Complete(types, "", o, "/spec/validations/0/expression", start), policy.NameFunction, policy.NameMacro)
	for _, f := range append(slices.Sorted(maps.Keys(env.Functions())), macros...) {
		if strings.ContainsAny(f, ".@!-") || strings.HasPrefix(f, "_") {
			continue
		}
		if is := slices.Contains(got, f); is != callable(env, w.with, w.value+".", f) {
			t.Errorf("%s: %s is offered: %v", start, f, is)
		}
	}
}

// TestCompleteNames uses each name that is offered where an expression begins.
func TestCompleteNames(t *testing.T) {
	t.Parallel()
	types := &CheckedTypes{Types: kindsOf(t)}
	o := rendertest.Parse(t, "p.yaml", fmt.Appendf(nil, completed, "", "v1", "pods", "object.spec.containers"))[0]
	env, err := newTypeChecker(cel.Newest(), types).env(typing{object: apischema.GroupVersionKind{Version: "v1", Kind: "Pod"}, hasParams: true, params: apischema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}})
	rendertest.OK(t, err)
	plain := func(s string) string { return s }
	at := func(pointer, before string) []policy.Completion { return Complete(types, "", o, pointer, before) }
	var check func(prefix string, all []policy.Completion)
	check = func(prefix string, all []policy.Completion) {
		for _, c := range all {
			name, ok := prefix+c.Name, false
			switch c.Kind {
			case policy.NameVariable:
				ok = c.Name == "variables" || c.Name == "c" || compiles(env.Env, name)
			case policy.NameLibrary:
				inner := at("/spec/validations/0/expression", name+".")
				check(name+".", inner)
				ok = len(inner) > 0
			default:
				ok = callable(env.Env, plain, prefix, c.Name) || c.Name == "has" || compiles(env.Env, name+"(1)") || compiles(env.Env, name+"(['a'])") || compiles(env.Env, name+"('a')")
			}
			if !ok {
				t.Errorf("%s (%s) is offered", name, c.Kind)
			}
		}
	}
	all := at("/spec/validations/0/expression", "object.spec.containers.all(c, o")
	check("", all)
	for _, want := range []string{"c", "object", "oldObject", "params", "request", "variables", "authorizer", "namespaceObject", "size", "has", "sets", "quantity"} {
		if !slices.ContainsFunc(all, func(c policy.Completion) bool { return c.Name == want }) {
			t.Errorf("%s is not offered", want)
		}
	}
}

// doubling is a nest of macros in which the type of each variable is twice as large as that before it.
func doubling(levels int) string {
	text := "cel.bind(v0, {1: 1}, "
	for i := range levels {
		text += fmt.Sprintf("cel.bind(v%d, {v%d: v%d}, ", i+1, i, i)
	}
	return text
}

// doublingVariables are variables of a policy whose types grow likewise.
func doublingVariables(levels int) string {
	text := "  - {name: v0, expression: '{1: 1}'}\n"
	for i := range levels {
		text += fmt.Sprintf("  - {name: v%d, expression: '{variables.v%d: variables.v%d}'}\n", i+1, i, i)
	}
	return strings.TrimSuffix(text, "\n")
}

// TestCompleteWhere compares what is offered in each kind of expression.
func TestCompleteWhere(t *testing.T) {
	t.Parallel()
	types := &CheckedTypes{Types: kindsOf(t)}
	validating := fmt.Sprintf(completed, "apps", "v1", "deployments, statefulsets", "object.spec.template.spec.containers")
	mutating := `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: a}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}
  matchConditions: [{name: a, expression: "true"}]
  mutations:
  - {patchType: JSONPatch, jsonPatch: {expression: "[]"}}
`
	for _, c := range []struct{ policy, pointer, before, want string }{
		{validating, "/spec/validations/0/expression", "variables.", "first second"},
		{validating, "/spec/validations/0/messageExpression", "variables.", "first second"},
		{validating, "/spec/auditAnnotations/0/valueExpression", "variables.", "first second"},
		{validating, "/spec/matchConditions/0/expression", "variables.f", "first second"},
		{validating, "/spec/variables/1/expression", "variables.", "first"},
		{validating, "/spec/variables/0/expression", "variables.", ""},
		{validating, "/spec/validations/0/expression", "variables.second.exists(c, c.securityContext.capabilities.", "add drop"},
		{validating, "/spec/validations/0/expression", "object.?spec.?selector.", "hasValue matchExpressions matchLabels optFlatMap optMap or orValue value"},
		{validating, "/spec/validations/0/expression", "object.?spec.selector.?", "matchExpressions matchLabels"},
		{validating, "/spec/validations/0/expression", "optional.of(object.spec).optMap(s, s.selector.", "matchExpressions matchLabels"},
		{validating, "/spec/validations/0/expression", "object.spec.template.spec.volumes.all(v, has(v.ephemeral) && v.name in [\"a)\", 'b'] // v.\n && v.emptyDir.", "medium sizeLimit"},
		{validating, "/spec/validations/0/expression", "(object.spec.template.spec.volumes)[0].emptyDir.", "medium sizeLimit"},
		{validating, "/spec/validations/0/expression", "[[object.spec]][0][0].selector.", "matchExpressions matchLabels"},
		{validating, "/spec/validations/0/expression", "cel.bind(a, object.spec, " + doubling(40) + "a.selector.", ""},
		{strings.Replace(validating, "variables:", "variables:\n"+doublingVariables(40), 1), "/spec/validations/0/expression", "variables.v39.", "all exists existsOne exists_one filter map size transformList transformMap transformMapEntry"},
		{validating, "/spec/validations/0/expression", "params.", "apiVersion binaryData data immutable kind metadata"},
		{validating, "/spec/validations/0/expression", "request.userInfo.", "extra groups uid username"},
		{validating, "/spec/validations/0/expression", "authorizer.", "group path requestResource serviceAccount"},
		{validating, "/spec/validations/0/messageExpression", "authorizer.", ""},
		{validating, "/spec/validations/0/expression", "object.spec.nothing.", ""},
		{validating, "/spec/validations/0/expression", "'object.", ""},
		{validating, "/spec/validations/0/expression", "true // object.", ""},
		{validating, "/spec/validations/0/expression", "object.spec.template.spec.containers.all(c", ""},
		{validating, "/spec/validations/0/expression", "object.spec.template.spec.containers).", ""},
		{validating, "/spec/validations/0/expression", ".", ""},
		{validating, "/spec/validations/0/message", "object.", ""},
		{mutating, "/spec/mutations/0/jsonPatch/expression", "object.", "apiVersion kind metadata"},
		{mutating, "/spec/matchConditions/0/expression", "object.spec.", ""},
	} {
		var got []string
		for _, x := range Complete(types, "", rendertest.Parse(t, "p.yaml", []byte(c.policy))[0], c.pointer, c.before) {
			got = append(got, x.Name)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s: %s", c.pointer, c.before, diff)
		}
	}
	for arguments, macros := range map[string]string{
		"v, ":       "all exists exists_one existsOne map filter sortBy",
		"v, true, ": "map",
		"i, v, ":    "all exists existsOne transformList transformMap transformMapEntry",
	} {
		for macro := range strings.FieldsSeq(macros) {
			before := "object.spec.template.spec.volumes." + macro + "(" + arguments + "v.emptyDir."
			got := Complete(types, "", rendertest.Parse(t, "p.yaml", []byte(validating))[0], "/spec/validations/0/expression", before)
			if names := namesOf(got, policy.NameField); !slices.Equal(names, []string{"medium", "sizeLimit"}) {
				t.Errorf("%s: %q", before, names)
			}
		}
	}
	for _, c := range Complete(types, "", rendertest.Parse(t, "p.yaml", []byte(validating))[0], "/spec/validations/0/expression", "object.spec.") {
		one := map[string]string{"strategy": "Deployment", "serviceName": "StatefulSet"}[c.Name]
		if one != "" && (len(c.Kinds) != 1 || c.Kinds[0].Kind != one) || one == "" && c.Name == "template" && c.Kinds != nil {
			t.Errorf("%s: %v", c.Name, c.Kinds)
		}
	}
	other := rendertest.Parse(t, "c.yaml", []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {expression: a}\n"))[0]
	if got := Complete(types, "", other, "/data/expression", "object."); got != nil {
		t.Errorf("an object that is no policy: %v", got)
	}
}
