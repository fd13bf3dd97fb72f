package cache_test

import (
	"context"
	"io/fs"
	"path"
	"testing"
	"testing/fstest"
	"time"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/rendertest"
)

// claiming is a renderer that claims directories with a file named mine, and counts how
// often it was asked.
type claiming struct{ asked *int }

func (claiming) Kind() string { return "mine" }

func (c claiming) Detect(fsys fs.FS, dir string) (render.Claim, bool) {
	*c.asked++
	data, err := fs.ReadFile(fsys, path.Join(dir, "mine"))
	return render.Claim{Unit: err == nil, Files: []string{string(data)}}, err == nil
}

func (claiming) Render(context.Context, render.Source) ([]*render.Object, error) { return nil, nil }

// TestClaimsOfBothSides holds that the base takes a claim from the head or the store
// exactly where its own files say the same.
func TestClaimsOfBothSides(t *testing.T) {
	t.Parallel()
	store, err := cache.Open(t.TempDir(), cache.Limit, time.Now())
	rendertest.OK(t, err)
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	base := fstest.MapFS{"same/mine": file("a"), "same/sub/x": file(""), "other/mine": file("a"), "gone/mine": file("a"), "new/x": file("")}
	head := fstest.MapFS{"same/mine": file("a"), "same/sub/x": file(""), "other/mine": file("b"), "gone/x": file(""), "new/mine": file("a")}
	for run, want := range []struct{ head, base int }{
		{6, 3}, // ".", "same", "same/sub" and three others; other, gone and new differ
		{0, 0},
	} {
		asked := 0
		graph := render.Graph{Renderers: []render.Renderer{claiming{&asked}}}
		now := cache.New(graph, head, cache.Options{Store: store, Build: "test", Label: "head"})
		found := now.Discover(nil)
		if asked != want.head || len(found.Sources) != 3 {
			t.Errorf("run %d, head: asked %d times, %d sources", run, asked, len(found.Sources))
		}
		asked = 0
		was := cache.New(graph, base, cache.Options{Store: store, Build: "test", Label: "base", Other: now})
		found = was.Discover(nil)
		var paths []string
		for _, s := range found.Sources {
			paths = append(paths, s.Path)
		}
		if asked != want.base || len(paths) != 3 || paths[0] != "gone" || paths[1] != "other" || paths[2] != "same" {
			t.Errorf("run %d, base: asked %d times, sources %v", run, asked, paths)
		}
		now.Save()
		was.Save()
	}
}
