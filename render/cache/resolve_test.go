package cache_test

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A copier makes of each Copy the manifest that it names, with the data of a
// ConfigMap.
type copier struct{ resolved *atomic.Int32 }

func (copier) Follows(o *render.Object) bool { return o.GetKind() == "Copy" }

func (c copier) Resolve(_ context.Context, o *render.Object, w *render.World) *render.Unit {
	c.resolved.Add(1)
	u := &render.Unit{Values: map[string]any{"a": "b"}, User: "copier"}
	repo, err := w.Repository("", "")
	if err != nil {
		u.Err = err
		return u
	}
	if _, err := fs.ReadDir(repo.FS, "sources"); err != nil {
		u.Err = err
		return u
	}
	data, err := fs.ReadFile(repo.FS, o.Object["file"].(string))
	if err != nil {
		u.Err = err
		return u
	}
	u.Objects, u.Err = render.Parse(o.Object["file"].(string), data)
	if settings := w.Object(schema.GroupKind{Kind: "ConfigMap"}, "default", "settings"); settings != nil {
		u.Reason = fmt.Sprint(settings.Object["data"], settings.Span("/data"))
	}
	return u
}

// files answers a World by a tree.
type files struct {
	render.NoStore
	fs.FS
}

func (f files) Repository(string, string) (render.Repository, error) {
	return render.Repository{FS: f.FS, Root: "."}, nil
}

func (files) Source(string, string, string) (render.Repository, bool) {
	return render.Repository{}, false
}
func (files) Params(string, string) (params []map[string]any, ok bool) { return nil, false }
func (files) Render(context.Context, render.Source) ([]*render.Object, error) {
	return nil, nil
}

func tree(change ...string) fstest.MapFS {
	t := fstest.MapFS{}
	for name, text := range map[string]string{
		"root.yaml":     "apiVersion: a/v1\nkind: Copy\nmetadata: {name: one}\nfile: x.yaml\n---\napiVersion: a/v1\nkind: Copy\nmetadata: {name: two}\nfile: y.yaml\n",
		"settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n",
		"x.yaml":        "apiVersion: v1\nkind: Service\nmetadata: {name: one}\n",
		"sources/a":     "a",
		"y.yaml":        "apiVersion: v1\nkind: Service\nmetadata: {name: two}\n",
	} {
		t[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for i := 0; i < len(change); i += 2 {
		t[change[i]] = &fstest.MapFile{Data: []byte(change[i+1])}
	}
	return t
}

// TestResolvers holds that objects are resolved again only if a file that was
// read, an object that was asked for, or a place of one is another.
func TestResolvers(t *testing.T) {
	store, err := cache.Open(t.TempDir(), cache.Limit, time.Now())
	rendertest.OK(t, err)
	follow := func(t *testing.T, tree fs.FS, o cache.Options) (*render.Deployment, *cache.Graph, int) {
		t.Helper()
		g := cache.New(render.Graph{Renderers: []render.Renderer{render.Manifests{}}}, tree, o)
		found, err := g.Render(t.Context(), g.Discover(tree, ".").Sources...)
		rendertest.OK(t, err)
		var n atomic.Int32
		f := render.Follower{Resolvers: g.Resolvers([]render.Resolver{copier{&n}}), Outside: files{FS: tree}}
		d, err := f.Follow(t.Context(), nil, found)
		rendertest.OK(t, err)
		if len(d.Units) != 2 || len(d.Units[0].Objects) != 1 || d.Units[0].User != "copier" || len(d.Reads[d.Units[0]]) != 1 {
			t.Fatalf("units %+v", d.Units)
		}
		return d, g, int(n.Load())
	}
	persistent := cache.Options{Store: store, Build: "test"}
	_, g, first := follow(t, tree(), persistent)
	if first == 0 {
		t.Fatal("nothing was resolved")
	}
	g.Save()
	head, other, _ := follow(t, tree(), cache.Options{})
	for _, c := range []struct {
		name   string
		change []string
		least  bool // something is resolved
		line   int  // of y's name
	}{
		{"nothing", nil, false, 3},
		{"a file that nothing reads", []string{"other.yaml", "a: b\n"}, false, 3},
		{"git's own files", []string{"sources/.git/config", "a"}, false, 3},
		{"a file in a listed directory", []string{"sources/b", "b"}, true, 3},
		{"a file", []string{"y.yaml", "apiVersion: v1\n\nkind: Service\nmetadata: {name: two}\n"}, true, 4},
		{"an object", []string{"settings.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: c}\n"}, true, 3},
		{"a place that was asked for", []string{"settings.yaml", "# c\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"}, true, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			for kind, o := range map[string]cache.Options{"another run": persistent, "another side": {Other: other}} {
				d, _, n := follow(t, tree(c.change...), o)
				if n > 0 != c.least {
					t.Errorf("%s: %d resolved", kind, n)
				}
				y := d.Units[slices.IndexFunc(d.Units, func(u *render.Unit) bool { return u.Name == "two" })]
				if y.Objects[0].Unit != y || slices.Contains(head.Units, y) {
					t.Errorf("%s: an object of another unit", kind)
				}
				if got := y.Objects[0].Span("/metadata/name").Line; got != c.line {
					t.Errorf("%s: line %d, want %d", kind, got, c.line)
				}
				if y.Reason == "" || y.Values["a"] != "b" {
					t.Errorf("%s: unit %+v", kind, y)
				}
			}
		})
	}
}
