package triage

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/tui"
)

func suppression(rule string) policy.Suppression {
	return policy.Suppression{Rule: rule, Object: "/Pod/*/*", Reason: "because", Expires: "2027-01-31"}
}

func TestIsReport(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]bool{
		`{"schema":"preadmit.report/v1"}`:          true,
		`{"schema":"preadmit.report/v9","x":[]`:    true,
		"\uFEFF" + `{"schema": "preadmit.x"}`:      true,
		`{"apiVersion":"v1","kind":"Pod"}`:         false,
		`{"kind":"List","items":[{"schema":"x"}]}`: false,
		`[]`: false, ``: false, `{`: false, `{"schema": 3}`: false,
		`{"schema":"https://json-schema.org"}`: false,
	} {
		if got := isReport([]byte(data)); got != want {
			t.Errorf("%s: %v", data, got)
		}
	}
}

// TestByKey finds objects by the names that results give them: with the namespace
// of the request, which an object may leave to it.
func TestByKey(t *testing.T) {
	t.Parallel()
	object := func(kind, namespace, unit string) *render.Object {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("v1")
		o.SetKind(kind)
		o.SetName("x")
		o.SetNamespace(namespace)
		return &render.Object{Unstructured: o, Unit: &render.Unit{Source: render.Source{Path: "u", Namespace: unit}}}
	}
	none, own, given, wide := object("Pod", "", ""), object("Service", "own", "shop"), object("ConfigMap", "", "shop"), object("Node", "", "")
	unit := &render.Unit{Source: render.Source{Path: "u"}, Objects: []*render.Object{none, own, given, wide}}
	all := byKey(&load.Input{Tree: &load.Tree{Tree: new(disk.Tree)}, Head: []*render.Unit{unit}})
	for _, c := range []struct {
		kind, namespace string
		want            *render.Object
	}{
		{"Pod", "default", none},
		{"Service", "own", own},
		{"ConfigMap", "shop", given},
		{"Node", "", wide},
		{"Pod", "other", nil},
		{"ConfigMap", "default", nil},
	} {
		k := render.Key{APIVersion: "v1", Kind: c.kind, Namespace: c.namespace, Name: "x", Unit: "u"}
		if all[k] != c.want {
			t.Errorf("%v: %v", k, all[k])
		}
	}
}

// TestWriteChecks holds that a file that was changed since the diff is left
// alone, and that a link does not lead out of the repository.
func TestWriteChecks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "s.yaml")
	h := &Host{options: &evaluate.Options{}}
	h.options.Suppressions = file
	c, err := h.Propose(tui.Decisions{Add: []policy.Suppression{suppression("x")}})
	rendertest.OK(t, err)
	other := []byte("suppressions: []\n")
	rendertest.OK(t, os.WriteFile(file, other, 0o644))
	if err := h.Write(c); err != tui.ErrChanged {
		t.Errorf("write over another's work: %v", err)
	}
	if got, _ := os.ReadFile(file); string(got) != string(other) {
		t.Errorf("the file is %q", got)
	}
	repo := t.TempDir()
	for _, err := range []error{os.Mkdir(filepath.Join(repo, ".git"), 0o755), os.Symlink(dir, filepath.Join(repo, ".preadmit"))} {
		rendertest.OK(t, err)
	}
	h = &Host{options: &evaluate.Options{}, watcher: watcher{args: []string{repo}}}
	if _, err := h.Propose(tui.Decisions{}); err == nil || !strings.Contains(err.Error(), "leads out") {
		t.Errorf("a link leads out: %v", err)
	}
}

// TestWriteReversed holds that a change that is taken back leaves the bytes that
// were there, or no file.
func TestWriteReversed(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "# mine\r\nsuppressions: []", "none"} {
		file := filepath.Join(t.TempDir(), "s.yaml")
		if before != "none" {
			rendertest.OK(t, os.WriteFile(file, []byte(before), 0o644))
		}
		h := &Host{options: &evaluate.Options{}}
		h.options.Suppressions = file
		c, err := h.Propose(tui.Decisions{Add: []policy.Suppression{suppression("x")}})
		if err == nil {
			err = h.Write(c)
		}
		if err == nil {
			err = h.Write(&tui.Change{File: c.File, Before: c.After, After: c.Before})
		}
		rendertest.OK(t, err)
		if got, err := os.ReadFile(file); (err != nil) != (before == "none") || err == nil && string(got) != before {
			t.Errorf("%q: the file is %q, %v", before, got, err)
		}
	}
}

// TestWriteFix holds that a fix writes all of its files or, if one has changed or may not be edited, none.
func TestWriteFix(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	rendertest.WriteFile(t, outside, "was")
	files := []string{"a.yaml", "b/c.yaml", ".git/hooks/pre-commit", ".preadmit/config.yaml"}
	for _, name := range files {
		rendertest.WriteFile(t, filepath.Join(dir, name), "was")
	}
	rendertest.OK(t, os.Symlink(outside, filepath.Join(dir, "link")))
	rendertest.OK(t, os.Symlink(filepath.Join(dir, "b"), filepath.Join(dir, "d")))
	h := &Host{options: &evaluate.Options{}, watcher: watcher{args: []string{dir}}}
	change := func(names ...string) *tui.Change {
		c := &tui.Change{Fix: "x"}
		for _, name := range names {
			c.More = append(c.More, &tui.Change{File: name, Before: []byte("was"), After: []byte("is")})
		}
		first := *c.More[0]
		first.Fix, first.More = "x", c.More[1:]
		return &first
	}
	for _, other := range []string{".git/hooks/pre-commit", ".preadmit/config.yaml", "link", "d/c.yaml", "../outside", outside, "b/../b/c.yaml", "gone.yaml", "b", ""} {
		if err := h.Write(change("a.yaml", other)); err == nil {
			t.Errorf("%s is written", other)
		}
	}
	rendertest.WriteFile(t, filepath.Join(dir, "b/c.yaml"), "by another")
	if err := h.Write(change("a.yaml", "b/c.yaml")); err == nil || !strings.Contains(err.Error(), "b/c.yaml has changed") {
		t.Errorf("a file that has changed: %v", err)
	}
	rendertest.WriteFile(t, filepath.Join(dir, "b/c.yaml"), "was")
	for _, name := range append([]string{outside}, files...) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if got := rendertest.ReadFile(t, name); string(got) != "was" {
			t.Errorf("%s is %q", name, got)
		}
	}
	rendertest.OK(t, h.Write(change("a.yaml", "b/c.yaml")))
	for _, name := range files[:2] {
		if got := rendertest.ReadFile(t, filepath.Join(dir, name)); string(got) != "is" {
			t.Errorf("%s is %q", name, got)
		}
	}
	h.readOnly = true
	if err := h.Write(change("a.yaml")); err == nil {
		t.Error("--readonly writes")
	}
}
