package gatekeeper

import (
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/mutator"
	"github.com/preadmit/preadmit/render"
)

// benchMutators are n mutators for Deployments, as people write them.
func benchMutators(n int) string {
	var b strings.Builder
	for i := range n {
		kind, version, location, parameters := "Assign", "v1", "spec.template.spec.containers[name: *].imagePullPolicy", "{assign: {value: Always}}"
		switch i % 4 {
		case 1:
			kind, location, parameters = "AssignMetadata", fmt.Sprintf("metadata.labels.l%d", i), "{assign: {value: x}}"
		case 2:
			kind, location, parameters = "ModifySet", "spec.template.spec.containers[name: *].args", fmt.Sprintf("{values: {fromList: [--a%d]}}", i)
		case 3:
			kind, version, location, parameters = "AssignImage", "v1alpha1", "spec.template.spec.containers[name: *].image", "{assignDomain: mirror.example.com}"
		}
		applyTo := "  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]\n"
		if kind == "AssignMetadata" {
			applyTo = ""
		}
		fmt.Fprintf(&b, "---\napiVersion: mutations.gatekeeper.sh/%s\nkind: %s\nmetadata: {name: m%d}\nspec:\n%s  location: %q\n  parameters: %s\n", version, kind, i, applyTo, location, parameters)
	}
	return b.String()
}

const benchDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: web:1, args: [serve], ports: [{containerPort: 80}], resources: {limits: {cpu: 1, memory: 1Gi}}}
      - {name: side, image: side:1, env: [{name: A, value: b}]}
`

// BenchmarkMutate applies mutators to a Deployment with two containers: what
// changes it, and what it is like after them, which changes nothing.
func BenchmarkMutate(b *testing.B) {
	for _, n := range []int{1, 4, 20} {
		m, err := NewMutating(parseAll(b, benchMutators(n)), Options{Kinds: bareKinds{}})
		if err != nil {
			b.Fatal(err)
		}
		chain := policy.Chain{Kinds: bareKinds{}, Mutators: []policy.Mutator{m}}
		stored, _, err := chain.Stored(b.Context(), policy.Requests(nil, parseAll(b, benchDeployment)))
		if err != nil {
			b.Fatal(err)
		}
		for name, o := range map[string]*render.Object{"changing": parseAll(b, benchDeployment)[0], "settled": stored[0]} {
			req := policy.Requests(nil, []*render.Object{o})[0]
			req.Admitted, req.Kind, req.Namespace = o.Object, o.GroupVersionKind(), "shop"
			req.Resource = bareKinds{}.Resource(req.Kind)
			b.Run(fmt.Sprintf("%d/%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := m.Mutate(b.Context(), &req); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkExpand expands a Deployment, with a mutator for what is made.
func BenchmarkExpand(b *testing.B) {
	objects := parseAll(b, `
apiVersion: expansion.gatekeeper.sh/v1beta1
kind: ExpansionTemplate
metadata: {name: pods}
spec:
  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]
  templateSource: spec.template
  generatedGVK: {version: v1, kind: Pod}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: owner}
spec: {location: metadata.labels.owner, parameters: {assign: {value: team}}}
`)
	m, err := mutator.New(objects)
	if err != nil {
		b.Fatal(err)
	}
	e, err := newExpansions(objects, m)
	if err != nil {
		b.Fatal(err)
	}
	x := document.Matchable{Object: parseAll(b, benchDeployment)[0].Object, Namespace: &document.Namespace{Name: "shop", Known: true}, Source: document.SourceOriginal}
	b.ReportAllocs()
	for b.Loop() {
		if made, _, err := e.expand(b.Context(), x); err != nil || len(made) != 1 {
			b.Fatal(len(made), err)
		}
	}
}
