// Package rendertest runs tests that are written as trees of files, and holds what the
// tests of all packages have in common.
//
// Each .txtar file of a directory is one case: its files are the tree, and the
// file `want` among them is the expected result of the tree. The comment before
// the first file says what the case is about.
package rendertest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/preadmit/preadmit/render"
)

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Run calls f with the tree of each .txtar file in dir, in parallel, and
// compares what it returns with the file `want`, which f doesn't see. With
// UPDATE_GOLDEN=1 in the environment it writes `want` instead.
func Run(t *testing.T, dir string, f func(t *testing.T, fsys fs.FS) string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no .txtar files in %s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			runCase(t, file, f)
		})
	}
}

func runCase(t *testing.T, file string, f func(t *testing.T, fsys fs.FS) string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fsys, want := Tree(archive)
	got := f(t, fsys)
	if got != "" && !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if err := update(file, archive, got); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: -want +got (UPDATE_GOLDEN=1 writes it):\n%s", file, d)
	}
}

// Tree returns the files of an archive, `want` apart.
func Tree(archive *txtar.Archive) (fsys fs.FS, want string) {
	tree := fstest.MapFS{}
	for _, f := range archive.Files {
		if f.Name == "want" {
			want = string(f.Data)
			continue
		}
		tree[f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o644}
	}
	return tree, want
}

func update(file string, archive *txtar.Archive, got string) error {
	for i := range archive.Files {
		if archive.Files[i].Name == "want" {
			archive.Files[i].Data = []byte(got)
			return os.WriteFile(file, txtar.Format(archive), 0o644)
		}
	}
	archive.Files = append(archive.Files, txtar.File{Name: "want", Data: []byte(got)})
	return os.WriteFile(file, txtar.Format(archive), 0o644)
}

// WriteUnit writes the given facts about a unit, its errors, and its objects with the
// places of their fields.
func WriteUnit(b *strings.Builder, u *render.Unit, facts ...[2]string) {
	for _, fact := range facts {
		if fact[1] != "" {
			fmt.Fprintf(b, "  %s: %s\n", fact[0], fact[1])
		}
	}
	if u.Values != nil {
		fmt.Fprintf(b, "  values: %v\n", u.Values)
	}
	for _, e := range render.Errors(u.Err) {
		fmt.Fprintf(b, "  %s: %v\n", e.Rule, e)
	}
	for _, o := range u.Objects {
		fmt.Fprintf(b, "  %s %s/%s\n", o.GetKind(), o.GetNamespace(), o.GetName())
		writeFields(b, o)
		for _, note := range o.Assumed {
			fmt.Fprintf(b, "    assumed: %s\n", note)
		}
	}
}

func writeFields(b *strings.Builder, o *render.Object) {
	for pointer, v := range render.Fields(o.Object, "") {
		switch v.(type) {
		case map[string]any, []any:
			continue
		}
		if pointer == "/apiVersion" || pointer == "/kind" {
			continue
		}
		var places []string
		for _, at := range o.At(pointer) {
			places = append(places, fmt.Sprintf("%s:%d %s", at.File, at.Line, at.Role))
		}
		fmt.Fprintf(b, "    %s = %v <- %s\n", pointer, v, strings.Join(places, ", "))
	}
}
