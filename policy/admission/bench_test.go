package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render/rendertest"
)

const benchPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: "p%[1]d"}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  matchConditions:
  - {name: not-system, expression: "request.namespace != 'kube-system'"}
  variables:
  - {name: containers, expression: "object.spec.template.spec.containers + object.spec.template.spec.?initContainers.orValue([])"}
  validations:
  - expression: variables.containers.all(c, has(c.resources.limits) && has(c.resources.limits.memory))
    messageExpression: "'no limit: ' + variables.containers.map(c, c.name).join(', ')"
  - expression: variables.containers.all(c, c.image.startsWith('registry.example.com/') || c.image.matches('^r[0-9]+/'))
    message: registry
  - expression: object.spec.replicas <= 5 + %[1]d
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: "p%[1]d"}
spec: {policyName: "p%[1]d", validationActions: [Deny]}
---
`

const benchObject = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: "web%[1]d", namespace: prod, labels: {app: web, team: red}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: a, image: registry.example.com/a, args: [x], resources: {limits: {memory: 1Gi, cpu: 500m}}}
      - {name: b, image: r1/b, env: [{name: A, value: b}], resources: {limits: {memory: 1Gi}}}
      - {name: c, image: registry.example.com/c, resources: {limits: {memory: 1Gi}}}
      initContainers:
      - {name: d, image: registry.example.com/d, resources: {limits: {memory: 1Gi}}}
---
`

func benchEngine(b *testing.B, policies int) (*Engine, []policy.Request) {
	b.Helper()
	var text, objects strings.Builder
	for i := range policies {
		fmt.Fprintf(&text, benchPolicy, i)
	}
	for i := range 1000 {
		fmt.Fprintf(&objects, benchObject, i)
	}
	e, err := New(rendertest.Parse(b, "p.yaml", text.String()), Options{Kinds: testKinds{}})
	if err != nil {
		b.Fatal(err)
	}
	var reqs []policy.Request
	for _, o := range rendertest.Parse(b, "o.yaml", objects.String()) {
		req := policy.Request{Operation: policy.Create, Object: o, Kind: o.GroupVersionKind(), Name: o.GetName(), Namespace: "prod"}
		req.Resource = e.options.Kinds.Resource(req.Kind)
		req.UserInfo.Username = "alice"
		if req.Admitted, err = e.options.Kinds.Admit(o, "prod"); err != nil {
			b.Fatal(err)
		}
		reqs = append(reqs, req)
	}
	return e, reqs
}

// BenchmarkValidate is one object by 20 policies of a match condition, a
// variable and three validations, all of which pass. validations/s is by core.
func BenchmarkValidate(b *testing.B) {
	e, reqs := benchEngine(b, 20)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		results, err := e.Validate(context.Background(), &reqs[i%len(reqs)])
		if err != nil || len(results) != 60 || results[0].Outcome != policy.Pass {
			b.Fatal(len(results), err)
		}
	}
	b.ReportMetric(float64(b.N)*60/b.Elapsed().Seconds(), "validations/s")
}

// BenchmarkBare is the same programs, called one after the other on values
// that are there already: what the evaluation costs alone.
func BenchmarkBare(b *testing.B) {
	e, reqs := benchEngine(b, 20)
	runs := make([][]*run, len(reqs))
	for i := range reqs {
		for _, p := range e.policies {
			x := newReview(context.Background(), e, &reqs[i]).run.setUp(p.compiled, nullParam, policy.Version{Resource: reqs[i].Resource.GroupVersionResource, Kind: reqs[i].Kind})
			x.bind(true, false, x.as)
			runs[i] = append(runs[i], x)
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for _, x := range runs[i%len(runs)] {
			x.act.variables.Reset(&x.policy.names)
			for _, list := range [][]*cel.Expression{x.policy.conditions, x.policy.validations} {
				for _, c := range list {
					if v, _, err := c.Program.Eval(context.Background(), &x.act); err != nil || v != types.True {
						b.Fatal(v, err)
					}
				}
			}
		}
	}
	b.ReportMetric(float64(b.N)*60/b.Elapsed().Seconds(), "validations/s")
}

// BenchmarkValidateFailing is the same with failures, worded and explained.
func BenchmarkValidateFailing(b *testing.B) {
	e, reqs := benchEngine(b, 20)
	for i := range reqs {
		spec := reqs[i].Admitted["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		resources := spec["containers"].([]any)[1].(map[string]any)["resources"].(map[string]any)
		delete(resources, "limits")
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if results, err := e.Validate(context.Background(), &reqs[i%len(reqs)]); err != nil || results[0].Outcome != policy.Fail {
			b.Fatal(results[0], err)
		}
	}
}

// BenchmarkNew compiles 20 policies.
func BenchmarkNew(b *testing.B) {
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, benchPolicy, i)
	}
	objects := rendertest.Parse(b, "p.yaml", text.String())
	for b.Loop() {
		if _, err := New(objects, Options{Kinds: testKinds{}}); err != nil {
			b.Fatal(err)
		}
	}
}
