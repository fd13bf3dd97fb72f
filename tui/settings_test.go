package tui

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

func TestEditor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"vim", "code", "my editor", "hx", "vi", "myed", "micro", "idea", "nano"} {
		rendertest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755))
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
		e := &EditorCommand{c.own, []string{"VISUAL=" + c.visual, "EDITOR=" + c.editor, "PATH=relative:" + dir}}
		got, err := e.Open("/r/a.yaml", at)
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

func TestSettings(t *testing.T) {
	t.Parallel()
	check := func(key, value string) error {
		if key == "theme" && value != "light" {
			return errors.New("wrong theme")
		}
		if key == "editor" {
			_, err := EditorWords(key, value)
			return err
		}
		return nil
	}
	got, err := ParseSettings("t.yaml", []byte("editor: myed +{line} {file}\ntheme: light\nkeys:\n  accept: [a, f2]\n  mark-all: A\n  undo: []\n"), check)
	want := Settings{"myed +{line} {file}", "light", Keys{"accept": {"a", "f2"}, "mark-all": {"A"}, "undo": {}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for text, want := range map[string]string{
		"kees: {}":                            `t.yaml:1: unknown key "kees"; did you mean keys?`,
		"theme: mauve":                        `t.yaml:1: wrong theme`,
		"editor: 'x'\neditor: y":              "t.yaml:2: editor is set twice",
		"editor: 'x":                          "t.yaml:1:9:",
		"editor: x +{line}":                   `t.yaml:1: editor: "x +{line}" has no {file}`,
		"editor: [x]":                         "t.yaml:1: editor: want text",
		"keys:\n  acept: a":                   `t.yaml:2: keys: unknown action "acept"; did you mean accept?`,
		"keys:\n  mark: f2\n  accept: d":      "t.yaml:3: keys: accept: the key d does remove already",
		"keys:\n  mark: f2\n  accept: f2":     "t.yaml:2: keys: mark: the key f2 does accept already",
		"keys:\n  mark: f2\n  mark: f3":       "t.yaml:3: mark is set twice",
		"keys:\n  mark:\n  - f2\n  - hyper+1": `t.yaml:2: keys: mark: "hyper+1" is no key`,
		"keys:\n  mark: {a: b}":               "t.yaml:2: mark: want a key or a list of keys",
		"keys: [a]":                           "t.yaml:1: want keys with values",
		"- a":                                 "t.yaml:1: want keys with values",
	} {
		if _, err := ParseSettings("t.yaml", []byte(text), check); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}
