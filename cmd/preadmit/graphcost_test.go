package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/cmd/preadmit/confine"
	"github.com/preadmit/preadmit/render/git/gittest"
)

// BenchmarkGraph renders a chart 600 times: with 600 values files that the
// configuration declares, and as 300 HelmReleases and 300 Applications deploy it,
// without a cache, with an empty and with a full one, and compared with a base from
// which one Application differs. cpu-s/op is the processor time, which other processes change less than
// ns/op.
func BenchmarkGraph(b *testing.B) {
	plain, graph := b.TempDir(), b.TempDir()
	writeChart(b, plain)
	writeChart(b, graph)
	for i := range 600 {
		writeBench(b, filepath.Join(plain, fmt.Sprintf("charts/app/ci/%d-values.yaml", i)), fmt.Sprintf("name: app-%d\n", i))
	}
	writeBench(b, filepath.Join(plain, ".preadmit/config.yaml"), "deployments:\n- {path: charts/app, values-each: ci/*-values.yaml}\n")
	for i := range 300 {
		writeBench(b, filepath.Join(graph, fmt.Sprintf("releases/%d.yaml", i)), fmt.Sprintf(benchRelease, i, i))
		writeBench(b, filepath.Join(graph, fmt.Sprintf("apps/%d.yaml", i)), fmt.Sprintf(benchApplication, i, i))
		writeBench(b, filepath.Join(graph, fmt.Sprintf("charts/app/env/%d.yaml", i)), "replicas: 2\n")
	}
	writeBench(b, filepath.Join(graph, "releases/source.yaml"), releaseSource)
	writeBench(b, filepath.Join(graph, ".preadmit/config.yaml"), "repository: [https://git.example/shop]\ngitops: auto\n")
	repo, err := gittest.Init(graph)
	if err == nil {
		_, err = repo.CommitAll("base")
	}
	if err != nil {
		b.Fatal(err)
	}
	writeBench(b, filepath.Join(graph, "apps/7.yaml"), fmt.Sprintf(benchApplication, 7, 8))
	for _, c := range []struct {
		name, dir string
		args      []string
	}{
		{"plain", plain, []string{"--no-cache"}},
		{"graph", graph, []string{"--no-cache"}},
		{"base", graph, []string{"--no-cache", "--base", "HEAD"}},
		{"cold", graph, nil},
		{"again", graph, []string{"--cache", b.TempDir()}},
	} {
		b.Run(c.name, func(b *testing.B) {
			check := func() {
				var out, errs bytes.Buffer
				args := append([]string{"check", c.dir, "--pack", "pod-security-baseline", "-o", "json"}, c.args...)
				if c.name == "cold" {
					args = append(args, "--cache", b.TempDir())
				}
				if code := run(context.Background(), args, strings.NewReader(""), &out, &errs); code == exitUsage || out.Len() < 10_000 {
					b.Fatalf("exit code %d: %s", code, errs.String())
				}
			}
			if c.name == "again" {
				check()
			}
			began := confine.UsedCPU()
			for b.Loop() {
				check()
			}
			b.ReportMetric((confine.UsedCPU()-began).Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

const (
	benchRelease = `apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: release-%d, namespace: shop}
spec:
  interval: 1m
  chart: {spec: {chart: charts/app, sourceRef: {kind: GitRepository, name: shop}}}
  values: {name: app-%d}
`
	releaseSource = `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: shop, namespace: shop}
spec: {url: https://git.example/shop, interval: 1m, ref: {branch: main}}
`
	benchApplication = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: app-%d, namespace: argocd}
spec:
  project: default
  destination: {server: https://kubernetes.default.svc, namespace: shop}
  source: {repoURL: https://git.example/shop, path: charts/app, helm: {valueFiles: [env/%[2]d.yaml], valuesObject: {name: app-%[2]d}}}
`
)

func writeChart(b *testing.B, dir string) {
	b.Helper()
	writeBench(b, filepath.Join(dir, "charts/app/Chart.yaml"), "apiVersion: v2\nname: app\nversion: 1.0.0\n")
	writeBench(b, filepath.Join(dir, "charts/app/values.yaml"), "name: app\nreplicas: 1\nports: [80, 443]\n")
	writeBench(b, filepath.Join(dir, "charts/app/templates/app.yaml"), `apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Values.name }}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: {{ .Values.name }}}}
  template:
    metadata: {labels: {app: {{ .Values.name }}}}
    spec:
      containers:
      - name: app
        image: registry.example/{{ .Values.name }}:1
        ports:
        {{- range .Values.ports }}
        - containerPort: {{ . }}
        {{- end }}
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Values.name }}}
spec: {selector: {app: {{ .Values.name }}}, ports: [{port: 80}]}
`)
}

// writeBench writes a file.
func writeBench(b *testing.B, name, content string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		b.Fatal(err)
	}
}
