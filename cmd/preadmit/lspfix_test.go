package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/tools/txtar"

	"github.com/preadmit/preadmit/render/rendertest"
)

// fixTree has findings in manifests, in the values of a chart and in a patch.
const fixTree = `-- .git/HEAD --
ref: refs/heads/main
-- pod.yaml --
# first
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: b}
spec:
  hostNetwork: true # why?
  containers:
  - name: a
    image: a:1
  - {name: b, image: "b:1", env: [{name: E, value: "😀é"}], securityContext: {privileged: true}} # 😀
  - name: c # the end
    image: c:1
-- two.yaml --
{apiVersion: v1, kind: Pod, metadata: {name: e}, spec: {containers: [{name: "😀", image: e}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: f}, spec: {containers: [{name: f, image: f}]}}
-- chart/Chart.yaml --
apiVersion: v2
name: c
version: 1.0.0
-- chart/values.yaml --
podSecurityContext: {} # empty
securityContext:
  readOnlyRootFilesystem: true
-- chart/templates/d.yaml --
apiVersion: v1
kind: Pod
metadata: {name: c}
spec:
  securityContext:
    {{- toYaml .Values.podSecurityContext | nindent 4 }}
  containers:
  - name: c
    image: c:1
    securityContext:
      {{- toYaml .Values.securityContext | nindent 6 }}
-- base/kustomization.yaml --
resources: [deployment.yaml]
-- base/deployment.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  selector: {matchLabels: {a: d}}
  template:
    metadata: {labels: {a: d}}
    spec:
      containers:
      - {name: d, image: "d:1"}
-- overlay/kustomization.yaml --
resources: [../base]
patches: [{path: patch.yaml}]
-- overlay/patch.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  template:
    spec:
      containers:
      - name: d
        securityContext:
          privileged: true # for now
`

// fixFlags select the policies of the tests of fixes.
var fixFlags = []string{"--no-cache", "--pack", "pod-security-restricted"}

func writeTree(t *testing.T, dir string, change func(string) string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, f := range txtar.Parse([]byte(fixTree)).Files {
		texts[f.Name] = change(string(f.Data))
		rendertest.WriteFile(t, filepath.Join(dir, filepath.FromSlash(f.Name)), texts[f.Name])
	}
	return texts
}

// failures returns how many failures check finds in a directory, by rule, object and unit.
func failures(t *testing.T, dir string) map[string]int {
	t.Helper()
	cmd := exec.Command("preadmit", append([]string{"check", "-o", "json"}, fixFlags...)...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var r struct {
		Results []struct {
			Policy, Rule, Outcome string
			Object                any
		}
	}
	if json.Unmarshal(out, &r) != nil {
		t.Fatalf("check: %v: %s", err, out)
	}
	all := make(map[string]int)
	for _, x := range r.Results {
		if x.Outcome != "pass" && x.Outcome != "skip" {
			all[fmt.Sprint(x.Policy, "/", x.Rule, " ", x.Object)]++
		}
	}
	return all
}

// copiedTree writes the files of a tree, some of them changed, and returns the directory.
func copiedTree(t *testing.T, texts, changed map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, all := range []map[string]string{texts, changed} {
		for name, text := range all {
			rendertest.WriteFile(t, filepath.Join(dir, filepath.FromSlash(name)), text)
		}
	}
	return dir
}

// removed returns how many failures of a rule a change of files removes from those before. It is an
// error if the change makes anything else fail, or adds other line ends.
func removed(t *testing.T, texts, changed map[string]string, before map[string]int, rule string) (n int) {
	t.Helper()
	for name, text := range changed {
		if strings.Contains(texts[name], "\r\n") && strings.Count(text, "\n") != strings.Count(text, "\r\n") {
			t.Errorf("other line ends in %s: %q", name, text)
		}
	}
	after := failures(t, copiedTree(t, texts, changed))
	for what, was := range before {
		if strings.HasPrefix(what, rule+" ") {
			n += was - after[what]
		}
	}
	for what := range after {
		if before[what] == 0 {
			t.Errorf("a fix of %s: new failure %s: %v", rule, what, changed)
		}
	}
	return n
}

type lspAction struct {
	Title, Kind string
	IsPreferred bool
	Diagnostics []struct{ Code string }
	Edit        struct {
		DocumentChanges []struct {
			TextDocument struct {
				URI     string
				Version *int
			}
			Edits []lspEdit
		}
	}
}

type lspEdit struct {
	Range struct {
		Start, End struct{ Line, Character int }
	}
	NewText string
}

// fixesAt returns the quick fixes that are offered for a line.
func (e *editor) fixesAt(name string, line int) []lspAction {
	e.t.Helper()
	at := object{"line": line, "character": 0}
	data := e.ask("textDocument/codeAction", object{"textDocument": object{"uri": e.uri(name)}, "range": object{"start": at, "end": at}, "context": object{"diagnostics": []object{}, "only": []string{"quickfix.fix"}}})
	var all []lspAction
	rendertest.OK(e.t, json.Unmarshal(data, &all))
	return all
}

// applied returns a text with an edit, as an editor makes it: characters are units of UTF-16.
func (x *lspEdit) applied(text string) string {
	lines := strings.SplitAfter(text, "\n")
	offset := func(line, character int) int {
		return len(strings.Join(lines[:line], "")) + len(string(utf16.Decode(utf16.Encode([]rune(lines[line]))[:character])))
	}
	return text[:offset(x.Range.Start.Line, x.Range.Start.Character)] + x.NewText + text[offset(x.Range.End.Line, x.Range.End.Character):]
}

// TestLSPFixes makes each offered fix of each finding in a copy of the tree, and checks the copy: the
// finding is gone, and nothing else fails. A file is open with other text than on disk.
func TestLSPFixes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(string) string{
		"lf":   func(s string) string { return s },
		"crlf": func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEditor(t, t.TempDir(), fixFlags...)
			texts := writeTree(t, e.dir, change)
			texts["pod.yaml"] = change("# 😀 not saved\n") + texts["pod.yaml"]
			e.open("pod.yaml", texts["pod.yaml"])
			for len(e.shown) < 5 || strings.HasPrefix(e.shown["pod.yaml"][0], "5:") {
				e.next()
			}
			before, offered, files := failures(t, copiedTree(t, texts, nil)), make(map[string]int), make(map[string]bool)
			for file, found := range e.shown {
				var lines []int
				for _, d := range found {
					var line int
					fmt.Sscanf(d, "%d:", &line)
					lines = append(lines, line)
				}
				slices.Sort(lines)
				for _, line := range slices.Compact(lines) {
					for _, a := range e.fixesAt(file, line) {
						offered[a.Title]++
						changed := make(map[string]string)
						for _, c := range a.Edit.DocumentChanges {
							name := strings.TrimPrefix(c.TextDocument.URI, e.uri("")+"/")
							if open := c.TextDocument.Version != nil; open != (name == "pod.yaml") {
								t.Errorf("%s: the edit of %s is of the wrong version", a.Title, name)
							}
							files[name] = true
							changed[name] = texts[name]
							for _, x := range c.Edits {
								changed[name] = x.applied(changed[name])
							}
						}
						least := 1
						if strings.HasPrefix(a.Title, "Fix all 2 ") {
							least = 2
						}
						if n := removed(t, texts, changed, before, a.Diagnostics[0].Code); n < least {
							t.Errorf("%s at %s:%d removes %d findings of %s: %v", a.Title, file, line+1, n, a.Diagnostics[0].Code, changed)
						}
						if a.Kind != "quickfix.fix" || a.IsPreferred != strings.HasSuffix(a.Title, " (safe)") {
							t.Errorf("%s: preferred %v", a.Title, a.IsPreferred)
						}
					}
				}
			}
			for _, want := range []string{"pod.yaml", "chart/values.yaml", "base/deployment.yaml", "overlay/patch.yaml"} {
				if !files[want] {
					t.Errorf("no fix edits %s", want)
				}
			}
			for _, want := range []string{"Set allowPrivilegeEscalation: false (safe)", "Remove hostNetwork (may change what runs)", "Fix all 2 findings of restricted/seccompProfile_restricted in this file"} {
				if offered[want] == 0 {
					t.Errorf("%q is not offered", want)
				}
			}
			rendertest.OK(t, os.WriteFile(filepath.Join(e.dir, "chart/values.yaml"), nil, 0o644))
			if all := e.fixesAt("chart/values.yaml", 1); len(all) > 0 {
				t.Errorf("a file has changed on disk: %v", all)
			}
			e.quit()
		})
	}
}

