package render_test

import (
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestManyObjects holds that a unit with too many objects says at the first that
// is left out, and that the others are rendered.
func TestManyObjects(t *testing.T) {
	t.Parallel()
	one := "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x}\n---\n"
	fsys := fstest.MapFS{"all.yaml": {Data: []byte(strings.Repeat(one, 20_001))}}
	g := render.Graph{Renderers: []render.Renderer{render.Manifests{}}}
	units, err := g.Render(context.Background(), render.Source{FS: fsys, Path: "all.yaml", Kind: "manifest"})
	rendertest.OK(t, err)
	errs := render.Errors(units[0].Err)
	if len(units[0].Objects) != 20_000 || len(errs) != 1 || errs[0].Rule != "too-many-objects" || errs[0].Span.Line != 80_003 {
		t.Errorf("%d objects, %v", len(units[0].Objects), errs)
	}
}

// TestSharedTextIsNotWritten holds that an object whose parts are shared is not
// written out to learn that it is too large.
func TestSharedTextIsNotWritten(t *testing.T) {
	text := strings.Repeat("x", 1<<20)
	all := make([]any, 500)
	for i := range all {
		all[i] = text
	}
	o := &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": all,
	}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	units, err := render.Graph{Renderers: []render.Renderer{made{o}}}.Render(context.Background(), render.Source{Kind: "made", Path: "a"})
	runtime.ReadMemStats(&after)
	if err != nil || !strings.Contains(fmt.Sprint(units[0].Err), "object holds more than 524") {
		t.Error(err, units[0].Err)
	}
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 100 {
		t.Errorf("it takes %d MiB", took)
	}
}

// made renders an object that is there.
type made struct{ object *render.Object }

func (made) Kind() string                                   { return "made" }
func (made) Detect(fs.FS, string) (c render.Claim, ok bool) { return c, false }
func (m made) Render(context.Context, render.Source) ([]*render.Object, error) {
	return []*render.Object{m.object}, nil
}
