package rego

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// twenty are that many rules about Deployments, of the kinds that people write.
func twenty() []Module {
	var b strings.Builder
	b.WriteString(`package main

import data.lib

`)
	for i := range 5 {
		fmt.Fprintf(&b, `deny_memory_%[1]d contains msg if {
	some c in lib.containers
	not c.resources.limits.memory
	msg := sprintf("%%s has no memory limit %[1]d", [c.name])
}

deny_latest_%[1]d contains msg if {
	input.kind == "Deployment"
	some c in input.spec.template.spec.containers
	endswith(c.image, ":latest%[1]d")
	msg := sprintf("%%s is latest", [c.name])
}

warn_label_%[1]d contains {"msg": msg} if {
	required := {"app", "tier"}
	missing := required - object.keys(input.metadata.labels)
	count(missing) > 0
	msg := sprintf("%%v are missing %[1]d", [missing])
}

violation_service_%[1]d contains msg if {
	input.kind == "Service"
	input.spec.type == "LoadBalancer"
	msg := "no load balancers"
}

`, i)
	}
	return []Module{{"main.rego", b.String()}, {"lib.rego", `package lib

containers contains c if {
	input.kind in {"Deployment", "StatefulSet"}
	some c in input.spec.template.spec.containers
}
`}}
}

// deployments are objects of which one in ten violates some of the rules.
func deployments(n int) []*render.Object {
	all := make([]*render.Object, n)
	for i := range all {
		container := func(name string) any {
			c := map[string]any{
				"name": name, "image": "registry.example.com/" + name + ":1",
				"resources": map[string]any{"limits": map[string]any{"memory": "64Mi"}},
				"env":       []any{map[string]any{"name": "A", "value": "b"}, map[string]any{"name": "C", "value": "d"}},
			}
			if i%10 == 0 && name == "side" {
				delete(c, "resources")
			}
			return c
		}
		all[i] = &render.Object{
			Unstructured: &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment",
				"metadata": map[string]any{"name": fmt.Sprintf("web-%d", i), "labels": map[string]any{"app": "web", "tier": "front"}},
				"spec": map[string]any{"replicas": int64(2), "template": map[string]any{"spec": map[string]any{
					"containers": []any{container("web"), container("side")},
				}}},
			}},
			Provenance: render.File{Span: render.Span{File: fmt.Sprintf("apps/%d.yaml", i/10)}},
		}
	}
	return all
}

// BenchmarkValidate is 20 rules about 1,000 objects, of which 100 violate 5.
func BenchmarkValidate(b *testing.B) {
	e, err := New(twenty(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	objects := deployments(1000)
	b.ReportAllocs()
	for b.Loop() {
		for _, o := range objects {
			validate(b, e, o)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*20*len(objects)), "µs/rule")
}

// BenchmarkPassing is the same with nothing to blame.
func BenchmarkPassing(b *testing.B) {
	e, err := New(twenty(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	o := deployments(2)[1]
	b.ReportAllocs()
	for b.Loop() {
		validate(b, e, o)
	}
}

// BenchmarkCombined asks them about 1,000 objects at once, as rules see none.
func BenchmarkCombined(b *testing.B) {
	e, err := New(twenty(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	objects := deployments(1000)
	b.ReportAllocs()
	for b.Loop() {
		c := e.Combine(objects)
		for _, o := range objects {
			validate(b, c, o)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(twenty(), Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func TestBenchmarkPoliciesEvaluate(t *testing.T) {
	t.Parallel()
	e, err := New(twenty(), Options{})
	rendertest.OK(t, err)
	failed := 0
	for _, o := range deployments(20) {
		for _, r := range validate(t, e, o) {
			if r.Outcome == policy.Fail {
				failed++
			}
		}
	}
	if failed != 10 {
		t.Errorf("%d violations, want 10", failed)
	}
}
