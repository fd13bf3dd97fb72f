package kustomize_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/kustomize"
)

// overlays is a base with a component under n overlays, each with images, a
// merge patch, a JSON patch and a generator.
func overlays(n int) fstest.MapFS {
	fsys := tree(
		"base/kustomization.yaml", "resources: [deployment.yaml, service.yaml]\n",
		"base/deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {app: web}}\n  template:\n"+
			"    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - name: web\n        image: nginx:1.14\n        ports:\n        - containerPort: 80\n",
		"base/service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  selector: {app: web}\n  ports:\n  - port: 80\n",
		"part/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [account.yaml]\n",
		"part/account.yaml", "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: web}\n",
	)
	for i := range n {
		fsys[fmt.Sprintf("overlay%d/kustomization.yaml", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, `namespace: ns%d
resources: [../base]
components: [../part]
images: [{name: nginx, newTag: "1.%d"}]
labels: [{pairs: {env: e%d}}]
configMapGenerator: [{name: conf, literals: [a=%d]}]
secretGenerator: [{name: token, literals: [b=%d]}]
patches:
- path: patch.yaml
- target: {kind: Deployment}
  patch: '[{"op": "add", "path": "/spec/replicas", "value": %d}]'
`, i, i, i, i, i, i)}
		fsys[fmt.Sprintf("overlay%d/patch.yaml", i)] = &fstest.MapFile{Data: []byte(
			"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    spec:\n      containers:\n      - name: web\n        resources: {limits: {memory: 1Gi}}\n")}
	}
	return fsys
}

// BenchmarkOverlays compares with kustomize alone on the same files, in the
// same run; "traced" also asks where one field of each object is written.
func BenchmarkOverlays(b *testing.B) {
	const n = 20
	fsys := overlays(n)
	b.Run("kustomize", func(b *testing.B) {
		disk := inMemory(b, fsys)
		o := &krusty.Options{LoadRestrictions: types.LoadRestrictionsRootOnly, PluginConfig: types.DisabledPluginConfig(), Reorder: krusty.ReorderOptionUnspecified}
		for i := 0; b.Loop(); i++ {
			if _, err := krusty.MakeKustomizer(o).Run(disk, fmt.Sprintf("/overlay%d", i%n)); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "overlays/s")
	})
	b.Run("kustomize-printed", func(b *testing.B) {
		disk := inMemory(b, fsys)
		o := &krusty.Options{LoadRestrictions: types.LoadRestrictionsRootOnly, PluginConfig: types.DisabledPluginConfig(), Reorder: krusty.ReorderOptionUnspecified}
		for i := 0; b.Loop(); i++ {
			m, err := krusty.MakeKustomizer(o).Run(disk, fmt.Sprintf("/overlay%d", i%n))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := m.AsYaml(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "overlays/s")
	})
	b.Run("render", func(b *testing.B) { benchRender(b, fsys, n, func(*render.Object) {}) })
	b.Run("traced", func(b *testing.B) {
		benchRender(b, fsys, n, func(o *render.Object) { o.At("/metadata/name") })
	})
}

func benchRender(b *testing.B, fsys fs.FS, n int, use func(*render.Object)) {
	r := kustomize.New(kustomize.Options{})
	for i := 0; b.Loop(); i++ {
		objects, err := r.Render(context.Background(), render.Source{FS: fsys, Path: fmt.Sprintf("overlay%d", i%n)})
		if err != nil || len(objects) != 5 {
			b.Fatal(len(objects), err)
		}
		for _, o := range objects {
			use(o)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "overlays/s")
}

func inMemory(b *testing.B, fsys fstest.MapFS) filesys.FileSystem {
	disk := filesys.MakeFsInMemory()
	for name, f := range fsys {
		if err := disk.WriteFile("/"+name, f.Data); err != nil {
			b.Fatal(err)
		}
	}
	return disk
}

// BenchmarkAt asks for the place of every field of an object.
func BenchmarkAt(b *testing.B) {
	objects, err := kustomize.New(kustomize.Options{}).Render(context.Background(), render.Source{FS: overlays(1), Path: "overlay0"})
	if err != nil {
		b.Fatal(err)
	}
	var fields []string
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			fields = leaves(o.Object, "")
			for i := 0; b.Loop(); i++ {
				o.At(fields[i%len(fields)])
			}
		}
	}
}

// BenchmarkDetect looks at a directory that is one and one that is none.
func BenchmarkDetect(b *testing.B) {
	fsys := overlays(1)
	r := kustomize.New(kustomize.Options{})
	for _, dir := range []string{"overlay0", "nothing"} {
		b.Run(strings.TrimSuffix(dir, "0"), func(b *testing.B) {
			for b.Loop() {
				r.Detect(fsys, dir)
			}
		})
	}
}
