// Package rendertest runs tests that are written as trees of files, and holds what the
// tests of all packages have in common.
//
// Each .txtar file of a directory is one case: its files are the tree, and the
// file `want` among them is the expected result of the tree. The comment before
// the first file says what the case is about.
package rendertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
)

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Equal compares two values as cmp.Diff does, and reports the difference as an error.
func Equal(t testing.TB, want, got any, options ...cmp.Option) {
	t.Helper()
	if d := cmp.Diff(want, got, options...); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	OK(t, err)
	return data
}

// SkipWithout skips the test if there is no file or directory of that name, such as
// those of ../shared.
func SkipWithout(t testing.TB, name string) {
	t.Helper()
	if _, err := os.Stat(name); err != nil {
		t.Skipf("%s is absent", name)
	}
}

// ReadOrSkip returns the content of a file, or skips the test if it is absent.
func ReadOrSkip(t testing.TB, name string) []byte {
	t.Helper()
	SkipWithout(t, name)
	return ReadFile(t, name)
}

// GlobOrSkip returns the files that match one of the patterns, or skips the test if there
// are none.
func GlobOrSkip(t testing.TB, patterns ...string) (files []string) {
	t.Helper()
	for _, p := range patterns {
		found, err := filepath.Glob(p)
		OK(t, err)
		files = append(files, found...)
	}
	if len(files) == 0 {
		t.Skipf("%s is absent", strings.Join(patterns, ", "))
	}
	return files
}

// Rows returns the rows of a table, a JSON value each, or skips the test if the file is
// absent.
func Rows[R any](t testing.TB, name string) (rows []R) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(ReadOrSkip(t, name))); ; {
		var row R
		err := d.Decode(&row)
		if err == io.EOF && len(rows) > 0 {
			return rows
		}
		OK(t, err)
		rows = append(rows, row)
	}
}

// WriteFile writes a file and makes the directories above it.
func WriteFile(t testing.TB, name, content string) {
	t.Helper()
	OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
	OK(t, os.WriteFile(name, []byte(content), 0o644))
}

// ParseArchive reads a .txtar file.
func ParseArchive(t testing.TB, name string) *txtar.Archive {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	OK(t, err)
	return archive
}

// Parse returns the objects of a file with the given content.
func Parse[T string | []byte](t testing.TB, file string, content T) []*render.Object {
	t.Helper()
	objects, err := render.Parse(file, []byte(content))
	OK(t, err)
	return objects
}

// Value returns the value of a text in YAML, as JSON has it.
func Value(t testing.TB, text string) any {
	t.Helper()
	var v any
	OK(t, yaml.Unmarshal([]byte(text), &v))
	return v
}

// ReadYAML decodes a file of YAML or JSON into a value, by its json tags.
func ReadYAML(t testing.TB, file string, into any) {
	t.Helper()
	OK(t, yaml.Unmarshal(ReadFile(t, file), into))
}

// Golden compares got with the content of a file. With UPDATE_GOLDEN=1 in the
// environment it writes the file instead.
func Golden(t testing.TB, file, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		OK(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	compare(t, file, string(ReadFile(t, file)), got)
}

func compare(t testing.TB, file, want, got string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s: -want +got (UPDATE_GOLDEN=1 writes it):\n%s", file, d)
	}
}

// Each calls f with the name of each .txtar file in dir, in parallel subtests.
func Each(t *testing.T, dir string, f func(t *testing.T, file string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no .txtar files in %s: %v", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			f(t, file)
		})
	}
}

// Archives calls f with each .txtar file in dir, in parallel, and compares what it
// returns with the file `want` of the archive. With UPDATE_GOLDEN=1 in the environment
// it writes `want` instead.
func Archives(t *testing.T, dir string, f func(t *testing.T, a *txtar.Archive) string) {
	t.Helper()
	Each(t, dir, func(t *testing.T, file string) {
		a := ParseArchive(t, file)
		got := f(t, a)
		if got != "" && !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		i := slices.IndexFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
		if i < 0 {
			a.Files, i = append(a.Files, txtar.File{Name: "want"}), len(a.Files)
		}
		if os.Getenv("UPDATE_GOLDEN") != "" {
			a.Files[i].Data = []byte(got)
			OK(t, os.WriteFile(file, txtar.Format(a), 0o644))
			return
		}
		compare(t, file, string(a.Files[i].Data), got)
	})
}

// Twice is f, for [Archives], and checks that a second call returns the same.
func Twice(f func(t *testing.T, a *txtar.Archive) string) func(t *testing.T, a *txtar.Archive) string {
	return func(t *testing.T, a *txtar.Archive) string {
		t.Helper()
		got := f(t, a)
		if d := cmp.Diff(got, f(t, a)); d != "" {
			t.Errorf("-first call +second call:\n%s", d)
		}
		return got
	}
}

// Run calls f with the tree of each .txtar file in dir, without `want`, and compares
// as [Archives] does.
func Run(t *testing.T, dir string, f func(t *testing.T, fsys fs.FS) string) {
	t.Helper()
	Archives(t, dir, func(t *testing.T, a *txtar.Archive) string {
		fsys, _ := Tree(a)
		return f(t, fsys)
	})
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
