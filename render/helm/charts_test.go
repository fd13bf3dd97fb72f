package helm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestCharts renders the chart of each archive, or what its release.json says,
// and holds the objects against Helm's own engine and fields and places against
// `want`. With a file `fails` both are to fail, with `not-stock` they are to
// differ. A directory x.tgz.d of the archive is packed as x.tgz.
func TestCharts(t *testing.T) {
	t.Parallel()
	rendertest.Run(t, "testdata/charts", func(t *testing.T, fsys fs.FS) string {
		fsys = pack(t, fsys)
		src := sourceOf(t, fsys)
		dir := t.TempDir()
		rendertest.OK(t, os.CopyFS(dir, fsys))
		objects, err := New(Options{}).Render(context.Background(), src)
		if !exists(fsys, "not-stock") {
			both := sameAsStock(t, filepath.Join(dir, src.Path), src)
			if fails := exists(fsys, "fails"); fails != (both == nil) {
				t.Errorf("rendered to %d objects, expected to fail: %t", len(both), fails)
			}
		}
		return printed(New(Options{}).Name(src), objects, err)
	})
}

func exists(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, name)
	return err == nil
}

// sourceOf is the source that a tree's release.json describes.
func sourceOf(t *testing.T, fsys fs.FS) render.Source {
	t.Helper()
	src := render.Source{FS: fsys, Path: "chart", Helm: new(render.Helm)}
	data, err := fs.ReadFile(fsys, "release.json")
	if err != nil {
		return src
	}
	var more struct {
		Path, Namespace string
		render.Helm
	}
	rendertest.OK(t, json.Unmarshal(data, &more))
	if more.Path != "" {
		src.Path = more.Path
	}
	src.Namespace, *src.Helm = more.Namespace, more.Helm
	return src
}

// pack makes archives of the directories that stand for them.
func pack(t testing.TB, fsys fs.FS) fs.FS {
	t.Helper()
	tree := fstest.MapFS{}
	archives := map[string][]entry{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		if archive, inner, ok := strings.Cut(name, ".tgz.d/"); ok {
			archives[archive+".tgz"] = append(archives[archive+".tgz"], entry{name: inner, data: data})
		} else {
			tree[name] = &fstest.MapFile{Data: data, Mode: 0o644}
		}
		return err
	})
	rendertest.OK(t, err)
	for name, entries := range archives {
		tree[name] = &fstest.MapFile{Data: tgz(t, entries...), Mode: 0o644}
	}
	return tree
}

type entry struct {
	name string
	data []byte
	kind byte // tar.TypeReg by default
}

func tgz(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	w := tar.NewWriter(zip)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.data)), Typeflag: e.kind}
		switch e.kind {
		case 0:
			h.Typeflag = tar.TypeReg
		case tar.TypeSymlink, tar.TypeLink:
			h.Linkname, h.Size = string(e.data), 0
			e.data = nil
		}
		rendertest.OK(t, w.WriteHeader(h))
		if _, err := w.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	rendertest.OK(t, w.Close())
	rendertest.OK(t, zip.Close())
	return out.Bytes()
}

// printed is a rendering as text: each leaf with its places, innermost first.
func printed(name string, objects []*render.Object, err error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name %s\n", name)
	for _, e := range render.Errors(err) {
		level := "error"
		switch {
		case e.Warning:
			level = "warning"
		case e.Missing:
			level = "missing"
		}
		fmt.Fprintf(&b, "%s %s [%s]", level, e, e.Rule)
		if e.Hint != "" {
			fmt.Fprintf(&b, " (%s)", e.Hint)
		}
		b.WriteByte('\n')
	}
	for _, o := range objects {
		fmt.Fprintf(&b, "%s %s\n", o.GetKind(), path.Join(o.GetNamespace(), o.GetName()))
		for _, a := range o.Assumed {
			fmt.Fprintf(&b, "\tassumed: %s\n", a)
		}
		eachLeaf(o.Object, "", func(pointer string, v any) {
			fmt.Fprintf(&b, "\t%s %s", pointer, jsonText(v))
			for _, at := range o.At(pointer) {
				fmt.Fprintf(&b, " < %s-%d", at.Span, at.EndColumn)
				if at.Role != render.Template {
					fmt.Fprintf(&b, " %s", at.Role)
				}
			}
			b.WriteByte('\n')
		})
	}
	return b.String()
}

func jsonText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func eachLeaf(v any, pointer string, f func(string, any)) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			eachLeaf(v[key], pointer+render.Pointer(key), f)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, e := range v {
			eachLeaf(e, pointer+render.Pointer(i), f)
		}
		if len(v) > 0 {
			return
		}
	}
	f(pointer, v)
}
