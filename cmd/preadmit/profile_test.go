package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestProfile prints the functions that take most of three runs: `make profile`.
// The profiles are in the directory that PREADMIT_PROFILE names.
func TestProfile(t *testing.T) {
	dir := os.Getenv("PREADMIT_PROFILE")
	if dir == "" {
		t.Skip("set PREADMIT_PROFILE=DIR to measure")
	}
	many := manyDeployments(t, 5000)
	for name, args := range map[string][]string{
		"best-practices": {many, "--pack", "best-practices"},
		"restricted":     {many, "--pack", "pod-security-restricted"},
		"repository":     {"../../../shared/repos/infra-deployments"},
	} {
		if _, err := os.Stat(args[0]); err != nil {
			t.Logf("%s: not measured: %s is absent", name, args[0])
			continue
		}
		t.Logf("%s\n%s", name, profiled(t, filepath.Join(dir, name+".cpu"), append([]string{"check", "--no-cache", "-o", "json"}, args...)))
	}
}

// profiled runs a command in this process and returns the top of its profile.
func profiled(t *testing.T, file string, args []string) []byte {
	t.Helper()
	f, err := os.Create(file)
	rendertest.OK(t, err)
	defer f.Close()
	rendertest.OK(t, pprof.StartCPUProfile(f))
	var stderr bytes.Buffer
	code := run(t.Context(), args, nil, io.Discard, &stderr)
	pprof.StopCPUProfile()
	if code == exitUsage {
		t.Fatalf("exit code %d: %s", code, stderr.Bytes())
	}
	top, err := exec.Command("go", "tool", "pprof", "-top", "-cum", "-nodecount=10", "-focus=preadmit", "-show=preadmit", file).Output()
	rendertest.OK(t, err)
	return top
}

// manyDeployments writes small Deployments, a hundred in a file.
func manyDeployments(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	var file bytes.Buffer
	for i := range n {
		fmt.Fprintf(&file, `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web-%[1]d, namespace: team-%[2]d, labels: {app: web-%[1]d}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web-%[1]d}}
  template:
    metadata: {labels: {app: web-%[1]d}}
    spec:
      containers:
      - name: web
        image: registry.example.org/web:1.%[1]d
        ports: [{containerPort: 8080}]
        resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
`, i, i/100)
		if (i+1)%100 == 0 || i+1 == n {
			rendertest.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("team-%d.yaml", i/100)), file.Bytes(), 0o644))
			file.Reset()
		}
	}
	return dir
}
