package render

import (
	"context"
	"fmt"
	"io/fs"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// A counted renders manifests and counts how often.
type counted struct {
	Manifests
	times *atomic.Int32
}

func (c counted) Render(ctx context.Context, src Source) ([]*Object, error) {
	c.times.Add(1)
	return c.Manifests.Render(ctx, src)
}

// forgettable renders a file by a Graph that Forgets.
func forgettable(t *testing.T, tree fs.FS) (*Unit, *atomic.Int32) {
	t.Helper()
	var times atomic.Int32
	g := Graph{Renderers: []Renderer{counted{times: &times}}, Forgets: true}
	units, err := g.Render(t.Context(), Source{FS: tree, Path: "a.yaml", Kind: "manifest"})
	if err != nil || units[0].Err != nil {
		t.Fatal(err, units[0].Err)
	}
	return units[0], &times
}

const twoMaps = `apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {text: "one two"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b}
data:
  text: |
    first
    second
`

// TestForget holds that places are the same after they were forgotten, and that the
// unit is rendered again once, and only if somebody asks.
func TestForget(t *testing.T) {
	t.Parallel()
	u, times := forgettable(t, fstest.MapFS{"a.yaml": {Data: []byte(twoMaps)}})
	places := func() []string {
		var all []string
		for _, o := range u.Objects {
			span, ok := o.Inside("/data/text", "one two", 4)
			all = append(all, fmt.Sprint(o.At(""), o.At("/data/text"), o.Line("/data/text", 1), o.Part("/data/text", "one"), span, ok))
		}
		return all
	}
	want := places()
	u.Forget()
	u.Forget()
	if n := times.Load(); n != 1 {
		t.Errorf("rendered %d times before a place was asked for", n)
	}
	if d := cmp.Diff(want, places()); d != "" {
		t.Error(d)
	}
	if n := times.Load(); n != 2 {
		t.Errorf("rendered %d times, want 2", n)
	}
}

// TestForgetChanged holds that an object has no places if its file is another one
// when they are asked for.
func TestForgetChanged(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{"a.yaml": {Data: []byte(twoMaps)}}
	u, _ := forgettable(t, tree)
	u.Forget()
	tree["a.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n")}
	for _, o := range u.Objects {
		if at := o.At("/metadata/name"); at != nil {
			t.Errorf("%s is at %v", o.GetName(), at)
		}
	}
}

// TestForgetNothing holds that units of other Graphs keep their places.
func TestForgetNothing(t *testing.T) {
	t.Parallel()
	units, err := Graph{Renderers: []Renderer{Manifests{}}}.Render(t.Context(),
		Source{FS: fstest.MapFS{"a.yaml": {Data: []byte(twoMaps)}}, Path: "a.yaml", Kind: "manifest"})
	ok(t, err)
	units[0].Forget()
	if units[0].Objects[0].At("/data") == nil {
		t.Error("the places are gone")
	}
	(*Unit)(nil).Forget()
}

// TestPositionsWithoutPointers holds that what a run keeps for each field has no pointer,
// which the garbage collector would follow again and again.
func TestPositionsWithoutPointers(t *testing.T) {
	t.Parallel()
	for _, typ := range []reflect.Type{reflect.TypeFor[entry](), reflect.TypeFor[node]()} {
		for i := range typ.NumField() {
			switch f := typ.Field(i); f.Type.Kind() {
			case reflect.Int32, reflect.Uint8, reflect.Bool:
			case reflect.Struct:
				if f.Type != reflect.TypeFor[place]() {
					t.Errorf("%s.%s is a %s", typ.Name(), f.Name, f.Type)
				}
			default:
				t.Errorf("%s.%s is a %s", typ.Name(), f.Name, f.Type)
			}
		}
	}
}

// TestForgetEarly holds that units of a large run forget their places at once, and
// have them again when somebody asks.
func TestForgetEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		objects int // of the run so far
		times   int32
	}{{0, 1}, {manyObjects, 2}, {mostObjects, 2}} {
		var times atomic.Int32
		g := Graph{Renderers: []Renderer{counted{times: &times}}, Forgets: true, Parts: NewParts()}
		g.Parts.objects = c.objects
		units, err := g.Render(t.Context(), Source{FS: fstest.MapFS{"a.yaml": {Data: []byte(twoMaps)}}, Path: "a.yaml", Kind: "manifest"})
		if err != nil || units[0].Err != nil {
			t.Fatal(err, units[0].Err)
		}
		for i, line := range []int{3, 8} {
			if at := units[0].Objects[i].Span(""); at.File != "a.yaml" || at.Line != line {
				t.Errorf("after %d objects, object %d is at %v", c.objects, i, at)
			}
		}
		if n := times.Load(); n != c.times {
			t.Errorf("after %d objects the unit is rendered %d times, want %d", c.objects, n, c.times)
		}
	}
}

// An upgrading renders another file on upgrade.
type upgrading struct{ counted }

func (r upgrading) Render(ctx context.Context, src Source) ([]*Object, error) {
	src.Inputs.Ask(Question{Subject: AsksUpgrade})
	if src.Variant.Upgrade {
		src.Path = "b.yaml"
	}
	return r.counted.Render(ctx, src)
}

// TestForgetVariants holds that the variants of a unit are rendered again only if the places of
// their objects are asked for.
func TestForgetVariants(t *testing.T) {
	t.Parallel()
	var times atomic.Int32
	tree := fstest.MapFS{"a.yaml": {Data: []byte(twoMaps)}, "b.yaml": {Data: []byte("\n" + twoMaps + "  c: d\n")}}
	g := Graph{Renderers: []Renderer{upgrading{counted{times: &times}}}, Forgets: true}
	units, err := g.Render(t.Context(), Source{FS: tree, Path: "a.yaml", Kind: "manifest"})
	u := units[0]
	if err != nil || u.Err != nil || len(u.Variants) != 1 {
		t.Fatal(err, u.Err, u.Variants)
	}
	all := times.Load() // with the variant
	u.Forget()
	for _, c := range []struct {
		object *Object
		want   string
		times  int32
	}{
		{u.Objects[1], "a.yaml:8", all + 1},
		{u.Variants[0], "b.yaml:9", 2*all + 1},
		{u.Objects[0], "a.yaml:3", 2*all + 1},
	} {
		if at := c.object.Span(""); fmt.Sprintf("%s:%d", at.File, at.Line) != c.want {
			t.Errorf("%s is at %v, want %s", c.object.Key(), at, c.want)
		}
		if n := times.Load(); n != c.times {
			t.Errorf("%s: rendered %d times so far, want %d", c.object.Key(), n, c.times)
		}
	}
}
