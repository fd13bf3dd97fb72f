package render

import (
	"bytes"
	"fmt"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"
)

// plainYAML is what a rendered Deployment with its Service looks like, n times.
func plainYAML(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `---
# Source: web/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-%d
  namespace: prod
  labels:
    app.kubernetes.io/name: web
    app.kubernetes.io/instance: "release-%d"
    helm.sh/chart: web-1.2.3
spec:
  replicas: 3
  selector:
    matchLabels:
      app.kubernetes.io/name: web
  template:
    metadata:
      labels: {app.kubernetes.io/name: web, tier: "front"}
      annotations:
        checksum/config: 0f5a3c1e5a7b9d2f4c6e8a0b1d3f5a7c9e1b3d5f7a9c1e3b5d7f9a1c3e5b7d9f
    spec:
      serviceAccountName: web
      securityContext:
        runAsNonRoot: true
        runAsUser: 1000
      containers:
      - name: web
        image: registry.example.com/team/web:v1.2.%d
        imagePullPolicy: IfNotPresent
        command: ["/bin/sh", "-c"]
        args:
        - |
          set -e
          exec /web --port 8080 --config /etc/web/config.yaml
        ports:
        - name: http
          containerPort: 8080
          protocol: TCP
        resources:
          limits:
            cpu: 500m
            memory: 256Mi
          requests:
            cpu: 100m
            memory: 128Mi
        livenessProbe:
          httpGet:
            path: /healthz
            port: http
          periodSeconds: 10
---
apiVersion: v1
kind: Service
metadata:
  name: web-%d
spec:
  type: ClusterIP
  ports:
  - port: 80
    targetPort: http
  selector:
    app.kubernetes.io/name: web
`, i, i, i, i)
	}
	return b.Bytes()
}

// BenchmarkParse compares reading a file with its places with what the YAML
// library takes for its nodes alone.
func BenchmarkParse(b *testing.B) {
	data := plainYAML(200)
	b.Run("objects", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			objects, err := Parse("x.yaml", data)
			if len(objects) != 400 || err != nil {
				b.Fatal(len(objects), err)
			}
		}
	})
	b.Run("nodes-alone", func(b *testing.B) {
		chunks := newSource("x.yaml", data).split()
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			for _, c := range chunks {
				var n yaml.Node
				if err := yaml.Unmarshal(c.text, &n); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkAt(b *testing.B) {
	objects, err := Parse("x.yaml", plainYAML(200))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		objects[398].At("/spec/template/spec/containers/0/resources/limits/memory")
	}
}

func BenchmarkDiscover(b *testing.B) {
	fsys := fstest.MapFS{}
	data := plainYAML(1)
	for i := range 1000 {
		fsys[fmt.Sprintf("apps/%d/deploy.yaml", i)] = &fstest.MapFile{Data: data}
		fsys[fmt.Sprintf("apps/%d/values.yaml", i)] = &fstest.MapFile{Data: []byte("a: b\n")}
	}
	for b.Loop() {
		if d := (Graph{Renderers: []Renderer{Manifests{}}}).Discover(fsys); len(d.Sources) != 1000 || d.Err != nil {
			b.Fatal(len(d.Sources), d.Err)
		}
	}
}
