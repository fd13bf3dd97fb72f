package cache_test

import (
	"fmt"
	"reflect"
	"testing"
	"testing/fstest"
	"time"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestSharedParts holds that objects of different units share their equal parts,
// whether the units are rendered or come from the cache, and that a unit that forgets
// its places finds them again.
func TestSharedParts(t *testing.T) {
	t.Parallel()
	tree, dir := fstest.MapFS{}, t.TempDir()
	var srcs []render.Source
	for i := range 2 {
		name := fmt.Sprintf("%d.yaml", i)
		tree[name] = &fstest.MapFile{Data: fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\ndata: {a: b}\n", i)}
		srcs = append(srcs, render.Source{Path: name, Kind: "manifest"})
	}
	for _, recalled := range []bool{false, true} {
		store, err := cache.Open(dir, cache.Limit, time.Now())
		rendertest.OK(t, err)
		graph := render.Graph{Renderers: []render.Renderer{render.Manifests{}}, Forgets: true, Parts: render.NewParts()}
		g := cache.New(graph, tree, cache.Options{Store: store, Build: "test"})
		units, err := g.Render(t.Context(), srcs...)
		rendertest.OK(t, err)
		data := func(u *render.Unit) uintptr { return reflect.ValueOf(u.Objects[0].Object["data"]).Pointer() }
		if data(units[0]) != data(units[1]) {
			t.Errorf("recalled %v: data is not shared", recalled)
		}
		for _, u := range units {
			if g.Recalled(u) != recalled {
				t.Errorf("%s is recalled: %v", u.Path, !recalled)
			}
			u.Forget()
			if at := u.Objects[0].Span("/data/a"); at.String() != u.Path+":4:11" {
				t.Errorf("%s: /data/a is at %s", u.Path, at)
			}
		}
		g.Save()
	}
}
