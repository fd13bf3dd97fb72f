package kyvernocel

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// benchPolicies are policies about pods as security standards have them.
func benchPolicies(t testing.TB, n int) []*render.Object {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: p%d}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}
  variables:
  - name: all
    expression: object.spec.containers + object.spec.?initContainers.orValue([]) + object.spec.?ephemeralContainers.orValue([])
  validations:
  - expression: variables.all.all(c, c.?securityContext.?privileged.orValue(false) == false)
    message: privileged
  - expression: variables.all.all(c, c.?securityContext.?capabilities.?add.orValue([]).all(a, a in ['CHOWN', 'KILL']))
    message: capabilities
`, i)
	}
	return parsed(t, b.String())
}

// benchRequests are requests for Deployments, of which one in seven is at
// fault.
func benchRequests(t testing.TB, kinds policy.Kinds, n int) []*policy.Request {
	var reqs []*policy.Request
	for i := range n {
		o := parsed(t, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-%d, namespace: prod}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      initContainers: [{name: init, image: busybox:1}]
      containers:
      - {name: web, image: nginx:1, securityContext: {privileged: %v, capabilities: {drop: [ALL]}}}
      - {name: side, image: envoy:1}
`, i, i%7 == 0))[0]
		reqs = append(reqs, requestOf(kinds, o, policy.Create))
	}
	return reqs
}

func BenchmarkNew(b *testing.B) {
	policies, kinds := benchPolicies(b, 16), kindsOf(b)
	for b.Loop() {
		if _, err := New(policies, Options{Kinds: kinds}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkValidate evaluates 300 Deployments by 16 policies an iteration.
func BenchmarkValidate(b *testing.B) {
	kinds := kindsOf(b)
	e, err := New(benchPolicies(b, 16), Options{Kinds: kinds})
	if err != nil {
		b.Fatal(err)
	}
	reqs, v := benchRequests(b, kinds, 300), e.Validator()
	b.ReportAllocs()
	for b.Loop() {
		for _, req := range reqs {
			if _, err := v.Validate(context.Background(), req); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkRespond does the same as Kyverno's command line would.
func BenchmarkRespond(b *testing.B) {
	kinds := kindsOf(b)
	e, err := New(benchPolicies(b, 16), Options{CLI: true, Kinds: kinds})
	if err != nil {
		b.Fatal(err)
	}
	reqs := benchRequests(b, kinds, 300)
	b.ReportAllocs()
	for b.Loop() {
		for _, req := range reqs {
			if _, err := e.Respond(context.Background(), req, &Mocks{}); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func parsed(t testing.TB, text string) []*render.Object {
	t.Helper()
	return rendertest.Parse(t, "policy.yaml", text)
}
