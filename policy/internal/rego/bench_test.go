package rego

import (
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

const limitsPolicy = `package main

import rego.v1

name := input.metadata.name

containers contains c if some c in input.spec.template.spec.containers

containers contains c if some c in input.spec.template.spec.initContainers

deny contains msg if {
	input.kind == "Deployment"
	some c in containers
	not c.resources.limits.memory
	msg := sprintf("%s: container %s has no memory limit", [name, c.name])
}

deny contains msg if {
	input.kind == "Deployment"
	some c in containers
	endswith(c.image, ":latest")
	msg := sprintf("%s: container %s runs %s", [name, c.name, c.image])
}
`

// deployment is a workload of three containers; the second breaks both rules
// where it is bad.
func deployment(bad bool) map[string]any {
	container := func(name, image string, limits map[string]any) any {
		return map[string]any{"name": name, "image": image, "resources": map[string]any{"limits": limits}}
	}
	second := container("log", "registry.example/log:1", map[string]any{"memory": "64Mi"})
	if bad {
		second = container("log", "log:latest", map[string]any{"cpu": "1"})
	}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "labels": map[string]any{"app": "web", "team": "a"}},
		"spec": map[string]any{"replicas": int64(3), "template": map[string]any{"spec": map[string]any{"containers": []any{
			container("web", "registry.example/web:1", map[string]any{"memory": "128Mi", "cpu": "1"}),
			second,
			container("side", "registry.example/side:2", map[string]any{"memory": "1Gi"}),
		}}}},
	}
}

func BenchmarkParseAndCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		program(b, limitsPolicy)
	}
}

func BenchmarkAsk(b *testing.B) {
	q := query(b, program(b, limitsPolicy), "data.main.deny")
	for name, bad := range map[string]bool{"pass": false, "fail": true} {
		in := Question{Input: Value(deployment(bad))}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask(b, q, in)
			}
		})
	}
}

// BenchmarkEvaluators asks and traces the same question by the query's plan and by OPA's
// evaluator.
func BenchmarkEvaluators(b *testing.B) {
	planned := query(b, program(b, limitsPolicy), "data.main.deny")
	opa := *planned
	opa.plan = nil
	in := Question{Input: Value(deployment(true))}
	var values []ast.Value
	each(ask(b, planned, in).Value, func(t *ast.Term) { values = append(values, t.Value) })
	for name, q := range map[string]*Query{"plan": planned, "opa": &opa} {
		b.Run("ask/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask(b, q, in)
			}
		})
		b.Run("trace/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := blame(q, in, values); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAskParallel(b *testing.B) {
	q := query(b, program(b, limitsPolicy), "data.main.deny")
	in := Question{Input: Value(deployment(true))}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			ask(b, q, in)
		}
	})
}

func BenchmarkBlame(b *testing.B) {
	q := query(b, program(b, limitsPolicy), "data.main.deny")
	in := Question{Input: Value(deployment(true))}
	var values []ast.Value
	ask(b, q, in).Value.(ast.Set).Foreach(func(t *ast.Term) { values = append(values, t.Value) })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := blame(q, in, values); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValue(b *testing.B) {
	d := deployment(true)
	b.ReportAllocs()
	for b.Loop() {
		Value(d)
	}
}
