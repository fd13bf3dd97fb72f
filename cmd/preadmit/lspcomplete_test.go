//go:build linux

package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// completed asks for completions at the mark ¦ of a text. It returns the names, and the text with the first of them.
func (e *editor) completed(name string, version int, marked string) (names []string, text string) {
	e.t.Helper()
	before, after, _ := strings.Cut(marked, "¦")
	e.change(name, version, before+after)
	lines := strings.Split(before+after, "\n")
	s := spot{name, strings.Count(before, "\n"), len(before) - strings.LastIndexByte(before, '\n') - 1}
	var items []struct {
		Label    string
		TextEdit struct {
			NewText string
			Range   struct{ Start, End struct{ Line, Character int } }
		}
	}
	rendertest.OK(e.t, json.Unmarshal(e.ask("textDocument/completion", e.at(s)), &items))
	for i, c := range items {
		names = append(names, c.Label)
		if r := c.TextEdit.Range; i == 0 {
			if r.End.Line != s.line || r.End.Character != s.column || r.Start.Line != s.line {
				e.t.Errorf("%s: edits %v", before, r)
			}
			lines[s.line] = lines[s.line][:r.Start.Character] + c.TextEdit.NewText + lines[s.line][r.End.Character:]
		}
	}
	return names, strings.Join(lines, "\n")
}

// TestLSPCompletes types expressions in scalars of all styles, in policies and in a definition, and follows a type
// error from the keystroke that makes it to its correction.
func TestLSPCompletes(t *testing.T) {
	t.Parallel()
	e := newEditor(t, shopCopy(t))
	e.until(lspPatch, lspDenied)
	const name, rule = "policies/replicas.yaml", "object.spec.replicas <= params.spec.max"
	saved := string(rendertest.ReadFile(t, filepath.Join(e.dir, name)))
	e.open(name, saved)
	version := 1
	try := func(text, typed, want, edited string) {
		t.Helper()
		version++
		names, after := e.completed(name, version, text)
		for _, n := range strings.Fields(want) {
			if !slices.Contains(names, n) {
				t.Errorf("%s: %q, want %s", typed, names, n)
			}
		}
		if want == "" && len(names) > 0 || !strings.Contains(after, edited) {
			t.Errorf("%s: %q, %s", typed, names, after)
		}
	}
	for _, style := range []string{"%s", "'%s'", `"%s"`, ">-\n      true &&\n      %s", "|\n      true &&\n\n      %s\n"} {
		for _, c := range []struct{ typed, want, edited string }{
			{"object.¦", "apiVersion kind metadata spec status", "object.apiVersion"},
			{"object.spec.template.spec.containers.all(c, c.¦)", "image name ports", "all(c, c.args)"},
			{"object.spec.template.spec.containers.all(c, c.na¦", "image name ports", "all(c, c.args"},
			{"params.spec.¦ > 1", "max", "params.spec.max > 1"},
			{"object.metadata.labels.¦", "all size exists", ""},
			{"ob¦", "object oldObject params request size quantity", ""},
			{"object.nothing.¦", "", ""},
		} {
			try(strings.Replace(saved, rule, strings.Replace(style, "%s", c.typed, 1), 1), style+c.typed, c.want, c.edited)
		}
	}
	for _, c := range []struct{ was, typed, want string }{
		{"expression: " + rule, "expression: ¦", "object params"},
		{"name: max-replicas", "name: max-replicas.¦", ""},
		{"              max:\n", "              limits: {type: object, x-kubernetes-validations: [{rule: self.¦}], properties: {a-b: {type: string}}}\n              max:\n", "a__dash__b"},
		{"kind: ReplicaLimit\n  matchConstraints", "kind: ReplicaLimit\n  variables: [{name: all, expression: object.spec.template.spec.containers}, {name: one, expression: 'variables.all[0].¦'}]\n  matchConstraints", "image"},
	} {
		text := strings.Replace(saved, c.was, c.typed, 1)
		if text == saved {
			t.Fatalf("%q is not there", c.was)
		}
		try(text, c.typed, c.want, "")
	}
	saved = "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\nmetadata: {name: mine}\nspec:\n" +
		"  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n  validations:\n  - expression: object.spec.¦\n"
	try(saved, "Kyverno", "containers volumes", "")

	wrong := strings.Replace(string(rendertest.ReadFile(t, filepath.Join(e.dir, name))), rule, "object.spec.replcas <= params.spec.max", 1)
	e.change(name, version+1, wrong)
	for shown := ""; !strings.Contains(shown, `there is no field "replcas"`); shown = strings.Join(e.shown[name], "\n") {
		e.next()
	}
	e.change(name, version+2, strings.Replace(wrong, "replcas", "replicas", 1))
	for strings.Contains(strings.Join(e.shown[name], "\n"), "replcas") {
		e.next()
	}
	e.quit()
}
