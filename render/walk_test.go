package render_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A fake renderer claims the directories that hold its file, whose lines say
// what it makes of them: "uses PATH", "reads FILE", "whole", "not NOTE".
type fake struct {
	render.Manifests
	kind, file string
}

func (f fake) Kind() string { return f.kind }

func (f fake) Detect(fsys fs.FS, dir string) (render.Claim, bool) {
	data, err := fs.ReadFile(fsys, path.Join(dir, f.file))
	if err != nil {
		return render.Claim{}, false
	}
	c := render.Claim{Unit: true, Files: []string{f.file}}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		verb, arg, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "# "), " ")
		switch verb {
		case "uses":
			c.Uses = append(c.Uses, path.Join(dir, arg))
		case "reads":
			c.Files = append(c.Files, arg)
		case "whole":
			c.Whole = true
		case "not":
			c.Unit, c.Note = false, arg
		}
	}
	return c, true
}

var graph = render.Graph{Renderers: []render.Renderer{
	fake{kind: "helm", file: "Chart.yaml"}, fake{kind: "kustomize", file: "kustomization.yaml"}, render.Manifests{},
}}

func show(d render.Discovery) string {
	var b strings.Builder
	for _, s := range d.Sources {
		fmt.Fprintf(&b, "%-9s %s\n", s.Kind, s.Path)
	}
	for _, s := range d.Skipped {
		fmt.Fprintf(&b, "skipped   %s: %s\n", s.Path, s.Reason)
	}
	for _, p := range d.NotFound {
		fmt.Fprintf(&b, "not found %s\n", p)
	}
	for _, e := range render.Errors(d.Err) {
		fmt.Fprintf(&b, "error     %s [%s]\n", e, e.Rule)
	}
	return b.String()
}

// The file `paths` of a case holds the paths that are given.
func TestDiscover(t *testing.T) {
	t.Parallel()
	rendertest.Run(t, "testdata/discover", func(_ *testing.T, fsys fs.FS) string {
		data, _ := fs.ReadFile(fsys, "paths")
		return show(graph.Discover(fsys, strings.Fields(string(data))...))
	})
}

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"

func file(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content), Mode: 0o644} }

func link(to string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(to), Mode: 0o777 | fs.ModeSymlink}
}

func TestDiscoverLinks(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"apps/a.yaml":                 file(pod),
		"apps/twin.yaml":              link("a.yaml"),
		"apps/named.yaml":             link("data.txt"),
		"apps/data.txt":               file(pod),
		"apps/up.yaml":                link("../../outside.yaml"),
		"apps/abs.yaml":               link("/etc/passwd"),
		"apps/inside.yaml":            link("../shared/deep.yaml"),
		"apps/gone.yaml":              link("nowhere.yaml"),
		"apps/self.yaml":              link("self.yaml"),
		"apps/loop":                   link("."),
		"apps/ext":                    link("/etc"),
		"apps/readme":                 link("data.txt"),
		"apps/other":                  link("../lib"),
		"lib/b.yaml":                  file(pod),
		"shared":                      link("lib"),
		"lib/deep.yaml":               file(pod),
		"apps/chart":                  link("../charts/web/templates"),
		"charts/web/Chart.yaml":       file("# whole\n"),
		"charts/web/templates/x.yaml": file(pod),
		".git/config.yaml":            file(pod),
		"apps/git.yaml":               link("../.git/config.yaml"),
	}
	want := `manifest  apps/a.yaml
manifest  apps/data.txt
manifest  lib/b.yaml
manifest  lib/deep.yaml
skipped   apps/chart: symbolic link, see charts/web/templates
skipped   apps/inside.yaml: symbolic link, see lib/deep.yaml
skipped   apps/loop: symbolic link, see apps
skipped   apps/named.yaml: symbolic link, see apps/data.txt
skipped   apps/other: symbolic link, see lib
skipped   apps/twin.yaml: symbolic link, see apps/a.yaml
error     apps/abs.yaml: symbolic link leads out of the tree [escapes-tree]
error     apps/ext: symbolic link leads out of the tree [escapes-tree]
error     apps/git.yaml: symbolic link leads into .git, whose files are not looked at [link-into-git]
error     apps/gone.yaml: symbolic link leads nowhere [dangling-link]
error     apps/self.yaml: symbolic link can't be followed [dangling-link]
error     apps/up.yaml: symbolic link leads out of the tree [escapes-tree]
`
	rendertest.Equal(t, want, show(graph.Discover(fsys, "apps")))
}

func create(t *testing.T, name string) string {
	t.Helper()
	rendertest.OK(t, os.WriteFile(name, nil, 0o600))
	return name
}

// Files and directories that can't be read are errors, and the rest is found.
func TestDiscoverFaults(t *testing.T) {
	t.Parallel()
	fsys := faults{FS: fstest.MapFS{"a.yaml": file(pod), "b.yaml": file(pod), "dir/c.yaml": file(pod)}, bad: []string{"b.yaml", "dir"}}
	want := `manifest  a.yaml
error     b.yaml: permission denied [unreadable]
error     dir: permission denied [unreadable]
`
	rendertest.Equal(t, want, show(graph.Discover(fsys)))
}

