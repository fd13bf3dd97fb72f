package kyvernocel

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const aDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: prod, labels: {app: web}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: a, image: nginx, securityContext: {privileged: true}}]}
`

const aCronJob = `
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick, namespace: prod}
spec:
  schedule: "* * * * *"
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: Never, containers: [{name: a, image: nginx}]}
`

// TestResponses holds what policies of each kind say about an object.
func TestResponses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, kind, spec, object, want string }{
		// The way of a ValidatingPolicy.
		{"the first that does not hold decides", Validating, `{validations: [{expression: "true"}, {expression: "false", message: two}, {expression: object.x == 1}]}`, aPod, "fail two"},
		{"an error before it, too", Validating, `{validations: [{expression: object.x == 1}, {expression: "false"}]}`, aPod, "error error: no such key: x"},
		{"a message by its index", Validating, `{validations: [{expression: "true"}, {expression: "false"}]}`, aPod, "fail CEL expression validation failed at index 1"},
		{"a message expression before a message", Validating, `{validations: [{expression: "false", message: m, messageExpression: "'no ' + object.metadata.name"}]}`, aPod, "fail no p"},
		{"a message expression that breaks", Validating, `{validations: [{expression: "false", message: m, messageExpression: "string(object.x)"}]}`, aPod, "fail failed to evaluate message expression: no such key: x"},
		{"variables in order", Validating, `{variables: [{name: a, expression: "1"}, {name: b, expression: variables.a + 1}], validations: [{expression: variables.b == 2}]}`, aPod, "pass success"},
		{"variables when they are read", Validating, `{variables: [{name: a, expression: object.x}], validations: [{expression: true || variables.a == 1}]}`, aPod, "pass success"},
		{"a false condition after a broken one", Validating, `{matchConditions: [{name: a, expression: object.x == 1}, {name: b, expression: "false"}], validations: [{expression: "false"}]}`, aPod, "skip skip"},
		{"a broken condition", Validating, `{matchConditions: [{name: a, expression: object.x == 1}], validations: [{expression: "false"}]}`, aPod, "error failed to load context: no such key: x"},
		{"a broken condition that is ignored", Validating, `{failurePolicy: Ignore, matchConditions: [{name: a, expression: object.x == 1}], validations: [{expression: "false"}]}`, aPod, "skip failed to load context: no such key: x"},
		{"a broken audit annotation", Validating, `{auditAnnotations: [{key: k, valueExpression: string(object.x)}], validations: [{expression: "true"}]}`, aPod, "error failed to evaluate auditAnnotation: no such key: x"},
		{"JSON mode", Validating, `{evaluation: {mode: JSON}, validations: [{expression: object.kind == 'Pod'}]}`, aPod, "pass success"},

		// What is matched.
		{"no plain rule: nothing at all", Validating, `{autogen: {podControllers: {controllers: []}}, validations: [{expression: "false"}]}`, aDeployment, ""},
		{"no match of more than that", Validating, `{matchConstraints: {objectSelector: {matchLabels: {a: b}}, resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, validations: [{expression: "false"}]}`, aPod, "unmatched"},
		{"an excluded resource", Validating, `{matchConstraints: {excludeResourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}], resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}, validations: [{expression: "false"}]}`, aPod, "unmatched"},
		{"a name", Validating, `{matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], resourceNames: [p]}]}, validations: [{expression: "false"}]}`, aPod, "fail CEL expression validation failed at index 0"},
		{"another operation", Validating, `{matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [pods]}]}, validations: [{expression: "false"}]}`, aPod, ""},
		{"a label of the namespace", Validating, `{matchConstraints: {namespaceSelector: {matchLabels: {env: prod}}, resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}, validations: [{expression: "false", message: m}]}`, aPod, "fail m"},
		{"no constraints", Validating, `{matchConstraints: {resourceRules: []}, validations: [{expression: "false"}]}`, aPod, "unmatched"},

		// The copies for pod controllers.
		{"a Deployment's pod", Validating, `{validations: [{expression: "object.spec.containers.all(c, c.image == 'nginx')"}]}`, aDeployment, "pass success"},
		{"a CronJob's pod", Validating, `{validations: [{expression: "object.spec.containers.all(c, c.image != 'nginx')", message: m}]}`, aCronJob, "fail m"},
		{"their labels", Validating, `{validations: [{expression: object.metadata.labels.app == 'web'}]}`, aDeployment, "pass success"},
		{"their names, which templates lack", Validating, `{validations: [{expression: object.metadata.name == 'web'}]}`, aDeployment, "error error: no such key: name"},
		{"their namespaces, which are the controllers'", Validating, `{validations: [{expression: object.metadata.namespace == 'prod'}]}`, aDeployment, "pass success"},
		{"what is not spelled so is not replaced", Validating, `{validations: [{expression: "has(object.spec.containers) && !has(object['spec'].containers)"}]}`, aDeployment, "pass success"},
		{"chosen controllers", Validating, `{autogen: {podControllers: {controllers: [cronjobs]}}, validations: [{expression: "false"}]}`, aDeployment, ""},
		{"no copies of what names more than pods", Validating, `{matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods, services]}]}, validations: [{expression: "false"}]}`, aDeployment, ""},

		// DeletingPolicy.
		{"to be deleted", Deleting, `{schedule: "0 * * * *", variables: [{name: is, expression: object.metadata.name}], conditions: [{name: a, expression: variables.is == 'p'}]}`, aPod, "pass resource matched"},
		{"not to be deleted", Deleting, `{schedule: "0 * * * *", conditions: [{name: a, expression: object.metadata.name == 'x'}]}`, aPod, "fail resource did not match"},
		{"whatever the operation", Deleting, `{schedule: "@hourly", matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [pods]}]}, conditions: [{name: a, expression: "true"}]}`, aPod, "pass resource matched"},
		{"broken", Deleting, `{schedule: "0 * * * *", conditions: [{name: a, expression: object.x == 1}]}`, aPod, "error no such key: x"},

		// ImageValidatingPolicy.
		{"an image without a digest", ImageValidating, `{validations: [{expression: "true"}], attestors: []}`, aPod, "fail image nginx:1.25 does not have a digest"},
		{"another image than these", ImageValidating, `{matchImageReferences: [{glob: "quay.io/*"}], validations: [{expression: "false"}], attestors: []}`, aPod, "skip no image is one that matchImageReferences name"},
		{"images by list", ImageValidating, `{validationConfigurations: {verifyDigest: false}, validations: [{expression: "images.containers.size() == 2 && images.initContainers == []"}], attestors: []}`, aPod, "pass success"},
		{"by an expression", ImageValidating, `{matchImageReferences: [{expression: "image(ref).containsDigest()"}], validations: [{expression: "images.containers.size() == 2"}], attestors: []}`, aPod, "pass success"},
		{"of its own", ImageValidating, `{validationConfigurations: {verifyDigest: false}, images: [{name: own, expression: "[object.spec.serviceAccountName]"}], validations: [{expression: "images.own == ['sa']"}], attestors: []}`, aPod, "pass success"},
		{"signatures", ImageValidating, `{validationConfigurations: {verifyDigest: false}, attestors: [{name: own, notary: {certs: {value: x}}}], validations: [{expression: "images.containers.all(i, verifyImageSignatures(i, [attestors.own]) > 0)"}]}`, aPod, `unknown needs the signatures of image "nginx:1.25" from its registry`},
		{"of a Deployment's pod", ImageValidating, `{attestors: [], validations: [{expression: "true"}]}`, aDeployment, "fail image nginx does not have a digest"},
		{"metadata of a constant", ImageValidating, `{validationConfigurations: {verifyDigest: false}, attestors: [], validations: [{expression: "getImageData('nginx').config.user == ''"}]}`, aPod, `unknown needs the metadata of image "nginx" from its registry`},
	} {
		responses := respond(t, policyOf(t, c.kind, c.spec), c.object, libraryMocks(t))
		got := strings.TrimSuffix(said(responses), "; ")
		if len(responses) == 1 && !responses[0].Matched {
			got = "unmatched"
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// exceptionOf is a PolicyException from the policy p of a kind.
func exceptionOf(t testing.TB, kind, rest string) *render.Object {
	return parsed(t, fmt.Sprintf(`
