package helm

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// stock is what `helm template --include-crds` prints for a chart on disk, as
// objects: Helm's own loader, library and engine.
func stock(dir string, src render.Source) ([]map[string]any, error) {
	c, err := loader.Load(dir)
	if err != nil {
		return nil, err
	}
	if err := build(c, dir); err != nil {
		return nil, err
	}
	values, _, err := userValues(src)
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependenciesWithMerge(c, values); err != nil {
		return nil, err
	}
	h := params(src)
	caps, err := Options{}.capabilities(h)
	if err != nil {
		return nil, err
	}
	name, ns := h.ReleaseName, src.Namespace
	if name == "" {
		name = c.Name()
	}
	if ns == "" {
		ns = "default"
	}
	opts := chartutil.ReleaseOptions{Name: name, Namespace: ns, Revision: 1, IsInstall: true}
	vals, err := chartutil.ToRenderValuesWithSchemaValidation(c, values, opts, caps, h.SkipSchema)
	if err != nil {
		return nil, err
	}
	if kv := c.Metadata.KubeVersion; kv != "" && !chartutil.IsCompatibleRange(kv, caps.KubeVersion.String()) {
		return nil, errors.New("incompatible Kubernetes version")
	}
	files, err := engine.Render(c, vals)
	if err != nil {
		return nil, err
	}
	for name := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if !h.SkipCRDs {
		for _, crd := range c.CRDObjects() {
			out.WriteString("---\n" + string(crd.File.Data) + "\n")
		}
	}
	for _, m := range manifests {
		out.WriteString("---\n" + m.Content + "\n")
	}
	for _, h := range hooks {
		out.WriteString("---\n" + h.Manifest + "\n")
	}
	objects, err := render.Parse("stock", out.Bytes())
	var hard []error
	for _, e := range render.Errors(err) {
		if !e.Warning && e.Rule != "duplicate-key" && e.Rule != "ambiguous-merge" {
			hard = append(hard, e)
		}
	}
	return trees(objects), errors.Join(hard...)
}

// build adds file:// dependencies, as `helm dependency build` does.
func build(c *chart.Chart, dir string) error {
	for _, dep := range c.Metadata.Dependencies {
		rel, ok := strings.CutPrefix(dep.Repository, "file://")
		if !ok || vendored(c, dep) {
			continue
		}
		sub, err := loader.Load(filepath.Join(dir, rel))
		if err != nil {
			return err
		}
		c.AddDependency(sub)
	}
	return nil
}

func trees(objects []*render.Object) []map[string]any {
	all := make([]map[string]any, len(objects))
	for i, o := range objects {
		all[i] = o.Object
	}
	return all
}

// hard are the errors but for warnings.
func hard(err error) error {
	var errs []error
	for _, e := range render.Errors(err) {
		if !e.Warning {
			errs = append(errs, e)
		}
	}
	return errors.Join(errs...)
}

// sameAsStock renders a chart with ours and with Helm's engine and compares the
// objects. It returns ours.
func sameAsStock(t *testing.T, dir string, src render.Source) []*render.Object {
	t.Helper()
	objects, err := New(Options{}).Render(context.Background(), src)
	err = hard(err)
	want, stockErr := stock(dir, src)
	switch {
	case stockErr != nil && err != nil:
		t.Logf("both fail:\n\tours:  %v\n\tstock: %v", err, stockErr)
		return nil
	case stockErr != nil || err != nil:
		t.Fatalf("ours: %v\nstock: %v", err, stockErr)
	}
	if random(objects) {
		t.Logf("uses random values or the clock: compared without their values")
		if d := cmp.Diff(blank(want), blank(trees(objects))); d != "" {
			t.Errorf("ours differs from stock (-stock +ours):\n%s", d)
		}
		return objects
	}
	if d := cmp.Diff(want, trees(objects)); d != "" {
		t.Errorf("ours differs from stock (-stock +ours):\n%s", d)
	}
	return objects
}

// random reports whether a rendering holds placeholders.
func random(objects []*render.Object) bool {
	for _, o := range objects {
		for _, a := range o.Assumed {
			if a == assumedRandom || a == assumedClock || a == assumedKeys {
				return true
			}
		}
	}
	return false
}

// blank leaves the keys of values and the identity of objects.
func blank(objects []map[string]any) []any {
	var all []any
	for _, o := range objects {
		all = append(all, blankValue(o, 0))
	}
	return all
}

func blankValue(v any, depth int) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if depth == 0 && (k == "kind" || k == "apiVersion") {
				out[k] = e
				continue
			}
			out[k] = blankValue(e, depth+1)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = blankValue(e, depth+1)
		}
		return out
	}
	return nil
}

// charts are the directories with a Chart.yaml below one.
func charts(t testing.TB, root string) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "Chart.yaml" && !strings.Contains(filepath.ToSlash(name), "/charts/charts/") {
			dirs = append(dirs, filepath.Dir(name))
		}
		return err
	})
	rendertest.OK(t, err)
	return dirs
}

// TestRepositories renders every chart of other people's repositories.
func TestRepositories(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..", "shared", "repos")
	rendertest.SkipWithout(t, root)
	rendered := 0
	for _, dir := range charts(t, root) {
		rel, err := filepath.Rel(root, dir)
		rendertest.OK(t, err)
		t.Run(rel, func(t *testing.T) {
			if len(sameAsStock(t, dir, render.Source{FS: os.DirFS(root), Path: filepath.ToSlash(rel)})) > 0 {
				rendered++
			}
		})
	}
	t.Logf("%d charts rendered", rendered)
	if rendered < 20 {
		t.Errorf("only %d charts rendered", rendered)
	}
}