type faults struct {
	fs.FS
	bad []string
}

func (f faults) Open(name string) (fs.File, error) {
	if slices.Contains(f.bad, name) {
		return nil, &fs.PathError{Op: "open", Path: "/secret/" + name, Err: fs.ErrPermission}
	}
	return f.FS.Open(name)
}

func (f faults) ReadDir(name string) ([]fs.DirEntry, error) {
	if slices.Contains(f.bad, name) {
		return nil, &fs.PathError{Op: "open", Path: "/secret/" + name, Err: fs.ErrPermission}
	}
	return fs.ReadDir(f.FS, name)
}

// However claims use each other, everything is rendered by something, and
// nothing that another source renders is a source.
func TestDiscoverLosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint32(300) {
		next := func(n uint32) uint32 { seed = seed*1664525 + 1013904223; return seed >> 16 % n }
		n := int(2 + next(7))
		fsys, uses := fstest.MapFS{}, make(map[string][]string)
		for i := range n {
			dir := string(rune('a' + i))
			var lines string
			for j := range n {
				if next(4) == 0 {
					to := string(rune('a' + j))
					uses[dir] = append(uses[dir], to)
					lines += "# uses ../" + to + "\n"
				}
			}
			fsys[dir+"/kustomization.yaml"] = file(lines)
		}
		d := graph.Discover(fsys)
		reached := map[string]bool{}
		var reach func(string)
		reach = func(dir string) {
			if !reached[dir] {
				reached[dir] = true
				for _, to := range uses[dir] {
					reach(to)
				}
			}
		}
		for _, s := range d.Sources {
			if s.Kind == "kustomize" && reached[s.Path] {
				t.Errorf("%v: %s is a source, and another source uses it", uses, s.Path)
			}
			reach(s.Path)
		}
		if len(reached) != n {
			t.Errorf("%v: only %v are rendered", uses, reached)
		}
	}
}

func TestDiscoverLimits(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{strings.Repeat("d/", 70) + "x.yaml": file(pod)}
	if got := show(graph.Discover(fsys)); !strings.Contains(got, "more than 64 levels deep [too-deep]") {
		t.Error(got)
	}
}

func TestManifestsRender(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"pod.yaml": file(pod + "---\n" + pod), "values.yaml": file("a: b\n"), "broken.yaml": file("a: [\n"), "empty.yaml": file("# nothing\n---\n"),
	}
	var got []string
	for _, name := range []string{"pod.yaml", "values.yaml", "broken.yaml", "empty.yaml", "none.yaml"} {
		units, err := graph.Render(t.Context(), render.Source{FS: fsys, Path: name, Kind: "manifest"})
		rendertest.OK(t, err)
		for _, e := range render.Errors(units[0].Err) {
			got = append(got, fmt.Sprintf("%s %d [%s] %s", units[0].Status(), len(units[0].Objects), e.Rule, e))
		}
	}
	want := []string{
		`rendered 2 [duplicate-object] pod.yaml:7:18: Pod p is already defined at pod.yaml:3:18: the cluster keeps the last`,
		`failed 0 [no-objects] values.yaml: contains no Kubernetes object`,
		`failed 0 [yaml-syntax] broken.yaml:1:4: the [ that opens here is never closed`,
		`failed 0 [not-found] none.yaml: no such file`,
	}
	rendertest.Equal(t, want, got)
}

// TestUnreadable: what is refused here may be read elsewhere, so a file that
// can't be read is an error however its keys are spelled.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	const rest = "metadata:\n  name: hid\nspec:\n  hostNetwork: true\n...\nx: y\n"
	for name, text := range map[string]string{
		"quoted":   "'apiVersion': v1\n'kind': Pod\n" + rest,
		"explicit": "? apiVersion\n: v1\n? kind\n: Pod\n" + rest,
		"anchored": "&x apiVersion : v1\nkind : Pod\n" + rest,
		"escaped":  "\"\\x61piVersion\": v1\n\"kin\\x64\": Pod\n" + rest,
		"list":     "apiVersion: v1\nkind: List\nItems:\n- {apiVersion: v1, kind: Pod, metadata: {name: hid}}\n",
		"second":   "foo: bar\n...\n'apiVersion': v1\n'kind': Pod\n",
	} {
		d := render.Graph{Renderers: []render.Renderer{render.Manifests{}}}.Discover(fstest.MapFS{"a.yaml": {Data: []byte(text)}}, ".")
		units, err := render.Graph{Renderers: []render.Renderer{render.Manifests{}}}.Render(t.Context(), d.Sources...)
		rendertest.OK(t, err)
		if d.Err == nil && (len(units) != 1 || units[0].Err == nil) {
			t.Errorf("%s: passed over: %v", name, d.Skipped)
		}
	}
}
