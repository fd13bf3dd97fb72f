package helm

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// counting is a renderer that counts its renderings.
type counting struct {
	*Renderer
	n atomic.Int64
}

func (c *counting) Render(ctx context.Context, src render.Source) ([]*render.Object, error) {
	c.n.Add(1)
	return c.Renderer.Render(ctx, src)
}

// TestVariantsOfPublishedCharts holds that a chart which asks nothing is rendered
// once, none more than the bound, and that few charts are undecided. It logs what
// variants found.
func TestVariantsOfPublishedCharts(t *testing.T) {
	t.Parallel()
	n, asking, again, only, undecided := 0, 0, int64(0), 0, 0
	root := filepath.Join("..", "..", "..", "shared")
	rendertest.SkipWithout(t, root)
	for _, dir := range slices.Concat(charts(t, filepath.Join(root, "repos")), charts(t, filepath.Join(root, "charts"))) {
		rel, err := filepath.Rel(root, dir)
		rendertest.OK(t, err)
		c := &counting{Renderer: New(Options{})}
		units, err := render.Graph{Renderers: []render.Renderer{c}}.Render(context.Background(), render.Source{FS: os.DirFS(root), Path: filepath.ToSlash(rel), Kind: "helm"})
		rendertest.OK(t, err)
		n++
		more := c.n.Load() - 1
		again += more
		if more > 0 {
			asking++
		}
		if more > 2*8 {
			t.Errorf("%s is rendered %d times", rel, more+1)
		}
		if more == 0 && len(units[0].Variants) > 0 {
			t.Errorf("%s has objects of variants without being rendered again", rel)
		}
		only += len(units[0].Variants)
		for _, e := range render.Errors(units[0].Err) {
			if e.Undecided {
				undecided++
				t.Logf("%v", e)
			}
		}
	}
	if undecided*15 > n {
		t.Errorf("%d places in %d charts are undecided", undecided, n)
	}
	t.Logf("%d charts: %d ask and are rendered %d times more; %d objects only in variants, %d places undecided", n, asking, again, only, undecided)
}
