package render_test

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
)

// TestManyObjects holds that a unit with too many objects says at the first that
// is left out, and that the others are rendered.
func TestManyObjects(t *testing.T) {
	t.Parallel()
	one := "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x}\n---\n"
	fsys := fstest.MapFS{"all.yaml": {Data: []byte(strings.Repeat(one, 20_001))}}
	g := render.Graph{Renderers: []render.Renderer{render.Manifests{}}}
	units, err := g.Render(context.Background(), render.Source{FS: fsys, Path: "all.yaml", Kind: "manifest"})
	if err != nil {
		t.Fatal(err)
	}
	errs := render.Errors(units[0].Err)
	if len(units[0].Objects) != 20_000 || len(errs) != 1 || errs[0].Rule != "too-many-objects" || errs[0].Span.Line != 80_003 {
		t.Errorf("%d objects, %v", len(units[0].Objects), errs)
	}
}
