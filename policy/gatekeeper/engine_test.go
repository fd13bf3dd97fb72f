package gatekeeper

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// templateOf is a template of kind K in Rego.
func templateOf(rego string) string {
	return `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k}
spec:
  crd:
    spec:
      names: {kind: K}
      validation:
        openAPIV3Schema:
          type: object
          properties:
            labels: {type: array, items: {type: string}}
            limit: {type: integer, default: 3}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
` + indent(rego, 6)
}

// nativeOf is a template of kind K in CEL, with a source that is indented by ten.
func nativeOf(source string) string {
	return `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k}
spec:
  crd: {spec: {names: {kind: K}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:` + source + "\n"
}

func indent(text string, n int) string {
	pad := strings.Repeat(" ", n)
	return pad + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+pad) + "\n"
}

const plainConstraint = `
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K
metadata: {name: c}
`

const labelled = `
package k
violation[{"msg": msg}] {
  not input.review.object.metadata.labels.app
  msg := sprintf("%v %v has no label app", [input.review.kind.kind, input.review.name])
}
`

const pod = `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}}`

func parseOne(t testing.TB, text string) *render.Object {
	t.Helper()
	objects, err := render.Parse("policy.yaml", []byte(text))
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	return objects[0]
}

func parseAll(t testing.TB, text string) []*render.Object {
	t.Helper()
	return rendertest.Parse(t, "policy.yaml", strings.TrimLeft(text, "\n"))
}

// requestOf is a request to create an object, as the chain completes it.
func requestOf(t testing.TB, text string) *policy.Request {
	t.Helper()
	o := parseOne(t, text)
	gvk := o.GroupVersionKind()
	resource := schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s"}
	return &policy.Request{
		Operation: policy.Create, Object: o, Kind: gvk, Name: o.GetName(), Namespace: o.GetNamespace(), Admitted: o.Object,
		Resource: policy.Resource{GroupVersionResource: resource, Namespaced: o.GetNamespace() != "", Known: true},
	}
}

// said is what the policies say about a request, a line each.
func said(t testing.TB, e *Engine, req *policy.Request) []string {
	t.Helper()
	results, err := e.Validate(t.Context(), req)
	rendertest.OK(t, err)
	var lines []string
	for _, r := range results {
		line := fmt.Sprintf("%s %s %s/%s: %s", r.Outcome, r.Action, r.Rule, r.Policy, r.Message)
		lines = append(lines, strings.TrimSuffix(line, ": "))
	}
	return lines
}

// faultsOf are the errors of a compilation, a line each.
func faultsOf(err error) []string {
	var lines []string
	for _, e := range render.Errors(err) {
		line := e.Error()
		if e.Warning {
			line = "warning: " + line
		}
		lines = append(lines, line)
	}
	return lines
}

