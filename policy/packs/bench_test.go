package packs_test

import (
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// BenchmarkReview evaluates a Deployment that passes and one that fails by the
// whole pack, messages and blame included.
func BenchmarkReview(b *testing.B) {
	j := newKindValidator(b, newest, objects(b, newest))
	for name, image := range map[string]string{"good": "registry.example/web:1.4.2", "bad": "web"} {
		all := rendertest.Parse(b, "web.yaml", strings.ReplaceAll(deployment, "IMAGE", image))
		chain := policy.Chain{Kinds: j.kinds, Validators: []policy.Validator{j.engine}}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := chain.Review(b.Context(), policy.Requests(nil, all)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCompile makes an engine of the pack.
func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		newKindValidator(b, newest, objects(b, newest))
	}
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: web
      containers:
      - name: web
        image: IMAGE
        ports: [{name: http, containerPort: 8080}]
        env: [{name: A, value: b}, {name: C, value: d}]
        resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 64Mi}}
        livenessProbe: &probe {httpGet: {port: http, path: /}}
        readinessProbe: *probe
        securityContext: {readOnlyRootFilesystem: true}
        volumeMounts: [{name: tmp, mountPath: /tmp}]
      volumes: [{name: tmp, emptyDir: {}}]
`
