package kustomize_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/kustomize"
)

// TestCorpusLines asks for the place of every field of real repositories and
// looks whether the value stands there.
func TestCorpusLines(t *testing.T) {
	const repos = "../../../shared/repos"
	entries, err := os.ReadDir(repos)
	if err != nil {
		t.Skip("no repositories beside the project")
	}
	for _, e := range entries {
		if e.IsDir() {
			t.Run(e.Name(), func(t *testing.T) { t.Parallel(); traceAll(t, os.DirFS(filepath.Join(repos, e.Name()))) })
		}
	}
}

type tracing struct {
	fields int
	count  map[string]int
	shown  map[string]int
	lines  map[string][]string
}

func traceAll(t *testing.T, fsys fs.FS) {
	r := kustomize.New(kustomize.Options{})
	n := &tracing{count: map[string]int{}, shown: map[string]int{}, lines: map[string][]string{}}
	units := 0
	_ = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if c, ok := r.Detect(fsys, name); !ok || !c.Unit {
			return nil
		}
		if units++; !wanted(units) {
			return nil
		}
		objects, _ := r.Render(context.Background(), render.Source{FS: fsys, Path: name, Kind: "kustomize"})
		for _, o := range objects {
			for _, pointer := range leaves(o.Object, "") {
				n.trace(t, fsys, name, o, pointer)
			}
		}
		return nil
	})
	if n.fields == 0 {
		return
	}
	exact := n.count["value"] + n.count["block"] + n.count["entry"] + n.count["empty"]
	t.Logf("%d fields, %.2f%% exact: %v", n.fields, 100*float64(exact)/float64(n.fields), n.count)
}

// trace sorts a field by how its value is found at its first place: "value" is
// the very scalar, "block" a block scalar's header, "entry" a generator's line,
// "derived" a value of which it is made, "other" anything else.
func (t *tracing) trace(tb *testing.T, fsys fs.FS, unit string, o *render.Object, pointer string) {
	t.fields++
	v, _ := render.Lookup(o.Object, pointer)
	at := o.At(pointer)
	if len(at) == 0 {
		tb.Fatalf("%s: no place for %s", unit, pointer)
	}
	kind := t.found(fsys, at[0], v, pointer)
	if strings.HasPrefix(t.text(fsys, at[0].Span), "*") && len(at) > 1 {
		kind = t.found(fsys, at[1], v, pointer)
	}
	t.count[kind]++
	if (kind == "other" || kind == "wrong") && t.shown[kind] < 60 {
		t.shown[kind]++
		tb.Logf("%s: %s %s %s = %.80q: %s %s: %.60s", kind, unit, o.GetKind(), pointer, fmt.Sprint(v), at[0].Role, at[0].Span, t.text(fsys, at[0].Span))
	}
}

func (t *tracing) text(fsys fs.FS, s render.Span) string {
	if t.lines[s.File] == nil {
		data, _ := fs.ReadFile(fsys, s.File)
		t.lines[s.File] = strings.Split(string(data), "\n")
	}
	lines := t.lines[s.File]
	if s.Line == 0 || s.Line > len(lines) {
		return ""
	}
	line := []rune(lines[s.Line-1])
	to := len(line)
	if s.EndLine == s.Line {
		to = min(to, s.EndColumn-1)
	}
	return string(line[min(s.Column-1, to):to])
}

func (t *tracing) found(fsys fs.FS, at render.Origin, v any, pointer string) string {
	text := t.text(fsys, at.Span)
	want := fmt.Sprint(v)
	var got any
	path := render.Path(pointer)
	switch {
	case yaml.Unmarshal([]byte(text), &got) == nil && (fmt.Sprint(got) == want || text == want || text == strconv.Quote(want)):
		return "value"
	case strings.HasPrefix(text, "|") || strings.HasPrefix(text, ">"):
		return "block"
	case at.Role == render.Generated:
		return "entry"
	case v == nil || isEmpty(v), strings.Contains(want, "\n"), strings.HasPrefix(text, `"`) || strings.HasPrefix(text, "'"):
		return "empty"
	case text == path[len(path)-1]:
		return "other"
	case strings.Contains(want, strings.Trim(text, `"'`)) && text != "":
		return "derived"
	case at.Line == 0:
		return "other"
	}
	return "wrong"
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