func TestValidate(t *testing.T) {
	t.Parallel()
	scoped := func(actions string) string {
		return strings.TrimSpace(plainConstraint) + "\nspec: {enforcementAction: scoped, scopedEnforcementActions: " + actions + "}\n"
	}
	spec := func(text string) string { return strings.TrimSpace(plainConstraint) + "\nspec: " + text + "\n" }
	const missing = "K/c: Pod web has no label app"
	for _, c := range []struct {
		name, policies, object string
		want                   []string
	}{
		{"violated", templateOf(labelled) + plainConstraint, pod, []string{"fail deny " + missing}},
		{"holds", templateOf(labelled) + plainConstraint, `{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {app: a}}}`, []string{"pass deny K/c"}},
		{"warns", templateOf(labelled) + spec("{enforcementAction: warn}"), pod, []string{"fail warn " + missing}},
		{"dryrun", templateOf(labelled) + spec("{enforcementAction: dryrun}"), pod, []string{"fail audit " + missing}},
		{"another kind", templateOf(labelled) + spec("{match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}]}}"), pod, nil},
		{
			"scoped, the strongest", templateOf(labelled) + scoped("[{action: warn, enforcementPoints: [{name: validation.gatekeeper.sh}]}, {action: deny, enforcementPoints: [{name: '*'}]}]"),
			pod,
			[]string{"fail deny " + missing},
		},
		{"scoped, elsewhere", templateOf(labelled) + scoped("[{action: deny, enforcementPoints: [{name: audit.gatekeeper.sh}]}]"), pod, nil},
		{"scoped, of policies that Rego is not made into", templateOf(labelled) + scoped("[{action: deny, enforcementPoints: [{name: vap.k8s.io}]}]"), pod, nil},
		{
			"unknown namespace", templateOf(labelled) + spec("{match: {namespaceSelector: {matchLabels: {team: a}}}}"), pod,
			[]string{"unknown deny K/c: labels of namespace shop are unknown: give the Namespace with --with"},
		},
		{
			"defaults and parameters", templateOf(`
package k
violation[{"msg": msg}] {
  msg := sprintf("%v %v %v", [input.parameters.limit, input.parameters.labels, input.parameters])
}`) + spec("{parameters: {labels: [a]}}"), pod,
			[]string{`fail deny K/c: 3 ["a"] {"labels": ["a"], "limit": 3}`},
		},
		{
			"nulls, which the API server drops", templateOf("package k\nviolation[{\"msg\": msg}] { msg := json.marshal(input.parameters) }") +
				spec("{match: {labelSelector: null, kinds: null}, enforcementAction: null, parameters: {labels: null, limit: null}}"), pod,
			[]string{`fail deny K/c: {"limit":3}`},
		},
		{
			"several, in order, each once", templateOf(`
package k
violation[{"msg": msg, "other": x}] {
  x := ["b", "a", "b"][i]
  msg := x
}
violation[{"msg": "a", "details": {"n": 1}}]`) + plainConstraint, pod,
			[]string{"fail deny K/c: a", "fail deny K/c: a", "fail deny K/c: b"},
		},
		{
			"some without msg", templateOf("package k\nviolation[x] { x := input.parameters.labels[_] }\nviolation[{\"msg\": \"a\"}] { true }") + spec("{parameters: {labels: [x, z]}}"), pod,
			[]string{"fail deny K/c: a"},
		},
		{
			"none with msg", templateOf("package k\nviolation[x] { x := input.review.object.metadata.labels }") + plainConstraint, `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {a: b}}}`,
			[]string{"pass deny K/c: Gatekeeper ignores 1 of the template's violations, which have no msg"},
		},
		{
			"msg of another type", templateOf("package k\nviolation[{\"msg\": 1}] { true }") + plainConstraint, pod,
			[]string{"error deny K/c: the msg of a violation is number, and Gatekeeper can use a string only"},
		},
		{
			"a built-in function that fails", templateOf("package k\nviolation[{\"msg\": \"x\"}] { to_number(input.review.name) > 1 }") + plainConstraint, pod,
			[]string{`pass deny K/c: built-in functions failed, so expressions that call them count as not violated: to_number: strconv.ParseFloat: parsing "web": invalid syntax at policy.yaml:18:33`},
		},
		{
			"divisions by zero", templateOf(`
package k
violation[{"msg": "x"}] { 1 / count(input.review.object.spec) > 5 }
violation[{"msg": "x"}] { 7 % count(input.review.object.spec) > 5 }
violation[{"msg": "x"}] { to_number(input.review.name) > 1 }`) + plainConstraint, `{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {}}`,
			[]string{
				"error warn K/c: ignored error: the template's Rego divides by zero at policy.yaml:18:33",
				"error warn K/c: ignored error: the template's Rego divides by zero at policy.yaml:19:33",
			},
		},
		{
			"a division by zero beside a violation and many other errors", templateOf(`
package k
violation[{"msg": "x"}] { to_number(sprintf("x%d", [numbers.range(1, 100)[_]])) > 1 }
violation[{"msg": "found"}] { true }
violation[{"msg": "x"}] { 1 / 0 > 1 }`) + plainConstraint, pod,
			[]string{
				"fail deny K/c: found",
				"error warn K/c: ignored error: the template's Rego divides by zero at policy.yaml:20:33",
			},
		},
		{
			"a conflict", templateOf("package k\nviolation[{\"msg\": x}] { x := f }\nf = \"a\" { true }\nf = \"b\" { input.review.name }") + plainConstraint, pod,
			[]string{"error deny K/c: the template's Rego fails at policy.yaml:20:7: rule data.template.f produced conflicting values"},
		},
		{
			"external data", templateOf("package k\nviolation[{\"msg\": \"x\"}] { r := external_data({\"provider\": \"p\", \"keys\": [\"a\"]}); count(r.errors) > 0 }") + plainConstraint, pod,
			[]string{"unknown deny K/c: needs external data of provider p"},
		},
		{
			"who makes the request", templateOf("package k\nviolation[{\"msg\": \"x\"}] { input.review.userInfo.username != \"me\" }") + plainConstraint, pod,
			[]string{"unknown deny K/c: needs to know who makes the request: give the user with --as"},
		},
		{
			"the clock", templateOf("package k\nviolation[{\"msg\": \"x\"}] { time.now_ns() > 1 }") + plainConstraint, pod,
			[]string{"unknown deny K/c: needs to know the time"},
		},
		{
			"an object of the namespace", templateOf("package k\nviolation[{\"msg\": \"x\"}] { input.review.namespaceObject.metadata.name == \"shop\" }") + plainConstraint, pod,
			[]string{"unknown deny K/c: needs to know namespace shop: give the Namespace with --with"},
		},
		{
			"who makes the request, by another name", templateOf("package k\nviolation[{\"msg\": \"x\"}] { r := input.review; not r.userInfo.username == \"me\" }") + plainConstraint, pod,
			[]string{"unknown deny K/c: needs to know who makes the request: give the user with --as"},
		},
		{
			"who makes the request does not matter", templateOf("package k\nviolation[{\"msg\": \"x\"}] { input.review.kind.kind == \"Service\"; input.review.userInfo.username != \"me\" }") + plainConstraint, pod,
			[]string{"pass deny K/c"},
		},
		{
			"who makes the request, in CEL", nativeOf(`
          validations:
          - expression: request.userInfo.username != "me"
          - expression: '!has(request.userInfo.uid)'
          - {expression: object.metadata.name != "web", message: no web}
          - expression: object.kind == "Pod" || request.userInfo.username != "me"`) + plainConstraint, pod,
			[]string{"fail deny K/c: no web", "unknown deny K/c: needs to know who makes the request: give the user with --as"},
		},
		{
			"what does not matter, in CEL", nativeOf(`
          variables: [{name: me, expression: request.userInfo.username == "me"}]
          validations: [{expression: object.kind == "Pod" || variables.me || namespaceObject.metadata.name == "a"}]`) + plainConstraint, pod,
			[]string{"pass deny K/c"},
		},
		{
			"what a variable needs, in CEL", nativeOf(`
          variables: [{name: me, expression: request.userInfo.username == "me"}]
          validations: [{expression: variables.me}, {expression: '!variables.me'}, {expression: namespaceObject.metadata.name == "a"}]`) + plainConstraint, pod,
			[]string{"unknown deny K/c: needs to know namespace shop: give the Namespace with --with; to know who makes the request: give the user with --as"},
		},
		{
			"a match condition that needs the user", nativeOf(`
          matchCondition: [{name: a, expression: request.userInfo.username != "me"}, {name: b, expression: object.kind == "Service"}]
          validations: [{expression: "false"}]`) + plainConstraint, pod, []string{`skip deny K/c: exempt by match condition "b"`},
		},
		{
			"operations", strings.Replace(templateOf(labelled), "  - target:", "  - operations: [UPDATE]\n    target:", 1) + plainConstraint, pod, nil,
		},
		{
			"v1 in code, with a library", `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k}
spec:
  crd: {spec: {names: {kind: K}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: Rego
      source:
        version: v1
        rego: |
          package k
          import data.lib.words
          violation contains {"msg": words.hello} if input.review.name
        libs:
        - |
          package lib.words
          hello := "hello"
` + plainConstraint, pod, []string{"fail deny K/c: hello"},
		},
		{
			"v1beta1 takes all parameters", `
apiVersion: templates.gatekeeper.sh/v1beta1
kind: ConstraintTemplate
metadata: {name: k}
spec:
  crd: {spec: {names: {kind: K}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package k
      violation[{"msg": msg}] { msg := input.parameters.a.b }
` + spec("{parameters: {a: {b: hello}}}"), pod, []string{"fail deny K/c: hello"},
		},
		{"gatekeeper's own namespace", templateOf(labelled) + plainConstraint, `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: gatekeeper-system}}`, []string{"skip deny K/c: Gatekeeper's webhook is not called for namespace gatekeeper-system, which is its own"}},
		{
			"excluded by the Config", templateOf(labelled) + plainConstraint + `
---
apiVersion: config.gatekeeper.sh/v1alpha1
kind: Config
metadata: {name: config, namespace: gatekeeper-system}
spec:
  match:
  - processes: [audit]
    excludedNamespaces: [shop]
  - processes: [webhook]
    excludedNamespaces: ["sh*"]
`, pod, []string{"skip deny K/c: namespace shop is excluded from the webhook by the Config at policy.yaml:37:26"},
		},
		{
			"a Namespace with the label", templateOf(labelled) + plainConstraint, `{apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {admission.gatekeeper.sh/ignore: "x"}}}`,
			[]string{
				"skip deny K/c: namespace a has the label admission.gatekeeper.sh/ignore, so Gatekeeper's webhook is not called",
				"fail deny ignore-label/check-ignore-label.gatekeeper.sh: " + ignoreLabelMessage,
			},
		},
		{
			"a Secret's values", templateOf("package k\nviolation[{\"msg\": msg}] { msg := sprintf(\"bad %v\", [input.review.object.data.key]) }") + plainConstraint,
			`{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: a}, data: {key: c2VjcmV0LXZhbHVl}}`,
			[]string{"fail deny K/c: not shown, since it may quote a Secret"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, err := New(parseAll(t, c.policies), Options{})
			rendertest.OK(t, err)
			rendertest.Equal(t, c.want, said(t, e, requestOf(t, c.object)))
		})
	}
}

