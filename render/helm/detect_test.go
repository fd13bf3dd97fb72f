package helm

import (
	"context"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	file := func(data string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(data)} }
	tree := fstest.MapFS{
		"app/Chart.yaml": file(chartYAML + "dependencies:\n- {name: l, version: 1.0.0, repository: 'file://../libs/l'}\n" +
			"- {name: l, version: 1.0.0, alias: m, repository: 'file://../libs/l'}\n- {name: x, version: 1.0.0, repository: 'file:///etc'}\n- null\n"),
		"v1/Chart.yaml":        file("name: v1\nversion: 1.0.0\n"),
		"v1/requirements.yaml": file("dependencies: [{name: l, version: 1.0.0, repository: 'file://../libs/l'}]"),
		"libs/l/Chart.yaml":    file(chartYAML + "type: library\n"),
		"broken/Chart.yaml":    file("a: ["),
		"none/values.yaml":     file("a: 1"),
		"dir/Chart.yaml/x":     file("not a file"),
	}
	want := map[string]render.Claim{
		"app":    {Unit: true, Whole: true, Uses: []string{"libs/l"}, Files: []string{"app/Chart.yaml"}},
		"v1":     {Unit: true, Whole: true, Uses: []string{"libs/l"}, Files: []string{"v1/Chart.yaml"}},
		"libs/l": {Whole: true, Note: "library chart", Files: []string{"libs/l/Chart.yaml"}},
		"broken": {Unit: true, Whole: true, Files: []string{"broken/Chart.yaml"}},
	}
	for _, dir := range []string{"app", "v1", "libs/l", "broken", "none", "dir", "."} {
		claim, ok := New(Options{}).Detect(tree, dir)
		wanted, claimed := want[dir]
		if ok != claimed {
			t.Errorf("%s: claimed %t", dir, ok)
		}
		if d := cmp.Diff(wanted, claim); d != "" {
			t.Errorf("%s (-want +got):\n%s", dir, d)
		}
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	tree := chartOf(podYAML)
	tree["web-2.tgz"] = &fstest.MapFile{Data: tgz(t, entry{name: "web/Chart.yaml", data: []byte("name: web\nversion: 2.0.0\n")})}
	tree["bad.tgz"] = &fstest.MapFile{Data: []byte("x")}
	for src, want := range map[string]string{"c": "c", "web-2.tgz": "web", "bad.tgz": "bad", "gone": "gone"} {
		if got := New(Options{}).Name(render.Source{FS: tree, Path: src}); got != want {
			t.Errorf("%s is called %s, want %s", src, got, want)
		}
	}
	if got := New(Options{}).Name(render.Source{FS: tree, Path: "c", Helm: &render.Helm{ReleaseName: "r"}}); got != "r" {
		t.Errorf("release is called %s", got)
	}
}

// TestOwner puts what is wrong with a release's parameters at what gives them.
func TestOwner(t *testing.T) {
	t.Parallel()
	owner := &render.Object{
		Unstructured: &unstructured.Unstructured{Object: map[string]any{"kind": "Application"}},
		Provenance:   render.File{Span: render.Span{File: "apps/web.yaml", Line: 7}, Role: render.Manifest},
	}
	_, err := New(Options{}).Render(context.Background(), render.Source{
		FS: chartOf(podYAML), Path: "c", Owner: owner, Helm: &render.Helm{ValueFiles: []string{"none.yaml"}},
	})
	errs := render.Errors(err)
	if len(errs) != 1 || errs[0].Span.File != "apps/web.yaml" || errs[0].Span.Line != 7 {
		t.Errorf("errors %v", err)
	}
}