apiVersion: policies.kyverno.io/v1
kind: PolicyException
metadata: {name: x, namespace: ns}
spec: {policyRefs: [{name: p, kind: %s}], %s}
`, kind, rest))[0]
}

func TestExceptions(t *testing.T) {
	t.Parallel()
	allowing := `{validations: [{expression: "object.spec.containers.all(c, c.image in exceptions.allowedImages) || 'all' in exceptions.allowedValues", message: m}]}`
	for _, c := range []struct{ name, kind, exception, spec, want string }{
		{"exempts", Validating, "matchConditions: [{name: a, expression: object.metadata.name == 'p'}]", validating("false"), "skip rule is skipped due to policy exception: ns/x"},
		{"does not", Validating, "matchConditions: [{name: a, expression: object.metadata.name == 'q'}]", validating("false"), "fail m"},
		{"always", Validating, "", validating("false"), "skip rule is skipped due to policy exception: ns/x"},
		{"is passed", Validating, "reportResult: pass", validating("false"), "pass rule is skipped due to policy exception: ns/x"},
		{"allows values", Validating, "allowedValues: [all]", allowing, "pass success"},
		{"allows other values", Validating, "allowedValues: [none]", allowing, "fail m"},
		{"allows images", Validating, "images: ['nginx:1.25']", allowing, "fail m"},
		{"breaks", Validating, "matchConditions: [{name: a, expression: object.x == 'q'}]", validating("false"), "error failed to load context: no such key: x"},
		{"comes before conditions", Validating, "", "matchConditions: [{name: a, expression: object.x == 1}]\n" + validating("false"), "skip rule is skipped due to policy exception: ns/x"},
		{"is for another kind", Mutating, "", validating("false"), "fail m"},
		{"that has expired", Validating, "expiresAt: 2020-01-01T00:00:00Z", validating("false"), "skip rule is skipped due to policy exception: ns/x"},
	} {
		got := respond(t, policyOf(t, Validating, c.spec), aPod, nil, exceptionOf(t, c.kind, c.exception))
		if s := strings.TrimSuffix(said(got), "; "); s != c.want {
			t.Errorf("an exception that %s: %q, want %q", c.name, s, c.want)
		}
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	kinds := kindsOf(t)
	objects := []*render.Object{policyOf(t, Validating, validating("false")), exceptionOf(t, Validating, "expiresAt: 2026-06-01T00:00:00Z")}
	for now, want := range map[time.Time]policy.Outcome{
		time.Date(2026, 5, 31, 0, 0, 0, 0, time.UTC): policy.Skip,
		time.Date(2026, 6, 2, 0, 0, 0, 0, time.UTC):  policy.Fail,
		{}: policy.Skip,
	} {
		e, err := New(objects, Options{Kinds: kinds, Now: now})
		rendertest.OK(t, err)
		results, err := e.Validator().Validate(context.Background(), requestOf(kinds, parsed(t, aPod)[0], policy.Create))
		if err != nil || len(results) != 1 || results[0].Outcome != want || now.IsZero() != (len(results[0].Assumed) > 0) {
			t.Errorf("%v: %+v %v", now, results, err)
		}
	}
}

// TestErrors holds what Kyverno refuses, each at its line.
func TestErrors(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: policies.kyverno.io/v1\nkind: %s\nmetadata: {name: p}\nspec:\n  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [pods]}]}\n"
	for _, c := range []struct{ kind, spec, want string }{
		{Validating, "  validations:\n  - expression: object.\n", `policy.yaml:7:24: validations[0]: syntax error`},
		{Validating, "  validations:\n  - expression: object.spec.x\n", "policy.yaml:7:17: validations[0]: must evaluate to bool but got dyn"},
		{Validating, "  validations:\n  - expression: variables.x\n", "policy.yaml:7:26: validations[0]: there is no field \"x\""},
		{Validating, "  validations:\n  - expression: authorizer.path('/').check('get').allowed()\n", "policy.yaml:7:17: validations[0]: there is no variable or function \"authorizer\""},
		{Validating, "  validations:\n  - expression: \"true\"\n    messageExpression: \"1\"\n", "policy.yaml:8:24: validations[0]: must evaluate to string but got int"},
		{Validating, "  matchConditions: [{name: a, expression: variables.x}]\n  variables: [{name: x, expression: 'true'}]\n  validations: [{expression: 'true'}]\n", "policy.yaml:6:43: matchConditions[a]: there is no variable or function \"variables\""},
		{Validating, "  variables: [{name: a, expression: variables.b}, {name: b, expression: '1'}]\n  validations: [{expression: 'true'}]\n", "policy.yaml:6:46: variables[a]: there is no field \"b\""},
		{Validating, "  validation: []\n", `policy.yaml:6:3: unknown field "spec.validation"`},
		{Validating, "  validations: [{expression: 'true'}]\n  generate: []\n", `policy.yaml:7:3: unknown field "spec.generate": a ValidatingPolicy has none`},
		{Validating, "  validations: [{expression: 'true', mesage: x}]\n", `policy.yaml:6:38: unknown field "spec.validations[0].mesage"`},
		{Validating, "  validations: text\n", "policy.yaml:6:16: spec.validations is a string, not a list"},
		{Validating, "  validations: [{expression: 'true'}, {expression: 'true', message: 1}]\n", "policy.yaml:6:69: spec.validations[1].message is a number, not a string"},
		{Validating, "  matchConditions: [{name: true, expression: 'true'}]\n", "policy.yaml:6:28: spec.matchConditions[0].name is a boolean, not a string"},
		{Validating, "  webhookConfiguration: {timeoutSeconds: x}\n", "policy.yaml:6:42: spec.webhookConfiguration.timeoutSeconds is a string, not a whole number"},
		{Validating, "  validations:\n  - expression: |\n      object.spec.x == 1 &&\n        object.\n", "policy.yaml:9:16: validations[0]: syntax error"},
		{Validating, "  validations: []\n", "policy.yaml:4:1: spec.validations: required"},
		{Validating, "  failurePolicy: Maybe\n  validations: [{expression: 'true'}]\n", `policy.yaml:6:18: spec.failurePolicy: unsupported value "Maybe"`},
		{Validating, "  validationActions: [Enforce]\n  validations: [{expression: 'true'}]\n", `policy.yaml:6:23: spec.validationActions[0]: unsupported value "Enforce": must be Audit, Deny or Warn`},
		{Validating, "  evaluation: {mode: Envoy}\n  validations: [{expression: 'true'}]\n", "policy.yaml:6:22: spec.evaluation.mode Envoy: checks requests of a proxy, not objects"},
		{Validating, "  evaluation: {mode: Other}\n  validations: [{expression: 'true'}]\n", "policy.yaml:6:22: spec.evaluation.mode: unsupported value"},
		{Validating, "  variables: [{name: a, expression: '1'}, {name: a, expression: '2'}]\n  validations: [{expression: 'true'}]\n", `policy.yaml:6:50: spec.variables[1].name: duplicate value "a"`},
		{Mutating, "  mutations: []\n", "policy.yaml:4:1: spec.mutations: required"},
		{Mutating, "  mutations:\n  - patchType: JSONPatch\n", "policy.yaml:7:5: spec.mutations[0].jsonPatch: required by the patchType"},
		{Mutating, "  mutations:\n  - patchType: Merge\n", `policy.yaml:7:5: spec.mutations[0].patchType: must be ApplyConfiguration or JSONPatch, not "Merge"`},
		{Generating, "  generate: [{}]\n", "policy.yaml:6:14: spec.generate[0]: expression or template is required"},
		{Generating, "  generate: [{template: {value: '{a: (( object. ))}', interpolate: cel}}]\n", "policy.yaml:6:33: generate[0]: syntax error"},
		{Generating, "  generate: [{template: {value: '{a: (( object }', interpolate: cel}}]\n", "policy.yaml:6:33: generate[0].template.value: line 1: a placeholder is not closed"},
		{Deleting, "  conditions: [{name: a, expression: 'true'}]\n", "policy.yaml:4:1: spec.schedule: required"},
		{ImageValidating, "  matchImageReferences: [{}]\n  validations: [{expression: 'true'}]\n  attestors: []\n", "policy.yaml:6:26: spec.matchImageReferences[0]: exactly one of glob and expression is required"},
		{"PolicyException", "", `policy.yaml:5:3: unknown field "spec.matchConstraints"`},
	} {
		e, err := New(parsed(t, fmt.Sprintf(head, c.kind)+c.spec), Options{Kinds: kindsOf(t)})
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || len(e.policies) != 0 {
			t.Errorf("%s: %v, want %s", c.spec, err, c.want)
		}
	}
}

// TestBrokenPolicyHidesNoOther holds that a broken policy hides no other.
func TestBrokenPolicyHidesNoOther(t *testing.T) {
	t.Parallel()
	good, bad := policyOf(t, Validating, validating("true")), policyOf(t, Validating, validating("object."))
	bad.SetName("bad")
	e, err := New([]*render.Object{bad, good}, Options{Kinds: kindsOf(t)})
	if err == nil || len(e.policies) != 1 || e.policies[0].Name != "p" {
		t.Errorf("%v, %d policies", err, len(e.policies))
	}
}

// chainOf is a chain with the API server's own kinds and nothing else.
func chainOf(t testing.TB, o Options, policies ...*render.Object) policy.Chain {
	t.Helper()
	kinds, err := schema.New(nil, schema.Options{})
	rendertest.OK(t, err)
	o.Kinds = kinds
	e, err := New(policies, o)
	rendertest.OK(t, err)
	return policy.Chain{Kinds: kinds, Mutators: []policy.Mutator{e.Mutator()}, Validators: []policy.Validator{e.Validator()}}
}

func reviewed(t testing.TB, c policy.Chain, object string) []string {
	t.Helper()
	results, err := c.Review(context.Background(), policy.Requests(nil, parsed(t, object)))
	rendertest.OK(t, err)
	var lines []string
	for _, r := range results {
		var line strings.Builder
		line.WriteString(fmt.Sprintf("%s %s %s %s %s", r.Engine, r.Rule, r.Outcome, r.Action, r.Message))
		if len(r.Fields) > 0 {
			line.WriteString(" " + strings.Join(r.Fields, " "))
			for _, o := range r.Origins {
				line.WriteString(fmt.Sprintf(" %d:%d", o.Line, o.Column))
			}
		}
		lines = append(lines, line.String())
	}
	return lines
}

// TestReview holds what the chain gives: results with fields, lines and actions.
func TestReview(t *testing.T) {
	t.Parallel()
	const privileged = "object.spec.containers.all(c, c.?securityContext.?privileged.orValue(false) == false)"
	namespace := parsed(t, "{apiVersion: v1, kind: Namespace, metadata: {name: prod, labels: {env: prod}}}")
	cm := parsed(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: prod}, data: {k: v}}")
	for _, c := range []struct {
		name, kind, spec, object string
		cluster                  []*render.Object
		want                     []string
	}{
		{"fields of a Deployment's pod", Validating, "validations:\n- {expression: '" + privileged + "', message: m}\n- {expression: 'true'}", aDeployment, nil, []string{
			"ValidatingPolicy validations[0] fail deny m /spec/template/spec/containers/0/securityContext/privileged 9:79",
			"ValidatingPolicy validations[1] pass deny ",
		}},
		{"an action", Validating, "validationActions: [Audit, Warn]\n" + validating("false"), aPod, nil, []string{"ValidatingPolicy validations[0] fail warn m"}},
		{"audit", Validating, "validationActions: [Audit]\n" + validating("false"), aPod, nil, []string{"ValidatingPolicy validations[0] fail audit m"}},
		{"background scans alone", Validating, "evaluation: {admission: {enabled: false}}\n" + validating("false"), aPod, nil, []string{"ValidatingPolicy validations[0] fail audit m"}},
		{"errors, which failurePolicy does not ignore", Validating, "failurePolicy: Ignore\n" + validating("object.x == 1"), aPod, nil, []string{"ValidatingPolicy validations[0] error deny error: no such key: x /x 4:18"}},
		{"an exempting condition", Validating, "matchConditions: [{name: c, expression: 'false'}]\n" + validating("false"), aPod, nil, []string{`ValidatingPolicy validations[0] skip deny exempt by match condition "c"`}},
		{"who is not known", Validating, validating("request.userInfo.username == 'x'"), aPod, nil, []string{"ValidatingPolicy validations[0] unknown deny needs to know who makes the request: give the user with --as"}},
		{"a namespace that is not known", Validating, validating("namespaceObject.metadata.labels.env == 'prod'"), aPod, nil, []string{"ValidatingPolicy validations[0] unknown deny needs to know namespace prod: give the Namespace with --with"}},
		{"one whose name is", Validating, validating("namespaceObject.metadata.name == 'prod'"), aPod, nil, []string{"ValidatingPolicy validations[0] pass deny "}},
		{"one that is", Validating, validating("namespaceObject.metadata.labels.env == 'prod'"), aPod, namespace, []string{"ValidatingPolicy validations[0] pass deny "}},
		{"labels of one that is not", Validating, "matchConstraints: {namespaceSelector: {matchLabels: {env: prod}}, resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [pods]}]}\n" + validating("false"), aPod, nil, []string{"ValidatingPolicy matchConstraints unknown deny labels of namespace prod are unknown: give the Namespace with --with"}},
		{"what is rendered", Validating, validating("resource.Get('v1', 'configmaps', 'prod', 'cm').data.k == 'v'"), aPod, cm, []string{"ValidatingPolicy validations[0] pass deny "}},
		{"what is not", Validating, validating("resource.Get('v1', 'configmaps', 'prod', 'x').data.k == 'v'"), aPod, cm, []string{"ValidatingPolicy validations[0] unknown deny needs to know configmaps prod/x: give it with --with"}},
		{"lists", Validating, validating("resource.List('v1', 'configmaps', 'prod').items.size() == 1"), aPod, cm, []string{"ValidatingPolicy validations[0] pass deny "}},
		{"lists of what there is nothing of", Validating, validating("resource.List('v1', 'services', 'prod').items.size() == 1"), aPod, cm, []string{"ValidatingPolicy validations[0] unknown deny needs the list of services: give them with --with"}},
		{"global context", Validating, validating("globalContext.Get('e') == null"), aPod, nil, []string{"ValidatingPolicy validations[0] unknown deny needs to know GlobalContextEntry e"}},
		{"global context of what is rendered", Validating, validating("globalContext.Get('e').size() == 1 && globalContext.Get('e')[0].data.k == 'v'"), aPod, append(parsed(t, "{apiVersion: kyverno.io/v2alpha1, kind: GlobalContextEntry, metadata: {name: e}, spec: {kubernetesResource: {version: v1, resource: configmaps, namespace: prod}}}"), cm...), []string{"ValidatingPolicy validations[0] pass deny "}},
		{"global context of a service", Validating, validating("globalContext.Get('e').ok == true"), aPod, parsed(t, "{apiVersion: kyverno.io/v2alpha1, kind: GlobalContextEntry, metadata: {name: e}, spec: {apiCall: {urlPath: /x}}}"), []string{"ValidatingPolicy validations[0] unknown deny needs the answer of the service that GlobalContextEntry e calls"}},
		{"defaults of the API server", Validating, validating("object.spec.containers.all(c, c.imagePullPolicy == 'IfNotPresent') && object.spec.restartPolicy == 'Always'"), aPod, nil, []string{"ValidatingPolicy validations[0] pass deny "}},
		{"a digest that Kyverno would put in", ImageValidating, "attestors: []\n" + validating("true"), aPod, nil, []string{`ImageValidatingPolicy verifyDigest unknown deny needs the digest of image "nginx:1.25" from its registry`}},
		{"a digest that nobody puts in", ImageValidating, "attestors: []\nvalidationConfigurations: {mutateDigest: false}\n" + validating("true"), aPod, nil, []string{"ImageValidatingPolicy verifyDigest fail deny image nginx:1.25 does not have a digest /spec/containers/0/image 9:22"}},
		{"a JSON policy", Validating, "evaluation: {mode: JSON}\n" + validating("false"), aPod, nil, nil},
		{"a Deleting one", Deleting, "schedule: 0 * * * *\nconditions: [{name: a, expression: 'true'}]", aPod, nil, nil},
		{"labels that are set", Mutating, "mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: \"Object{metadata: Object.metadata{labels: Object.metadata.labels{team: 'a'}}}\"}}]", aPod, nil, []string{"MutatingPolicy mutations[0] pass deny sets /metadata/labels/team /metadata/labels/team 4:38"}},
		{"a condition that exempts", Mutating, "matchConditions: [{name: c, expression: 'false'}]\nmutations: [{patchType: JSONPatch, jsonPatch: {expression: '[]'}}]", aPod, nil, []string{`MutatingPolicy mutations[0] skip deny exempt by match condition "c"`}},
		{"nothing", Mutating, "mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[]'}}]", aPod, nil, []string{"MutatingPolicy mutations[0] pass deny changes nothing"}},
		{"all or nothing", Mutating, "mutations: [{patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/metadata/labels/a', value: 'b'}]\"}}, {patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'remove', path: '/spec/nope'}]\"}}]", aPod, nil, []string{"MutatingPolicy mutations[1] error deny JSON Patch: error in remove for path: '/spec/nope': Unable to remove nonexistent key: nope: missing value"}},
		{"a map that the next mutation fills", Mutating, "mutations: [{patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}]\"}}, {patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'add', path: '/metadata/annotations/a', value: string(has(object.metadata.annotations))}]\"}}]", aPod, nil, []string{"MutatingPolicy mutations[0] pass deny changes nothing", "MutatingPolicy mutations[1] pass deny sets /metadata/annotations /metadata/annotations 4:1"}},
		{"a name", Mutating, "mutations: [{patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'replace', path: '/metadata/name', value: 'b'}]\"}}]", aPod, nil, []string{"MutatingPolicy mutations[0] error deny a mutation may not change name and namespace"}},
		{"existing objects", Mutating, "targetMatchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [configmaps]}]}\nmutations: [{patchType: JSONPatch, jsonPatch: {expression: '[]'}}]", aPod, nil, []string{"MutatingPolicy mutations[0] skip deny changes objects that are there, not those that are admitted"}},
		{"a controller's pod", Mutating, "mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: \"Object{spec: Object.spec{hostNetwork: false, dnsPolicy: 'Default'}}\"}}]", aDeployment, nil, []string{"MutatingPolicy mutations[0] pass deny sets /spec/template/spec/dnsPolicy /spec/template/spec/dnsPolicy 9:5"}},
	} {
		got := reviewed(t, chainOf(t, Options{Cluster: policy.NewCluster(c.cluster...)}, policyOf(t, c.kind, c.spec)), c.object)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}
