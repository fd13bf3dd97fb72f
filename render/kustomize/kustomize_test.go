package kustomize_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/kustomize"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestRender builds the directory `app` of each tree. The golden says what came
// of it: errors, then every field with its value and the places it comes from,
// each with the text that stands there.
func TestRender(t *testing.T) {
	t.Parallel()
	rendertest.Run(t, "testdata/render", describe)
}

// TestSchema is TestRender for trees that bring an OpenAPI schema. kustomize
// itself, with which they are compared, keeps it for the rest of the process:
// no other test may run beside.
func TestSchema(t *testing.T) {
	t.Cleanup(kustomize.ResetSchema)
	rendertest.Run(t, "testdata/schema", describe)
}

func describe(t *testing.T, fsys fs.FS) string {
	objects, err := renderApp(fsys)
	sameAsKustomize(t, fsys, objects, err)
	var b strings.Builder
	writeErrors(&b, err)
	for _, o := range objects {
		writeObject(&b, fsys, o)
	}
	return b.String()
}

// TestErrors is TestRender for what must not render, or not without a word.
func TestErrors(t *testing.T) {
	t.Parallel()
	rendertest.Run(t, "testdata/errors", func(t *testing.T, fsys fs.FS) string {
		objects, err := renderApp(fsys)
		var b strings.Builder
		writeErrors(&b, err)
		fmt.Fprintf(&b, "%d objects\n", len(objects))
		return b.String()
	})
}

func renderApp(fsys fs.FS) ([]*render.Object, error) {
	r := kustomize.New(kustomize.Options{Helm: fakeHelm{}})
	return r.Render(context.Background(), render.Source{FS: fsys, Path: "app", Kind: "kustomize"})
}

func writeErrors(b *strings.Builder, err error) {
	for _, e := range render.Errors(err) {
		fmt.Fprintf(b, "%s: %v [%s]", e.Span, e.Err, e.Rule)
		if e.Missing {
			b.WriteString(" missing")
		}
		if e.Warning {
			b.WriteString(" warning")
		}
		if e.Hint != "" {
			fmt.Fprintf(b, " (%s)", e.Hint)
		}
		b.WriteByte('\n')
	}
}

func writeObject(b *strings.Builder, fsys fs.FS, o *render.Object) {
	fmt.Fprintf(b, "%s %s %s\n", o.GetAPIVersion(), o.GetKind(), o.GetName())
	for _, a := range o.Assumed {
		fmt.Fprintf(b, "    assumed: %s\n", a)
	}
	writeOrigins(b, fsys, o.At(""))
	for _, pointer := range leaves(o.Object, "") {
		v, _ := render.Lookup(o.Object, pointer)
		fmt.Fprintf(b, "  %s: %#v\n", pointer, v)
		writeOrigins(b, fsys, o.At(pointer))
	}
}

func writeOrigins(b *strings.Builder, fsys fs.FS, origins []render.Origin) {
	for _, at := range origins {
		fmt.Fprintf(b, "    %s %s: %s\n", at.Role, at.Span, textAt(fsys, at.Span))
	}
}

// textAt is the first line of what stands at a span.
func textAt(fsys fs.FS, s render.Span) string {
	data, err := fs.ReadFile(fsys, s.File)
	lines := strings.Split(string(data), "\n")
	if err != nil || s.Line == 0 || s.Line > len(lines) {
		return ""
	}
	line := []rune(lines[s.Line-1])
	to := len(line)
	if s.EndLine == s.Line {
		to = min(to, s.EndColumn-1)
	}
	return string(line[min(s.Column-1, to):to])
}

func leaves(value any, at string) []string {
	var all []string
	switch v := value.(type) {
	case map[string]any:
		for key, e := range v {
			all = append(all, leaves(e, at+render.Pointer(key))...)
		}
	case []any:
		for i, e := range v {
			all = append(all, leaves(e, fmt.Sprint(at, "/", i))...)
		}
	default:
		return []string{at}
	}
	if len(all) == 0 {
		return []string{at}
	}
	slices.Sort(all)
	return all
}

// sameAsKustomize compares with `kustomize build` of the same tree on disk.
// Charts it would need the helm program for.
func sameAsKustomize(t *testing.T, fsys fs.FS, objects []*render.Object, err error) {
	t.Helper()
	if failed(err) {
		t.Errorf("does not render: %v", err)
		return
	}
	if usesCharts(fsys) {
		return
	}
	dir := t.TempDir()
	rendertest.OK(t, os.CopyFS(dir, fsys))
	want, err := kustomizeBuild(filepath.Join(dir, "app"))
	if err != nil {
		t.Fatalf("kustomize does not build it: %v", err)
	}
	if diff := cmp.Diff(want, values(objects)); diff != "" {
		t.Errorf("objects differ from kustomize's (-want +got):\n%s", diff)
	}
}

func usesCharts(fsys fs.FS) bool {
	found := false
	_ = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		found = found || d.Name() == "Chart.yaml"
		return err
	})
	return found
}
