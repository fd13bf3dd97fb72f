package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/tui"
)

func suppression(rule string) policy.Suppression {
	return policy.Suppression{Rule: rule, Object: "/Pod/*/*", Reason: "because", Expires: "2027-01-31"}
}

func TestEditor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"vim", "code", "my editor", "hx", "vi", "myed", "micro", "idea", "nano"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	at := render.Span{File: "a.yaml", Line: 3, Column: 7}
	for _, c := range []struct {
		visual, editor string
		want           []string // after the program
		window         bool
		err            string
		own            string // --editor
	}{
		{"", "vim", []string{"+3", "-c", "7", "/r/a.yaml"}, false, "", "myed +{line} -c {column} {file}"},
		{"", "vim", []string{"/r/a.yaml:3"}, false, "", "myed '{file}:{line}'"},
		{"", "vim", nil, false, "has no {file}", "myed +{line}"},
		{"", "myed -x {file}", []string{"-x", "/r/a.yaml"}, false, "", ""},
		{"", "myed", []string{"/r/a.yaml"}, false, "", ""},
		{"", "micro", []string{"+3:7", "/r/a.yaml"}, false, "", ""},
		{"", "nano", []string{"+3,7", "/r/a.yaml"}, false, "", ""},
		{"", "idea", []string{"--line", "3", "--column", "7", "/r/a.yaml"}, true, "", ""},
		{"", "vim", []string{"+call cursor(3,7)", "/r/a.yaml"}, false, "", ""},
		{"code --wait", "vim", []string{"--wait", "--goto", "/r/a.yaml:3:7"}, true, "", ""},
		{"", "hx", []string{"/r/a.yaml:3:7"}, false, "", ""},
		{"", "'" + filepath.Join(dir, "my editor") + `' -x "a b"`, []string{"-x", "a b", "/r/a.yaml"}, false, "", ""},
		{"", "", []string{"+call cursor(3,7)", "/r/a.yaml"}, false, "", ""},
		{"", "nope", nil, false, "nope: no such program", ""},
		{"", "'nope", nil, false, "is no command", ""},
	} {
		env := map[string]string{"VISUAL": c.visual, "EDITOR": c.editor, editorPath: "relative:" + dir}
		e := &editor{c.own, func(k string) (string, bool) { v, ok := env[k]; return v, ok }}
		got, err := e.open("/r/a.yaml", at)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: %v", c.editor, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.editor, err)
			continue
		}
		if unknown := c.own == "" && (c.editor == "myed" || strings.Contains(c.editor, "my editor")); (got.Note != "") != unknown {
			t.Errorf("%q: note %q", c.editor, got.Note)
		}
		if diff := cmp.Diff(c.want, got.Cmd.Args[1:]); diff != "" || got.Window != c.window {
			t.Errorf("%q: window %v %s", c.editor, got.Window, diff)
		}
	}
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
	all := byKey(&input{tree: &tree{Tree: new(disk.Tree)}, head: []*render.Unit{unit}})
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
	h := &triageHost{options: &triageOptions{}}
	h.options.suppressions = file
	c, err := h.Propose(tui.Decisions{Add: []policy.Suppression{suppression("x")}})
	if err != nil {
		t.Fatal(err)
	}
	other := []byte("suppressions: []\n")
	if err := os.WriteFile(file, other, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := h.Write(c); err != tui.ErrChanged {
		t.Errorf("write over another's work: %v", err)
	}
	if got, _ := os.ReadFile(file); string(got) != string(other) {
		t.Errorf("the file is %q", got)
	}
	repo := t.TempDir()
	for _, err := range []error{os.Mkdir(filepath.Join(repo, ".git"), 0o755), os.Symlink(dir, filepath.Join(repo, ".preadmit"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h = &triageHost{options: &triageOptions{}, watcher: watcher{args: []string{repo}}}
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
			if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		h := &triageHost{options: &triageOptions{}}
		h.options.suppressions = file
		c, err := h.Propose(tui.Decisions{Add: []policy.Suppression{suppression("x")}})
		if err == nil {
			err = h.Write(c)
		}
		if err == nil {
			err = h.Write(&tui.Change{File: c.File, Before: c.After, After: c.Before})
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); (err != nil) != (before == "none") || err == nil && string(got) != before {
			t.Errorf("%q: the file is %q, %v", before, got, err)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	got, err := parseTriageSettings("t.yaml", []byte("editor: myed +{line} {file}\ntheme: light\nkeys:\n  accept: [a, f2]\n  mark-all: A\n  undo: []\n"))
	want := triageSettings{"myed +{line} {file}", "light", tui.Keys{"accept": {"a", "f2"}, "mark-all": {"A"}, "undo": {}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(triageSettings{})); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for text, want := range map[string]string{
		"kees: {}":                            `t.yaml:1: unknown key "kees"; did you mean keys?`,
		"theme: mauve":                        `t.yaml:1: --theme "mauve" is none of auto, light, dark`,
		"editor: 'x'\neditor: y":              "t.yaml:2: editor stands here twice",
		"editor: 'x":                          "t.yaml:1:9:",
		"editor: x +{line}":                   `t.yaml:1: editor: "x +{line}" has no {file}`,
		"editor: [x]":                         "t.yaml:1: editor: want text",
		"keys:\n  acept: a":                   `t.yaml:2: keys: unknown action "acept"; did you mean accept?`,
		"keys:\n  mark: f2\n  accept: d":      "t.yaml:3: keys: accept: the key d does remove already",
		"keys:\n  mark: f2\n  accept: f2":     "t.yaml:2: keys: mark: the key f2 does accept already",
		"keys:\n  mark: f2\n  mark: f3":       "t.yaml:3: mark stands here twice",
		"keys:\n  mark:\n  - f2\n  - hyper+1": `t.yaml:2: keys: mark: "hyper+1" is no key`,
		"keys:\n  mark: {a: b}":               "t.yaml:2: mark: want a key or a list of keys",
		"keys: [a]":                           "t.yaml:1: want keys with values",
		"- a":                                 "t.yaml:1: want keys with values",
	} {
		if _, err := parseTriageSettings("t.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

// TestReadmeScreen holds the screen in README.md against testdata/screens.
func TestReadmeScreen(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../README.md", "\n```text\n", "```\n"
	readme, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../testdata/screens/explain.txt")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(readme), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("README.md shows no screen")
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(before+begin+string(want)+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}