// nativeTemplate is a template of kind K in CEL.
func nativeTemplate(source string) string {
	return `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k}
spec:
  crd:
    spec:
      names: {kind: K}
      validation: {openAPIV3Schema: {type: object, properties: {most: {type: integer}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: Rego
      source: {rego: "package k\nviolation[{\"msg\": \"in Rego\"}]"}
    - engine: K8sNativeValidation
      source:
` + indent(source, 8)
}

func TestNative(t *testing.T) {
	t.Parallel()
	const most = `
variables:
- name: replicas
  expression: variables.anyObject.spec.replicas
validations:
- expression: variables.params == null || variables.replicas <= variables.params.most
  messageExpression: '"at most " + string(variables.params.most)'
`
	const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: shop}, spec: {replicas: 3}}`
	with := strings.TrimSpace(plainConstraint) + "\nspec: {parameters: {most: 2}}\n"
	for _, c := range []struct {
		name, policies string
		want           []string
		fields         []string
	}{
		{"goes before Rego", nativeTemplate(most) + with, []string{"fail deny K/c: at most 2"}, []string{"/spec/replicas"}},
		{"no parameters", nativeTemplate(most) + plainConstraint, []string{"pass deny K/c"}, nil},
		{"a fixed message", nativeTemplate("validations: [{expression: 'object.spec.replicas < 3', message: ' too many '}]") + with, []string{"fail deny K/c: too many"}, []string{"/spec/replicas"}},
		{"no message", nativeTemplate("validations: [{expression: 'object.spec.replicas < 3'}]") + with, []string{"fail deny K/c: failed expression: object.spec.replicas < 3"}, []string{"/spec/replicas"}},
		{
			"an error", nativeTemplate("validations: [{expression: 'object.spec.x < 3'}]") + with,
			[]string{"error deny K/c: expression 'object.spec.x < 3' resulted in error: no such key: x"},
			[]string{"/spec/x"},
		},
		{
			"an ignored error", nativeTemplate("failurePolicy: Ignore\nvalidations: [{expression: 'object.spec.x < 3'}]") + with,
			[]string{"error warn K/c: ignored error: expression 'object.spec.x < 3' resulted in error: no such key: x"},
			[]string{"/spec/x"},
		},
		{
			"a match condition", nativeTemplate("matchCondition: [{name: big, expression: 'object.spec.replicas > 9'}]\nvalidations: [{expression: 'false'}]") + with,
			[]string{`skip deny K/c: exempt by match condition "big"`},
			nil,
		},
		{
			"the namespace", nativeTemplate("validations: [{expression: 'namespaceObject.metadata.name == \"x\"'}]") + with,
			[]string{"unknown deny K/c: needs to know namespace shop: give the Namespace with --with"},
			nil,
		},
		{
			"vap.k8s.io is admission too", nativeTemplate("generateVAP: true\nvalidations: [{expression: 'false', message: never}]") +
				strings.TrimSpace(plainConstraint) + "\nspec: {enforcementAction: scoped, scopedEnforcementActions: [{action: deny, enforcementPoints: [{name: vap.k8s.io}]}]}\n",
			[]string{"fail deny K/c: never"},
			nil,
		},
		{
			"out of budget", nativeTemplate("validations: [{expression: '[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a+b+c+d+e > 0)))))'}]") + with,
			[]string{"error deny K/c: validation failed due to running out of cost budget, no further validation rules will be run"},
			nil,
		},
		{
			"a variable larger than all that is read, within the budget", nativeTemplate("variables: [{name: big, expression: '"+manyWords+"'}]\nvalidations: [{expression: 'variables.big.all(a, variables.big.all(b, a == b))'}]") + with,
			[]string{"pass deny K/c"},
			nil,
		},
		{
			"a variable larger than all that is read, out of budget", nativeTemplate("variables: [{name: big, expression: '"+manyWords+"'}]\nvalidations: [{expression: 'variables.big.all(a, variables.big.all(b, variables.big.all(c, a == b && b == c)))'}]") + with,
			[]string{"error deny K/c: validation failed due to running out of cost budget, no further validation rules will be run"},
			nil,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, err := New(parseAll(t, c.policies), Options{})
			rendertest.OK(t, err)
			req := requestOf(t, deployment)
			rendertest.Equal(t, c.want, said(t, e, req))
			results, _ := e.Validate(t.Context(), req)
			rendertest.Equal(t, c.fields, results[0].Fields)
		})
	}
}

// manyWords is an expression whose value is a list of 150 texts.
var manyWords = `"` + strings.Repeat("x,", 149) + `x".split(",")`

func TestFields(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		details string
		want    []string
	}{
		"pointer":              {`{"_loc": "/spec/containers/0/image"}`, []string{"/spec/containers/0/image"}},
		"dotted":               {`{"path": "spec.containers[0].image"}`, []string{"/spec/containers/0/image"}},
		"of the input":         {`{"field": "input.review.object.spec.containers[0].image"}`, []string{"/spec/containers/0/image"}},
		"several":              {`{"fields": ["metadata.name", "/spec/containers"]}`, []string{"/metadata/name", "/spec/containers"}},
		"missing in what is":   {`{"path": "metadata.labels"}`, []string{"/metadata/labels"}},
		"quoted":               {`{"path": "$.metadata['name']"}`, []string{"/metadata/name"}},
		"of something else":    {`{"path": "/etc/passwd"}`, nil},
		"no path but a phrase": {`{"path": "the image"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rego := "package k\nviolation[{\"msg\": \"x\", \"details\": " + c.details + "}]"
			e, err := New(parseAll(t, templateOf(rego)+plainConstraint), Options{})
			rendertest.OK(t, err)
			req := requestOf(t, `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {containers: [{name: a, image: b}]}}`)
			results, err := e.Validate(t.Context(), req)
			if err != nil || len(results) != 1 {
				t.Fatal(results, err)
			}
			rendertest.Equal(t, c.want, results[0].Fields)
		})
	}
}

