package cache_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/fstest"
	"time"
	"weak"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestLast renders a tree again and again, with another text of one file each time. Units that read
// the same are adopted from the last run, and give the same places. Runs whose units are all replaced
// are not kept in memory.
func TestLast(t *testing.T) {
	t.Parallel()
	store, err := cache.Open(t.TempDir(), cache.Limit, time.Now())
	rendertest.OK(t, err)
	file := func(name string, n int) *fstest.MapFile {
		return &fstest.MapFile{Data: fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {step: \"%d\"}\n", name, n)}
	}
	srcs := []render.Source{{Path: "same.yaml", Kind: "manifest"}, {Path: "edited.yaml", Kind: "manifest"}}
	var last *cache.Graph
	var runs []weak.Pointer[cache.Graph]
	for n := range 5 {
		tree := fstest.MapFS{"same.yaml": file("same", 0), "edited.yaml": file("edited", n)}
		g := cache.New(render.Graph{Renderers: []render.Renderer{render.Manifests{}}, Forgets: true}, tree, cache.Options{Store: store, Build: "test", Last: last})
		found := g.Discover(tree, ".")
		if len(found.Sources) != 2 {
			t.Fatalf("run %d: sources %v", n, found.Sources)
		}
		units, err := g.Render(t.Context(), srcs...)
		rendertest.OK(t, err)
		if got, _ := render.Lookup(units[1].Objects[0].Object, "/data/step"); got != fmt.Sprint(n) {
			t.Errorf("run %d: n is %v", n, got)
		}
		if g.Recalled(units[0]) != (n > 0) || g.Recalled(units[1]) {
			t.Errorf("run %d: recalled %v and %v", n, g.Recalled(units[0]), g.Recalled(units[1]))
		}
		for _, u := range units {
			if u.Forget(); u.Objects[0].Span("/data/step").String() != u.Path+":4:14" || u.Objects[0].Unit != u {
				t.Errorf("run %d: %s: /data/step is at %s", n, u.Path, u.Objects[0].Span("/data/step"))
			}
		}
		g.Settle()
		last, runs = g, append(runs, weak.Make(g))
	}
	for range 3 {
		runtime.GC()
	}
	for n, run := range runs {
		if kept := run.Value() != nil; kept != (n == 0 || n == 4) { // the first one has the unit that is the same
			t.Errorf("run %d is in memory: %v", n, kept)
		}
	}
	runtime.KeepAlive(last)
}
