package helm

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"text/template"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestShopLeaves holds the first place of fields of the shop's chart against
// the lines that its README names.
func TestShopLeaves(t *testing.T) {
	t.Parallel()
	fsys := os.DirFS("../../testdata/repos/shop")
	prod := []string{"charts/web/values-prod.yaml"}
	for _, c := range []struct {
		files                []string
		kind, pointer, place string
	}{
		{nil, "Deployment", "/spec/template/spec/containers/1/securityContext/privileged", "charts/web/values.yaml:42"},
		{nil, "Deployment", "/spec/template/spec/containers/1/resources/limits/memory", "charts/web/values.yaml:43"},
		{nil, "Deployment", "/spec/template/spec/containers/1/resources", "charts/web/values.yaml:43"},
		{nil, "Deployment", "/spec/template/spec/securityContext", "charts/web/values.yaml:15"},
		{nil, "Deployment", "/spec/template/spec/securityContext/fsGroup", "charts/web/values.yaml:15"},
		{nil, "Deployment", "/spec/replicas", "charts/web/values.yaml:4"},
		{prod, "HorizontalPodAutoscaler", "/spec/maxReplicas", "charts/web/values-prod.yaml:23"},
		{prod, "Ingress", "/spec/tls", "charts/web/values-prod.yaml:18"},
	} {
		src := render.Source{FS: fsys, Path: "charts/web", Helm: &render.Helm{ValueFiles: c.files}}
		objects, err := New(Options{}).Render(context.Background(), src)
		if hard(err) != nil {
			t.Fatal(err)
		}
		got := ""
		for _, o := range objects {
			if o.GetKind() == c.kind {
				at := o.At(c.pointer)[0]
				got = fmt.Sprintf("%s:%d", at.File, at.Line)
			}
		}
		if got != c.place {
			t.Errorf("%s %s is at %s, want %s", c.kind, c.pointer, got, c.place)
		}
	}
}

// TestValuePerturbation edits the line of values that is said to have supplied
// a field, and wants the field to change.
func TestValuePerturbation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	t.Parallel()
	root := filepath.Join("..", "..", "..", "shared", "repos")
	rendertest.SkipWithout(t, root)
	const perChart = 4 // with 40, 1514 of 1518 changed; the others are at defaults
	p := perturbation{Renderer: New(Options{})}
	for _, dir := range charts(t, root) {
		rel, err := filepath.Rel(root, dir)
		rendertest.OK(t, err)
		p.chart(t, os.DirFS(root), filepath.ToSlash(rel), perChart)
	}
	t.Logf("%d fields, %d of them with values; %d lines edited: %d changed the field, %d did not; %d edits more broke the rendering",
		p.fields, p.valued, p.tried, p.tried-p.same, p.same, p.broken)
	if p.tried < 100 || p.same*200 > p.tried {
		t.Errorf("%d of %d edits left the field as it was", p.same, p.tried)
	}
}

type perturbation struct {
	*Renderer
	fields, valued, tried, same, broken int
}

// chart edits the values of so many fields of a chart, spread over all.
func (p *perturbation) chart(t *testing.T, fsys fs.FS, dir string, n int) {
	src := render.Source{FS: fsys, Path: dir}
	objects, _ := p.Render(context.Background(), src)
	type sample struct {
		object  int
		pointer string
		at      render.Origin
		v       any
	}
	var samples []sample
	for i, o := range objects {
		eachLeaf(o.Object, "", func(pointer string, v any) {
			p.fields++
			for j, at := range o.At(pointer) {
				if at.Role != render.Value || pointer == "/kind" {
					break
				}
				if j == 0 {
					p.valued++
				}
				samples = append(samples, sample{i, pointer, at, v})
			}
		})
	}
	step := max(1, len(samples)/n)
	for i := step / 2; i < len(samples); i += step {
		s := samples[i]
		src.FS = edited{fsys, s.at.Span}
		again, err := p.Render(context.Background(), src)
		if hard(err) != nil || len(again) != len(objects) || again[s.object].GetKind() != objects[s.object].GetKind() {
			p.broken++
			continue
		}
		p.tried++
		if got, ok := render.Lookup(again[s.object].Object, s.pointer); ok && jsonText(got) == jsonText(s.v) {
			p.same++
			t.Logf("%s: %s %s stays %s", s.at.Span, objects[s.object].GetName(), s.pointer, jsonText(s.v))
		}
	}
}