// TestOperations holds that DELETE is not asked about, and what is seen of an
// object on UPDATE and DELETE.
func TestOperations(t *testing.T) {
	t.Parallel()
	policies := templateOf(`
package k
violation[{"msg": msg}] {
  msg := sprintf("%v %v %v", [input.review.operation, input.review.object.metadata.labels, input.review.oldObject.metadata.labels])
}`) + plainConstraint
	req := requestOf(t, `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {v: new}}}`)
	old := parseOne(t, `{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {v: old}}}`)
	req.Operation, req.OldObject, req.OldAdmitted = policy.Update, old, old.Object
	e, err := New(parseAll(t, policies), Options{})
	rendertest.OK(t, err)
	if got := said(t, e, req); len(got) != 1 || got[0] != `fail deny K/c: UPDATE {"v": "new"} {"v": "old"}` {
		t.Error(got)
	}
	req.Operation, req.Object, req.Admitted = policy.Delete, nil, nil
	if got := said(t, e, req); got != nil {
		t.Error(got)
	}
}

func TestInventory(t *testing.T) {
	t.Parallel()
	rego := `
package k
violation[{"msg": msg}] {
  other := data.inventory.namespace[ns]["v1"]["Service"][name]
  msg := sprintf("%v/%v %v", [ns, name, other.spec.port])
}
violation[{"msg": msg}] {
  data.inventory.cluster["v1"]["Namespace"][name]
  msg := name
}`
	objects := parseAll(t, `
{apiVersion: v1, kind: Service, metadata: {name: a, namespace: one}, spec: {port: 80}}
---
{apiVersion: v1, kind: Service, metadata: {name: b, namespace: two}, spec: {port: 1000000}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: two}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: two}}
`)
	const synced = `
---
apiVersion: config.gatekeeper.sh/v1alpha1
kind: Config
metadata: {name: config}
spec:
  match: [{processes: [sync], excludedNamespaces: [one]}]
  sync: {syncOnly: [{version: v1, kind: Service}]}
`
	for _, c := range []struct {
		name, policies string
		want           []string
	}{
		{"all", templateOf(rego) + plainConstraint, []string{"one/a 80", "two", "two/b 1e+06"}},
		{"synced", templateOf(rego) + plainConstraint + synced, []string{"two/b 1e+06"}},
		{"unknown namespace", templateOf("package k\nviolation[{\"msg\": \"x\"}] { data.inventory.cluster.v1.Namespace.three }") + plainConstraint, []string{"needs to know namespace shop: give the Namespace with --with"}},
		{"Namespaces not synced", templateOf("package k\nviolation[{\"msg\": \"x\"}] { data.inventory.cluster.v1.Namespace.three }") + plainConstraint + synced, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, err := New(parseAll(t, c.policies), Options{Cluster: policy.NewCluster(objects...), Now: time.Now})
			rendertest.OK(t, err)
			results, err := e.Validate(t.Context(), requestOf(t, pod))
			rendertest.OK(t, err)
			var got []string
			for _, r := range results {
				got = append(got, r.Message)
				if r.Outcome == policy.Fail {
					rendertest.Equal(t, []string{inventoryAssumed}, r.Assumed)
				}
			}
			rendertest.Equal(t, c.want, got)
		})
	}
}
