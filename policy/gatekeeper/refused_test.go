package gatekeeper

import (
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestRefused holds that what Gatekeeper or the API server would refuse is an
// error at its line, and that nothing evaluates by it.
func TestRefused(t *testing.T) {
	t.Parallel()
	change := func(old, with string) string {
		text := templateOf(labelled)
		if !strings.Contains(text, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(text, old, with, 1)
	}
	const target = "  targets:\n  - target: admission.k8s.gatekeeper.sh\n"
	for _, c := range []struct {
		name, policies string
		want           []string
	}{
		{"no target", strings.Split(templateOf(labelled), target)[0], []string{"policy.yaml:4:1: a template has exactly one target, and this one has 0"}},
		{"two targets", templateOf(labelled) + "  - target: admission.k8s.gatekeeper.sh\n    rego: x\n", []string{"policy.yaml:14:3: a template has exactly one target, and this one has 2"}},
		{"unknown target", change("admission.k8s.gatekeeper.sh", "x.gatekeeper.sh"), []string{`policy.yaml:15:13: target "x.gatekeeper.sh" is not known: the only one is admission.k8s.gatekeeper.sh`}},
		{"nameless target", change("admission.k8s.gatekeeper.sh", `""`), []string{"policy.yaml:15:13: the target has no name"}},
		{"kind and name", change("kind: K}", "kind: Other}"), []string{`policy.yaml:3:18: the template's name "k" is not that of its kind in lower case, "other"`}},
		{"no kind", change("{kind: K}", "{}"), []string{`policy.yaml:7:7: template "k" does not say the kind of its constraints`}},
		{"version", change("/v1\n", "/v2\n"), []string{"policy.yaml:1:13: Gatekeeper has no ConstraintTemplate in version v2"}},
		{"operation", change("  - target:", "  - operations: [CREATE, WATCH]\n    target:"), []string{`policy.yaml:15:26: operation "WATCH" is none of *, CREATE, UPDATE, DELETE, CONNECT`}},
		{"no code", strings.Split(templateOf(labelled), "    rego:")[0], []string{"policy.yaml:15:5: the target has no code of an engine that is known: Rego or K8sNativeValidation"}},
		{"schema without a type", change("          type: object\n", ""), []string{`policy.yaml:9:9: openAPIV3Schema.type: Required value: must not be empty for specified object fields`}},
		{"type of a field", change("openAPIV3Schema:\n          type: object", "openAPIV3Schema:\n          type: 7"), []string{"policy.yaml:10:17: crd.spec.validation.openAPIV3Schema.type: is of type number, and should be a string"}},
		{"syntax", templateOf("package k\nviolation[{\"msg\": msg}] {\n  msg :=\n}"), []string{"policy.yaml:20:7: unexpected } token"}},
		{"undefined variable", templateOf("package k\nviolation[{\"msg\": msg}] {\n  x := y\n  msg := \"a\"\n}"), []string{"policy.yaml:19:9: var y is unsafe"}},
		{"recursion", templateOf("package k\nviolation[{\"msg\": msg}] { msg := f }\nf = x { x := f }"), []string{"policy.yaml:19:7: rule data.template.f is recursive: data.template.f -> data.template.f"}},
		{"http.send", templateOf("package k\nviolation[{\"msg\": msg}] { msg := http.send({}).body }"), []string{"policy.yaml:18:40: http.send is not available: policies are evaluated offline"}},
		{"no violation", templateOf("package k\ndeny[x] { x := 1 }"), []string{"policy.yaml:17:7: the module has no rule violation, which Gatekeeper evaluates"}},
		{"a function", templateOf("package k\nviolation(x) = y { y := x }"), []string{`policy.yaml:18:7: violation is a function, and Gatekeeper expects a set: violation[{"msg": msg}]`}},
		{"a constant", templateOf("package k\nviolation = true { true }"), []string{`policy.yaml:18:7: violation never gives an object with a msg, and Gatekeeper expects violation[{"msg": msg}]`}},
		{"a default", templateOf("package k\ndefault violation = false"), []string{`policy.yaml:18:7: violation never gives an object with a msg, and Gatekeeper expects violation[{"msg": msg}]`}},
		{"texts", templateOf("package k\nviolation[\"x\"] { true }"), []string{`policy.yaml:18:7: violation never gives an object with a msg, and Gatekeeper expects violation[{"msg": msg}]`}},
		{"objects without msg", templateOf("package k\nviolation[{\"message\": \"x\"}] { true }"), []string{`policy.yaml:18:7: violation never gives an object with a msg, and Gatekeeper expects violation[{"msg": msg}]`}},
		{"a list", templateOf("package k\nviolation = [{\"msg\": \"x\"}] { true }"), []string{`policy.yaml:18:7: violation never gives an object with a msg, and Gatekeeper expects violation[{"msg": msg}]`}},
		{"other data", templateOf("package k\nviolation[{\"msg\": msg}] { msg := data.other.x }"), []string{"policy.yaml:18:40: data.other.x: of data, templates may read data.inventory and data.lib only"}},
		{"other import", templateOf("package k\nimport data.inventory\nviolation[{\"msg\": msg}] { msg := inventory.x }"), []string{"policy.yaml:18:7: import data.inventory: only libraries of the template, data.lib, and future.keywords can be imported"}},
		{
			"library elsewhere", templateOf(labelled) + "    libs:\n    - |\n      package other\n      x = 1\n",
			[]string{"policy.yaml:24:7: package other: the package of a library begins with lib."},
		},
		{"v1 as v0", templateOf("package k\nviolation contains {\"msg\": \"x\"} if true"), []string{"policy.yaml:18:32: unexpected : token: expected \\n or ; or }; this reads as Rego v1, and templates are v0: put it into code, where source.version can be v1"}},
		{"no template", plainConstraint, []string{"policy.yaml:3:7: there is no ConstraintTemplate k, which this constraint needs"}},
		{"parameter of another type", templateOf(labelled) + strings.TrimSpace(plainConstraint) + "\nspec: {parameters: {labels: x}}\n", []string{`policy.yaml:26:29: schema validation failed: spec.parameters.labels: Invalid value: "string": spec.parameters.labels in body must be of type array: "string"`}},
		{"unknown parameter", templateOf(labelled) + strings.TrimSpace(plainConstraint) + "\nspec: {parameters: {lables: [x]}}\n", []string{`policy.yaml:26:21: unknown field "spec.parameters.lables": the template's schema does not have it`}},
		{"action", templateOf(labelled) + strings.TrimSpace(plainConstraint) + "\nspec: {enforcementAction: block}\n", []string{`policy.yaml:26:27: enforcementAction "block" is none of deny, dryrun, warn and scoped`}},
		{"scoped without actions", templateOf(labelled) + strings.TrimSpace(plainConstraint) + "\nspec: {enforcementAction: scoped}\n", []string{`policy.yaml:26:1: enforcementAction is scoped, and there are no scopedEnforcementActions`}},
		{
			"a rule of the schema", strings.Replace(templateOf(labelled), "          properties:\n", "          x-kubernetes-validations: [{rule: 'self.limit < 9', message: too many}]\n          properties:\n", 1) + strings.TrimSpace(plainConstraint) + "\nspec: {parameters: {limit: 9}}\n",
			[]string{`policy.yaml:27:8: schema validation failed: spec.parameters: Invalid value: too many`},
		},
		{"match", templateOf(labelled) + strings.TrimSpace(plainConstraint) + "\nspec: {match: {excludeNamespaces: [a]}}\n", []string{`policy.yaml:26:16: unknown field "spec.match.excludeNamespaces": the template's schema does not have it`}},
		{"another template of the name", templateOf(labelled) + "---" + templateOf("package k\nviolation[{\"msg\": \"x\"}]"), []string{"policy.yaml:25:18: template k differs from the one at policy.yaml:3:18, which is used"}},
		{"CEL", nativeTemplate("validations:\n- expression: 'object.spec.x <'"), []string{"policy.yaml:17:39: syntax error: the expression is incomplete"}},
		{"CEL has no params but in variables", nativeTemplate("validations:\n- expression: 'params.spec.x'"), []string{`policy.yaml:17:24: there is no variable or function "params"`}},
		{"variable of Gatekeeper's", nativeTemplate("variables: [{name: params, expression: '1'}]\nvalidations: [{expression: 'true'}]"), []string{"policy.yaml:16:28: variable params: Gatekeeper has one of that name itself"}},
		{"failure policy", nativeTemplate("failurePolicy: Maybe\nvalidations: [{expression: 'true'}]"), []string{`policy.yaml:16:24: failurePolicy "Maybe" is neither Fail nor Ignore`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, err := New(parseAll(t, c.policies), Options{})
			rendertest.Equal(t, c.want, faultsOf(err))
			if len(e.constraints) > 0 {
				t.Error("a broken one is judged by")
			}
		})
	}
}

// TestDroppedFieldsAreReported holds that fields which the API server would drop are
// reported.
func TestDroppedFieldsAreReported(t *testing.T) {
	t.Parallel()
	const config = `
---
apiVersion: config.gatekeeper.sh/v1alpha1
kind: Config
metadata: {name: config}
spec: {sync: {syncOnly: [{version: v1, kind: Pod}]}}
`
	needs := strings.Replace(templateOf(labelled), "metadata: {name: k}", `metadata:
  name: k
  annotations:
    metadata.gatekeeper.sh/requires-sync-data: |
      "[[{"groups":["networking.k8s.io"],"versions":["v1"],"kinds":["Ingress"]}]]"`, 1)
	_, err := New(parseAll(t, needs+plainConstraint+config), Options{})
	want := []string{"warning: policy.yaml:6:48: template k needs networking.k8s.io/v1 Ingress in data.inventory, which neither the Config nor a SyncSet syncs: it does not see any"}
	rendertest.Equal(t, want, faultsOf(err))
}

// TestRepeatedObjectsCountOnce holds that objects which several overlays contain
// count once.
func TestRepeatedObjectsCountOnce(t *testing.T) {
	t.Parallel()
	both := templateOf(labelled) + plainConstraint
	e, err := New(append(parseAll(t, both), parseAll(t, both)...), Options{})
	if err != nil || len(e.constraints) != 1 {
		t.Error(err, e.Rules())
	}
}
