package gatekeeper

import (
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// benchPolicies are templates like those of the library, each with a
// constraint: about labels, images, resources and privileges, with a library.
func benchPolicies(n int) string {
	rego := []string{`
package required
import data.lib.pods
violation[{"msg": msg, "details": {"missing_labels": missing}}] {
  provided := {label | input.review.object.metadata.labels[label]}
  required := {label | label := input.parameters.labels[_]}
  missing := required - provided
  count(missing) > 0
  msg := sprintf("you must provide labels: %v", [missing])
}`, `
package repos
import data.lib.pods
violation[{"msg": msg}] {
  container := pods.containers[_]
  not startswith(container.image, input.parameters.repo)
  msg := sprintf("container <%v> has an invalid image repo <%v>", [container.name, container.image])
}`, `
package limits
import data.lib.pods
violation[{"msg": msg}] {
  container := pods.containers[_]
  not container.resources.limits.memory
  msg := sprintf("container <%v> has no memory limit", [container.name])
}`, `
package privileged
import data.lib.pods
violation[{"msg": msg}] {
  container := pods.containers[_]
  container.securityContext.privileged
  msg := sprintf("container <%v> is privileged", [container.name])
}`}
	const library = `
package lib.pods
spec = input.review.object.spec { input.review.kind.kind == "Pod" }
spec = input.review.object.spec.template.spec { input.review.kind.kind != "Pod" }
containers[c] { c := spec.containers[_] }
containers[c] { c := spec.initContainers[_] }`
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: bench%d}
spec:
  crd:
    spec:
      names: {kind: Bench%d}
      validation:
        openAPIV3Schema:
          type: object
          properties: {labels: {type: array, items: {type: string}}, repo: {type: string, default: "registry.example.com/"}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
%s    libs:
    - |
%s---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Bench%d
metadata: {name: bench%d}
spec:
  match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}, {apiGroups: [""], kinds: [Pod]}]}
  parameters: {labels: [app, "team"]}
`, i, i, indent(rego[i%len(rego)], 6), indent(library, 6), i, i)
	}
	return b.String()
}

// benchRequests are Deployments of which one in ten violates.
func benchRequests(b *testing.B, n int) []*policy.Request {
	reqs := make([]*policy.Request, n)
	for i := range reqs {
		image := "registry.example.com/app:1"
		if i%10 == 0 {
			image = "docker.io/app"
		}
		reqs[i] = requestOf(b, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: app-%d, namespace: shop, labels: {app: a, team: b}}
spec:
  replicas: 2
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      containers:
      - {name: app, image: %s, resources: {limits: {memory: 1Gi, cpu: "1"}}, ports: [{containerPort: 80}], env: [{name: A, value: b}, {name: C, value: d}]}
      - {name: side, image: registry.example.com/side:1, resources: {limits: {memory: 1Gi}}}
`, i, image))
	}
	return reqs
}

func benchObjects(b *testing.B, n int) []*render.Object {
	return parseAll(b, benchPolicies(n))
}

// BenchmarkNew compiles 40 templates with their constraints.
func BenchmarkNew(b *testing.B) {
	objects := benchObjects(b, 40)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(objects, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkValidate evaluates 300 objects by 40 templates.
func BenchmarkValidate(b *testing.B) {
	e, err := New(benchObjects(b, 40), Options{})
	if err != nil {
		b.Fatal(err)
	}
	reqs := benchRequests(b, 300)
	b.ReportAllocs()
	for b.Loop() {
		for _, req := range reqs {
			if _, err := e.Validate(b.Context(), req); err != nil {
				b.Fatal(err)
			}
		}
	}
}
