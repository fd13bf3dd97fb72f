//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestOriginsProcesses renders 300 overlays and 100 releases in this process,
// and by one process each of kustomize and helm, as many at a time as there are
// processors, and wants this one to take a fifth of the time at most. It asks
// for the place of one field of each object.
func TestOriginsProcesses(t *testing.T) {
	if os.Getenv("PREADMIT_ORIGINS") == "" {
		t.Skip("takes a minute; make origins runs it")
	}
	quietLibraries()
	for _, program := range []string{"helm", "kustomize"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s on PATH", program)
		}
	}
	root := t.TempDir()
	overlays(t, root, 300)
	charts := releases(t)
	start := time.Now()
	programs(t, commands(root, charts))
	theirs, theirCPU := time.Since(start), cpuOf(syscall.RUSAGE_CHILDREN)

	start = time.Now()
	spent := cpu()
	graph := render.Graph{Renderers: renderers()}
	n := 0
	for _, sources := range [][]render.Source{overlaySources(t, root), charts} {
		units, err := graph.Render(context.Background(), sources...)
		rendertest.OK(t, err)
		for _, u := range units {
			for _, o := range u.Objects {
				o.At("/metadata/name")
				n++
			}
		}
	}
	ours, ourCPU := time.Since(start), cpu()-spent
	t.Logf("300 overlays and 100 releases, %d objects: %v here, %v by a process each: %.1f times less; CPU time %v and %v: %.1f times less", n,
		ours.Round(time.Millisecond), theirs.Round(time.Millisecond), float64(theirs)/float64(ours),
		ourCPU.Round(time.Millisecond), theirCPU.Round(time.Millisecond), float64(theirCPU)/float64(ourCPU))
	if theirs < 5*ours && theirCPU < 5*ourCPU {
		t.Errorf("only %.1f times less", float64(theirs)/float64(ours))
	}
}

// overlays writes a base and a component under n overlays.
func overlays(t *testing.T, root string, n int) {
	t.Helper()
	put := func(name, content string) {
		name = filepath.Join(root, name)
		rendertest.OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
		rendertest.WriteFile(t, name, content)
	}
	put("base/kustomization.yaml", "resources: [all.yaml]\n")
	put("base/all.yaml", `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1.14
        ports:
        - containerPort: 80
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports:
  - port: 80
`)
	put("part/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [account.yaml]\n")
	put("part/account.yaml", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web}\n")
	for i := range n {
		put(fmt.Sprintf("overlay%d/kustomization.yaml", i), fmt.Sprintf(`namespace: ns%[1]d
resources: [../base]
components: [../part]
images: [{name: nginx, newTag: "1.%[1]d"}]
labels: [{pairs: {env: e%[1]d}}]
configMapGenerator: [{name: conf, literals: [a=%[1]d]}]
secretGenerator: [{name: token, literals: [b=%[1]d]}]
patches:
- path: patch.yaml
- target: {kind: Deployment}
  patch: '[{"op": "add", "path": "/spec/replicas", "value": %[1]d}]'
`, i))
		put(fmt.Sprintf("overlay%d/patch.yaml", i), `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: web
        resources: {limits: {memory: 1Gi}}
`)
	}
}

func overlaySources(t *testing.T, root string) (all []render.Source) {
	tr := treeOf(t, root)
	for i := range 300 {
		all = append(all, render.Source{FS: tr, Path: fmt.Sprintf("overlay%d", i), Kind: "kustomize"})
	}
	return all
}

// releases are a hundred of the charts at hand, which render with their own values.
func releases(t *testing.T) (all []render.Source) {
	t.Helper()
	var charts []render.Source
	for _, root := range repositories(t) {
		tr := treeOf(t, root)
		found := render.Graph{Renderers: renderers()}.Discover(tr, ".")
		for _, src := range found.Sources {
			if src.Kind == "helm" && len(rendering(src)) > 0 {
				charts = append(charts, src)
			}
		}
	}
	for i := range 100 {
		src := charts[i%len(charts)]
		src.Helm = &render.Helm{ReleaseName: fmt.Sprintf("release-%d", i)}
		all = append(all, src)
	}
	return all
}

func commands(root string, charts []render.Source) (all []*exec.Cmd) {
	for i := range 300 {
		all = append(all, exec.Command("kustomize", "build", filepath.Join(root, fmt.Sprintf("overlay%d", i))))
	}
	for i, src := range charts {
		dir := filepath.Join(src.FS.(*load.Tree).Dir, src.Path)
		all = append(all, exec.Command("helm", "template", fmt.Sprintf("release-%d", i), dir, "--include-crds", "--kube-version", "1.37.0"))
	}
	return all
}

func programs(t *testing.T, commands []*exec.Cmd) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, cmd := range commands {
		group.Go(func() error {
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%v: %w", cmd.Args, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Logf("a process fails, and is quicker for it: %v", err)
	}
}
