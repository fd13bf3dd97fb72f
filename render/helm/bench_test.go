package helm

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"

	"github.com/preadmit/preadmit/render"
)

// benchCharts are the charts of other people's repositories that render with
// their own values.
func benchCharts(b *testing.B) (root string, dirs []string) {
	b.Helper()
	root = filepath.Join("..", "..", "..", "shared", "repos")
	if _, err := os.Stat(root); err != nil {
		b.Skip("no repositories beside this one")
	}
	for _, dir := range charts(b, root) {
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			b.Fatal(err)
		}
		rel = filepath.ToSlash(rel)
		objects, _ := New(Options{}).Render(context.Background(), render.Source{FS: os.DirFS(root), Path: rel})
		if len(objects) > 0 {
			dirs = append(dirs, rel)
		}
	}
	return root, dirs
}

// BenchmarkEngine compares Helm's bare engine with our driver, on charts and
// values that are ready: "cold" parses all templates, as the engine always
// does, "warm" finds them parsed. "render" is all of Renderer.Render, from
// files to objects.
func BenchmarkEngine(b *testing.B) {
	root, dirs := benchCharts(b)
	perChart := func(b *testing.B) {
		b.ReportMetric(float64(len(dirs)*b.N)/b.Elapsed().Seconds(), "charts/s")
	}
	b.Run("stock", func(b *testing.B) {
		var all []stocked
		for _, dir := range dirs {
			all = append(all, stockReady(b, filepath.Join(root, dir)))
		}
		for b.Loop() {
			for _, s := range all {
				if _, err := engine.Render(s.chart, s.values); err != nil {
					b.Fatal(err)
				}
			}
		}
		perChart(b)
	})
	execute := func(b *testing.B, fresh bool) {
		var all []*release
		c := new(caches)
		for _, dir := range dirs {
			rel, err := c.prepare(render.Source{FS: os.DirFS(root), Path: dir})
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, rel)
		}
		for b.Loop() {
			for _, rel := range all {
				if fresh {
					rel.cache = new(caches)
				}
				if _, err := rel.execute(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		}
		perChart(b)
	}
	b.Run("cold", func(b *testing.B) { execute(b, true) })
	b.Run("warm", func(b *testing.B) { execute(b, false) })
	b.Run("render", func(b *testing.B) {
		r := New(Options{})
		for b.Loop() {
			for _, dir := range dirs {
				if objects, _ := r.Render(context.Background(), render.Source{FS: os.DirFS(root), Path: dir}); len(objects) == 0 {
					b.Fatal(dir)
				}
			}
		}
		perChart(b)
	})
	b.Run("stock-render", func(b *testing.B) {
		for b.Loop() {
			for _, dir := range dirs {
				if _, err := stock(filepath.Join(root, dir), render.Source{FS: os.DirFS(root), Path: dir}); err != nil {
					b.Fatal(err)
				}
			}
		}
		perChart(b)
	})
}

type stocked struct {
	chart  *chart.Chart
	values chartutil.Values
}

func stockReady(b *testing.B, dir string) stocked {
	b.Helper()
	c, err := loader.Load(dir)
	if err != nil {
		b.Fatal(err)
	}
	if err := chartutil.ProcessDependenciesWithMerge(c, map[string]any{}); err != nil {
		b.Fatal(err)
	}
	caps, err := Options{}.capabilities(render.Helm{})
	if err != nil {
		b.Fatal(err)
	}
	opts := chartutil.ReleaseOptions{Name: c.Name(), Namespace: "default", Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValuesWithSchemaValidation(c, map[string]any{}, opts, caps, true)
	if err != nil {
		b.Fatal(err)
	}
	return stocked{c, values}
}

// BenchmarkAt asks for the places of every field of the charts. What is indexed
// for the first field of a release is part of it.
func BenchmarkAt(b *testing.B) {
	root, dirs := benchCharts(b)
	r, n := New(Options{}), 0
	for b.Loop() {
		b.StopTimer()
		fields := map[*render.Object][]string{}
		for _, dir := range dirs {
			objects, _ := r.Render(context.Background(), render.Source{FS: os.DirFS(root), Path: dir})
			for _, o := range objects {
				if o.GetKind() == "CustomResourceDefinition" {
					continue
				}
				eachLeaf(o.Object, "", func(pointer string, _ any) { fields[o] = append(fields[o], pointer); n++ })
			}
		}
		b.StartTimer()
		for o, pointers := range fields {
			for _, pointer := range pointers {
				if len(o.At(pointer)) == 0 {
					b.Fatal(pointer)
				}
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/field")
}