// TestMissingFields holds the first place of maps and lists, and of fields that
// they lack.
func TestMissingFields(t *testing.T) {
	t.Parallel()
	fsys := txtarOf(t, "testdata/charts/leaves.txtar")
	objects, err := New(Options{}).Render(context.Background(), sourceOf(t, fsys))
	if hard(err) != nil {
		t.Fatal(err)
	}
	var deployment *render.Object
	for _, o := range objects {
		if o.GetKind() == "Deployment" {
			deployment = o
		}
	}
	for pointer, want := range map[string]string{
		"":                          "chart/templates/a.yaml:4",
		"/spec":                     "chart/templates/a.yaml:10",
		"/spec/nothing/here":        "chart/templates/a.yaml:10",
		"/spec/block":               "chart/values.yaml:11",
		"/spec/block/limits/gpu":    "chart/values.yaml:12",
		"/spec/block/limits/cpu/x":  "chart/values.yaml:13",
		"/spec/omitted/limits/cpu":  "chart/templates/a.yaml:33",
		"/spec/picked/requests/gpu": "chart/values.yaml:15",
		"/spec/merged/limits/gpu":   "chart/templates/a.yaml:32",
		"/spec/merged/requests/gpu": "chart/values.yaml:15",
		"/spec/empty/x":             "chart/values.yaml:9",
		"/spec/list/0":              "chart/values.yaml:10",
		"/spec/env":                 "chart/templates/a.yaml:37",
		"/spec/env/0/valueFrom":     "chart/templates/a.yaml:39",
		"/spec/sec":                 "chart/templates/a.yaml:44",
		"/spec/sec/caps":            "env/prod.yaml:4",
		"/spec/sec/caps/7":          "env/prod.yaml:4",
		"/spec/partial/limits":      "chart/values.yaml:39",
		"/spec/partial/limits/cpu":  "chart/values.yaml:39",
		"/metadata/annotations":     "chart/values.yaml:23",
		"/metadata/labels/team":     "chart/templates/a.yaml:6",
	} {
		at := deployment.At(pointer)[0]
		if got := fmt.Sprintf("%s:%d", at.File, at.Line); got != want {
			t.Errorf("%q is at %s, want %s", pointer, got, want)
		}
	}
}

func txtarOf(t *testing.T, name string) fs.FS {
	t.Helper()
	archive := rendertest.ParseArchive(t, name)
	fsys, _ := rendertest.Tree(archive)
	return fsys
}

// TestCopiesHaveOwnAddresses holds that the copies of a value have addresses of
// their own, and keep them on the way through a template. Finding places depends on
// it.
func TestCopiesHaveOwnAddresses(t *testing.T) {
	t.Parallel()
	for _, v := range []any{"", "a", "text", true, false, 0.0, 1.0, 1e9, 0, int64(7), []any{}, []any{"a"}} {
		a, b := box(v), box(v)
		if word(a) == word(b) || word(a) == word(v) {
			t.Errorf("%T %v: copies share an address", v, v)
		}
		if !reflect.DeepEqual(a, v) {
			t.Errorf("%v became %v", v, a)
		}
		if s, ok := v.(string); ok && s != "" && start(a.(string)) == start(s) {
			t.Errorf("%q: copies share their text", s)
		}
		var got any
		tmpl := template.Must(template.New("").Funcs(template.FuncMap{"see": func(v any) string { got = v; return "" }}).Parse(
			`{{ $x := index .list 0 }}{{ with $x | or nil }}{{ end }}{{ range .list }}{{ $y := . }}{{ see $y }}{{ end }}`))
		rendertest.OK(t, tmpl.Execute(io.Discard, map[string]any{"list": []any{a}}))
		if word(got) != word(a) {
			t.Errorf("%T %v: lost its address in a template", v, v)
		}
	}
}

// TestKeysHaveOwnAddresses holds that planting gives the keys of a map addresses of their own.
func TestKeysHaveOwnAddresses(t *testing.T) {
	t.Parallel()
	shared := strings.Clone("key")
	a, b := map[string]any{shared: "x"}, map[string]any{shared: "y"}
	new(treeBuilder).addTree(&tree{}, map[string]any{"a": a, "b": b})
	for x := range a {
		for y := range b {
			if start(x) == start(y) || start(x) == start(shared) {
				t.Error("keys share an address")
			}
		}
	}
}
