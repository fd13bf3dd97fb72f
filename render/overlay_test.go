package render

import (
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// A place in a written file stands for the place of the field that is written
// there, and a place in a linked file for the file of the tree.
func TestOverlay(t *testing.T) {
	t.Parallel()
	base := fstest.MapFS{
		"app/deploy.yaml":  {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")},
		"app/ignored.yaml": {Data: []byte("x: 1\n")},
		"lib/b.yaml":       {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n")},
	}
	o := NewOverlay(base, func(name string) bool { return name == "app/ignored.yaml" })
	value := map[string]any{"resources": []any{"deploy.yaml", "b.yaml"}, "patches": []any{map[string]any{"patch": "a: 1\nb: 2\n"}}}
	ok(t, o.Write("app/kustomization.yaml", value, func(pointer string) []Origin {
		return []Origin{{Span: Span{File: "clusters/prod/app.yaml", Line: len(pointer)}, Role: Manifest}, {Span: Span{File: pointer}}}
	}))
	o.LinkTo("app/b.yaml", base, "lib/b.yaml")

	var names []string
	ok(t, fs.WalkDir(o, ".", func(name string, d fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	}))
	want := []string{".", "app", "app/b.yaml", "app/deploy.yaml", "app/kustomization.yaml", "lib", "lib/b.yaml"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}

	data, err := fs.ReadFile(o, "app/kustomization.yaml")
	ok(t, err)
	docs, err := Documents("app/kustomization.yaml", data, YAML11)
	ok(t, err)
	p := o.Provenance(docs[0].Positions)
	for _, pointer := range []string{"/resources", "/resources/1", "/patches/0/patch"} {
		at := p.At(pointer)
		if len(at) != 2 || at[0].File != "clusters/prod/app.yaml" || at[1].File != pointer {
			t.Errorf("%s: %v", pointer, at)
		}
	}
	lines := NewOverlay(base, nil)
	ok(t, lines.WriteFrom("k.yaml", value, lineOf{}))
	data, _ = fs.ReadFile(lines, "k.yaml")
	docs, _ = Documents("k.yaml", data, YAML11)
	at := docs[0].Positions.Line("/patches/0/patch", 1)
	if got := fmt.Sprint(lines.all(at)); got != "[/patches/0/patch:1]" {
		t.Errorf("second line of the patch: %s", got)
	}
	moved := o.all([]Origin{{Span: Span{File: "app/b.yaml", Line: 4}, Role: Manifest}})
	if got := fmt.Sprint(moved[0].Span); got != "lib/b.yaml:4" {
		t.Error(got)
	}
}

// lineOf places each line of a text.
type lineOf struct{}

func (lineOf) At(pointer string) []Origin { return []Origin{{Span: Span{File: pointer}}} }

func (lineOf) Line(pointer string, n int) []Origin {
	return []Origin{{Span: Span{File: pointer, Line: n}}}
}

// A file of an Overlay over another stands for a file of the tree, unless one
// of them writes it.
func TestFileOf(t *testing.T) {
	t.Parallel()
	o := NewOverlay(fstest.MapFS{}, nil)
	o.LinkTo("app/b.yaml", fstest.MapFS{}, "lib/b.yaml")
	o.WriteText("app/kustomization.yaml", nil, nil)
	above := NewOverlay(o, nil)
	for name, want := range map[string]string{"app/b.yaml": "lib/b.yaml", "app/deploy.yaml": "app/deploy.yaml", "app/kustomization.yaml": ""} {
		if got, ok := fileOf(above, name); got != want || ok != (want != "") {
			t.Errorf("%s stands for %q, %v", name, got, ok)
		}
	}
}

// Where a list's item begins with its first key, the item is meant.
func TestOverlayItems(t *testing.T) {
	o := NewOverlay(fstest.MapFS{}, nil)
	value := map[string]any{"generators": []any{map[string]any{"files": []any{"a"}, "name": "n"}}}
	ok(t, o.Write("k.yaml", value, func(pointer string) []Origin {
		return []Origin{{Span: Span{File: pointer, Line: 1}}}
	}))
	data, err := fs.ReadFile(o, "k.yaml")
	ok(t, err)
	docs, _ := Documents("k.yaml", data, YAML11)
	for _, pointer := range []string{"/generators", "/generators/0", "/generators/0/files/0", "/generators/0/name"} {
		at := docs[0].Positions.At(pointer)[0]
		at.File = "k.yaml"
		if got := o.origins(at); len(got) != 1 || got[0].File != pointer {
			t.Errorf("%s at %d:%d is led to %v", pointer, at.Line, at.Column, got)
		}
	}
}
