package kyverno

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// benchPolicy is a policy of each kind of rule that is most common.
const benchPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: bench}
spec:
  rules:
  - name: pattern
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      message: no privilege
      pattern:
        spec:
          =(hostNetwork): false
          =(securityContext):
            =(runAsUser): ">0"
          containers:
          - name: "*"
            =(securityContext):
              =(privileged): false
  - name: deny
    match: {any: [{resources: {kinds: [Pod]}}]}
    preconditions:
      all:
      - {key: "{{ request.operation }}", operator: NotEquals, value: DELETE}
    validate:
      message: no drops
      deny:
        conditions:
          any:
          - {key: "{{ request.object.spec.containers[].securityContext.capabilities.drop[] }}", operator: AnyIn, value: [KILL]}
  - name: foreach
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      message: no latest
      foreach:
      - list: request.object.spec.containers
        deny:
          conditions:
            any:
            - {key: "{{ element.image }}", operator: Equals, value: "*:latest"}
`

func deployments(n int) []*render.Object {
	objects := make([]*render.Object, n)
	for i := range objects {
		container := func(name string) any {
			return map[string]any{
				"name": name, "image": "registry.example/" + name + ":1.2", "imagePullPolicy": "IfNotPresent",
				"ports":           []any{map[string]any{"containerPort": int64(8080), "name": "http", "protocol": "TCP"}},
				"env":             []any{map[string]any{"name": "MODE", "value": "production"}, map[string]any{"name": "REGION", "value": "eu"}},
				"resources":       map[string]any{"limits": map[string]any{"cpu": "1", "memory": "1Gi"}, "requests": map[string]any{"cpu": "100m"}},
				"securityContext": map[string]any{"allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": map[string]any{"drop": []any{"ALL"}}, "seccompProfile": map[string]any{"type": "RuntimeDefault"}},
			}
		}
		labels := map[string]any{"app": fmt.Sprint("app-", i)}
		objects[i] = &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": fmt.Sprint("app-", i), "namespace": "default", "labels": labels},
			"spec": map[string]any{
				"replicas": int64(3), "selector": map[string]any{"matchLabels": labels},
				"template": map[string]any{
					"metadata": map[string]any{"labels": labels},
					"spec": map[string]any{
						"containers":      []any{container("web"), container("side")},
						"securityContext": map[string]any{"runAsNonRoot": true, "fsGroup": int64(1000)},
						"volumes":         []any{map[string]any{"name": "tmp", "emptyDir": map[string]any{}}},
					},
				},
			},
		}}}
	}
	return objects
}

func benchValidator(b *testing.B, objects []*render.Object) {
	b.Helper()
	engine, err := New(objects, Options{})
	if err != nil {
		b.Fatal(err)
	}
	v := engine.Validator()
	reqs := make([]*policy.Request, 0, 300)
	for _, o := range deployments(300) {
		reqs = append(reqs, requestFor(o, policy.Create))
	}
	b.ResetTimer()
	results := 0
	for b.Loop() {
		for _, r := range reqs {
			rs, err := v.Validate(context.Background(), r)
			if err != nil {
				b.Fatal(err)
			}
			results += len(rs)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/300/float64(len(engine.Policies())), "ns/policy-object")
	b.ReportMetric(float64(results)/float64(b.N), "results")
}

// BenchmarkValidate evaluates 300 Deployments by three rules.
func BenchmarkValidate(b *testing.B) {
	objects, err := render.Parse("bench.yaml", []byte(benchPolicy))
	if err != nil {
		b.Fatal(err)
	}
	benchValidator(b, objects)
}

// BenchmarkPodSecurityPolicies evaluates 300 Deployments by Kyverno's published
// policies for the Pod Security Standards.
func BenchmarkPodSecurityPolicies(b *testing.B) {
	var objects []*render.Object
	for _, dir := range []string{"baseline", "restricted"} {
		files, _ := filepath.Glob(filepath.Join(corpora, "upstream/kyverno-policies/pod-security", dir, "*/*.yaml"))
		for _, f := range files {
			if !strings.Contains(f, "kyverno-test") {
				objects = append(objects, benchParse(b, f)...)
			}
		}
	}
	if len(objects) == 0 {
		b.Skip("no corpora beside the project")
	}
	benchValidator(b, objects)
}

func BenchmarkNew(b *testing.B) {
	objects, err := render.Parse("bench.yaml", []byte(benchPolicy))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := New(objects, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func benchParse(b *testing.B, file string) []*render.Object {
	b.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	objects, err := render.Parse(file, data)
	if err != nil {
		b.Fatal(err)
	}
	return objects
}
