package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/cmd/preadmit/graph"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/rendered"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report"
)

// FuzzRendered holds that the objects which render prints read as those that were
// rendered, whatever their texts and the names of files.
func FuzzRendered(f *testing.F) {
	for _, s := range []string{"a", "---\n", "0x10", "1e3", "yes", "~", "a: b", "\u2028", "\u0085", "\ttab\n\n", " # x", "'", "\x1b[2J", "2001-01-01", "=", "<<", "-", "a\r\nb", "0o7", "1_000", ".5", "\ufeff", "|\n a"} {
		f.Add(s, s)
	}
	f.Add(strings.Repeat("long ", 300), "<<")
	opened, err := disk.OpenTree(f.TempDir())
	rendertest.OK(f, err)
	f.Cleanup(func() { _ = opened.Close() })
	f.Fuzz(func(t *testing.T, key, text string) {
		value := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{key: text, "z": "last"}}
		data, err := json.Marshal(value)
		rendertest.OK(t, err)
		docs, err := render.Documents("a.json", data, render.YAML11)
		if err != nil || len(docs) != 1 {
			t.Skip(err) // no such object can come out of a file
		}
		object, ok := docs[0].Value.(map[string]any)
		if !ok {
			t.Skip()
		}
		in := &load.Input{Tree: &load.Tree{Tree: opened}, Head: []*render.Unit{{Source: render.Source{Kind: "helm", Path: text}, Objects: []*render.Object{{Unstructured: &unstructured.Unstructured{Object: object}}}}}}
		var out bytes.Buffer
		rendertest.OK(t, rendered.YAML(&out, in, false))
		var again map[string]any
		if err := yaml.Unmarshal(out.Bytes(), &again); err != nil {
			t.Fatalf("%q: %v\n%s", text, err, &out)
		}
		if d := cmp.Diff(object, again); d != "" {
			t.Errorf("%q: %s\n%s", text, d, &out)
		}
	})
}

var (
	dotNode     = regexp.MustCompile(`^  n0 \[label="(?:[^"\\]|\\["\\])*"\];$`)
	mermaidNode = regexp.MustCompile(`^  n0\["[^"<>]*"\]$`)
)

// FuzzGraph holds that a unit is one node of a drawing and one line of a text, whatever
// its name and the reason why it was not rendered.
func FuzzGraph(f *testing.F) {
	for _, s := range []string{"a", `"]; x [label="`, "a\nb", `\`, `\"`, "#quot;", "<script>", "%%{init}%%", "\x1b[2J", "\u202e", "&quot;", "::error::x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g := &graph.Graph{Units: []graph.Unit{{}}}
		u := &g.Units[0]
		u.ID, u.Path, u.Reason, u.Status = s, s, s, string(render.Failed)
		lines := func(format string) []string {
			var out bytes.Buffer
			rendertest.OK(t, graph.Formats.Write(&out, format, g, report.Options{}))
			if bad := strings.IndexFunc(out.String(), func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e }); bad >= 0 {
				t.Errorf("%q: a control character in %q", s, out.String())
			}
			return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		}
		if dot := lines("dot"); len(dot) != 4 || !dotNode.MatchString(dot[2]) {
			t.Errorf("%q: %q", s, dot)
		}
		if mermaid := lines("mermaid"); len(mermaid) != 2 || !mermaidNode.MatchString(mermaid[1]) {
			t.Errorf("%q: %q", s, mermaid)
		}
		if text := lines("text"); len(text) != 2 {
			t.Errorf("%q: %q", s, text)
		}
		var out bytes.Buffer
		var again graph.Graph
		rendertest.OK(t, graph.Formats.Write(&out, "json", g, report.Options{}))
		if err := json.Unmarshal(out.Bytes(), &again); err != nil || utf8.ValidString(s) && again.Units[0].ID != s {
			t.Errorf("%q: read again %+v, %v", s, again, err)
		}
	})
}