// TestFixesInReports makes the fix of each result of SARIF in a copy of the tree, and checks the copy as
// TestLSPFixes does. The file is valid, and the JSON report holds all of it.
func TestFixesInReports(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(string) string{
		"lf":   func(s string) string { return s },
		"crlf": func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			texts := writeTree(t, dir, change)
			preadmit := func(args ...string) (string, error) {
				cmd := exec.Command("preadmit", args...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			out := t.TempDir()
			preadmit(append([]string{"check", "--fixes", "-o", "sarif=" + out + "/a.sarif", "-o", "json=" + out + "/a.json"}, fixFlags...)...)
			if problems, err := preadmit("verify", out+"/a.sarif"); err != nil {
				t.Errorf("verify: %v: %s", err, problems)
			}
			preadmit("convert", out+"/a.json", "-o", "sarif="+out+"/b.sarif")
			data := rendertest.ReadFile(t, out+"/a.sarif")
			rendertest.Equal(t, string(data), string(rendertest.ReadFile(t, out+"/b.sarif")))
			var log struct {
				Runs []struct {
					Results []struct {
						RuleID string
						Fixes  []struct {
							Description     struct{ Text string }
							ArtifactChanges []struct {
								ArtifactLocation struct{ URI string }
								Replacements     []struct {
									DeletedRegion   struct{ StartLine, StartColumn, EndLine, EndColumn int }
									InsertedContent struct{ Text string }
								}
							}
						}
					}
				}
			}
			rendertest.OK(t, json.Unmarshal(data, &log))
			before, files, without := failures(t, dir), make(map[string]bool), 0
			for _, r := range log.Runs[0].Results {
				if len(r.Fixes) == 0 {
					without++
				}
				for _, f := range r.Fixes {
					changed := make(map[string]string)
					for _, c := range f.ArtifactChanges {
						name := c.ArtifactLocation.URI
						files[name], changed[name] = true, texts[name]
						for _, x := range slices.Backward(c.Replacements) {
							lines := strings.SplitAfter(changed[name], "\n")
							offset := func(line, column int) int {
								return len(strings.Join(lines[:line-1], "")) + len(string([]rune(lines[line-1])[:column-1]))
							}
							at := x.DeletedRegion
							changed[name] = changed[name][:offset(at.StartLine, at.StartColumn)] + x.InsertedContent.Text + changed[name][offset(at.EndLine, at.EndColumn):]
						}
					}
					if removed(t, texts, changed, before, r.RuleID) == 0 {
						t.Errorf("%s does not remove %s: %v", f.Description.Text, r.RuleID, changed)
					}
				}
			}
			if len(files) != 5 || without != 3 { // containers that are privileged, and one with a wrong name
				t.Errorf("fixes edit %v, and %d results have none", files, without)
			}
		})
	}
}
