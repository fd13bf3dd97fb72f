//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// outputOf returns what a command prints about a directory, and decodes it.
func outputOf(t *testing.T, dir string, to any, args ...string) {
	t.Helper()
	cmd := exec.Command("preadmit", args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir())
	data, err := cmd.Output()
	if len(data) == 0 {
		t.Fatal(err)
	}
	rendertest.OK(t, json.Unmarshal(data, to))
}

// writeArchive writes the files of a txtar archive to a directory.
func writeArchive(t *testing.T, dir, archive string) {
	t.Helper()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		rendertest.WriteFile(t, filepath.Join(dir, f.Name), string(f.Data))
	}
}

// A spot is the start of a value.
type spot struct {
	file         string
	line, column int // from 0, in code points
}

func spotOf(s render.Span) spot { return spot{s.File, s.Line - 1, s.Column - 1} }

func (e *editor) at(s spot) object {
	return object{"textDocument": object{"uri": e.uri(s.file)}, "position": object{"line": s.line, "character": s.column}, "context": object{}}
}

// locations asks for places, and returns them as FILE:LINE from 0, sorted.
func (e *editor) locations(method string, s spot) []string {
	e.t.Helper()
	var found []struct {
		URI   string
		Range struct{ Start struct{ Line, Character int } }
	}
	rendertest.OK(e.t, json.Unmarshal(e.ask(method, e.at(s)), &found))
	all := make(map[string]bool)
	for _, at := range found {
		all[fmt.Sprintf("%s:%d", strings.TrimPrefix(at.URI, e.uri("")+"/"), at.Range.Start.Line)] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// TestLSPUses holds hover and definition against render --origins: at the start of each value that
// determines a field, hover shows the field with the value that is rendered there, and no value of a
// Secret, and definition leads to the other lines that determine it.
func TestLSPUses(t *testing.T) {
	t.Parallel()
	for _, repo := range []string{"shop", "argocd", "flux"} {
		t.Run(repo, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			rendertest.OK(t, os.CopyFS(dir, os.DirFS("../../testdata/repos/"+repo)))
			rendertest.OK(t, os.Mkdir(filepath.Join(dir, ".git"), 0o755))
			e := newEditor(t, dir)
			(&workshop{t: t, dir: dir, open: make(map[string]string)}).show(e, 0)
			var objects []struct {
				Unit   string
				Object map[string]any
				Fields map[string][]render.Origin
			}
			outputOf(t, dir, &objects, "render", "--origins", "-o", "json")
			becomes, others := make(map[spot][]string), make(map[spot]map[string]bool)
			secrets := 0
			for _, o := range objects {
				for pointer, origins := range o.Fields {
					v, _ := render.Lookup(o.Object, pointer)
					shown := "`" + pointer
					if o.Object["kind"] == "Secret" {
						shown += "`"
						secrets++
					} else if value, err := yaml.Marshal(v); err == nil && len(value) < 100 && bytes.Count(value, []byte("\n")) == 1 {
						shown += ": " + strings.TrimSpace(string(value)) + "`"
					}
					at := make(map[spot]bool)
					for _, x := range origins {
						if s := spotOf(x.Span); x.Line > 0 && x.Role != render.Reference {
							at[s] = true
						}
					}
					for s := range at {
						becomes[s] = append(becomes[s], shown)
						if others[s] == nil {
							others[s] = make(map[string]bool)
						}
						for _, x := range origins {
							if name := fmt.Sprintf("%s:%d", x.File, max(x.Line, 1)-1); name != fmt.Sprintf("%s:%d", s.file, s.line) && !strings.HasPrefix(name, "../") {
								others[s][name] = true
							}
						}
					}
				}
			}
			checked := 0
			for _, s := range slices.SortedFunc(maps.Keys(becomes), func(a, b spot) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
				if checked++; len(becomes) > 400 && checked%3 > 0 {
					continue
				}
				var hover struct{ Contents struct{ Value string } }
				rendertest.OK(t, json.Unmarshal(e.ask("textDocument/hover", e.at(s)), &hover))
				text := hover.Contents.Value
				if !strings.Contains(text, "becomes `") {
					t.Errorf("%v: %q, want %q", s, text, becomes[s])
					continue
				}
				if len(becomes[s]) <= 5 {
					for _, want := range becomes[s] {
						if !strings.Contains(text, want) {
							t.Errorf("%v: %q, want %s", s, text, want)
						}
					}
				}
				for line := range strings.Lines(text) {
					if strings.Contains(line, "of Secret ") && strings.Contains(line, ": ") {
						t.Errorf("%v shows a value of a Secret: %s", s, line)
					}
				}
				led := e.locations("textDocument/definition", s)
				for want := range others[s] {
					if !slices.Contains(led, want) {
						t.Errorf("%v leads to %q, want %s", s, led, want)
					}
				}
			}
			t.Logf("%d places, %d fields of Secrets", len(becomes), secrets)
			if len(becomes) < 20 {
				t.Error("too few places to show anything")
			}
			e.quit()
		})
	}
}

// TestLSPUsesAreCovered holds that a value that a Secret holds is covered in other objects too, and that
// a hover in a text which is not evaluated yet shows nothing.
func TestLSPUsesAreCovered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeArchive(t, dir, `-- .git/HEAD --
-- chart/Chart.yaml --
{apiVersion: v2, name: c, version: 1.0.0}
-- chart/values.yaml --
password: hunter2
host: db
-- chart/templates/all.yaml --
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData:
  password: {{ .Values.password }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data:
  dsn: postgres://{{ .Values.password }}@{{ .Values.host }}
`)
	e := newEditor(t, dir)
	(&workshop{t: t, dir: dir, open: make(map[string]string)}).show(e, 0)
	for _, s := range []spot{{"chart/values.yaml", 0, 11}, {"chart/values.yaml", 1, 7}, {"chart/templates/all.yaml", 10, 10}} {
		text := string(e.ask("textDocument/hover", e.at(s)))
		if !strings.Contains(text, "`/data/dsn: postgres://…@db` of ConfigMap c (unit chart)") || strings.Contains(text, "hunter2") {
			t.Errorf("%v: %s", s, text)
		}
	}
	e.open("chart/values.yaml", "password: hunter2\nhost: db2\n")
	if text := string(e.ask("textDocument/hover", e.at(spot{"chart/values.yaml", 1, 7}))); strings.Contains(text, "@db`") {
		t.Errorf("before the text is evaluated: %s", text)
	}
	e.quit()
}

// TestLSPMatches holds references against the JSON report: the line of a policy's name leads to the objects that
// any of its rules matched, and the line of a rule to those that this rule matched.
func TestLSPMatches(t *testing.T) {
	t.Parallel()
	e := newEditor(t, shopCopy(t))
	e.until(lspPatch, lspDenied)
	var report struct {
		Rules []struct {
			Policy, Rule string
			PolicyOrigin render.Span
		}
		Results []struct {
			Policy, Rule string
			Origins      []render.Origin
		}
	}
	outputOf(t, e.dir, &report, "check", "-o", "json")
	want := make(map[spot]map[string]bool)
	for _, x := range report.Results {
		for _, rule := range report.Rules {
			if rule.Policy == x.Policy && rule.Rule == x.Rule && strings.HasPrefix(rule.PolicyOrigin.File, "policies/") && len(x.Origins) > 0 {
				s := spotOf(rule.PolicyOrigin)
				if want[s] == nil {
					want[s] = make(map[string]bool)
				}
				want[s][fmt.Sprintf("%s:%d", x.Origins[0].File, max(x.Origins[0].Line, 1)-1)] = true
			}
		}
	}
	if len(want) < 5 {
		t.Fatalf("too few rules: %v", want)
	}
	for s, places := range want {
		if got := e.locations("textDocument/references", s); !slices.Equal(got, slices.Sorted(maps.Keys(places))) {
			t.Errorf("%v: %q, want %q", s, got, slices.Sorted(maps.Keys(places)))
		}
	}
	named := e.locations("textDocument/references", spot{"policies/replicas.yaml", 4, 8})
	if rule := e.locations("textDocument/references", spot{"policies/replicas.yaml", 17, 16}); len(named) == 0 || !slices.Equal(named, rule) {
		t.Errorf("the policy %q and its only rule %q", named, rule)
	}
	e.quit()
}

// TestLSPInspects holds the warnings in open policies against the command policies, before and after an
// edit, and that they are shown for open files only.
func TestLSPInspects(t *testing.T) {
	t.Parallel()
	e := newEditor(t, shopCopy(t))
	e.until(lspPatch, lspDenied)
	names := []string{"policies/replicas.yaml", "policies/team.yaml"}
	texts := make(map[string]string)
	for _, name := range names {
		texts[name] = string(rendertest.ReadFile(t, filepath.Join(e.dir, name)))
	}
	compare := func() {
		t.Helper()
		var found struct {
			Findings []struct {
				Policy, Rule string
				Engine       string
				PolicyOrigin render.Span
			}
		}
		outputOf(t, e.dir, &found, "policies", "-o", "json")
		for _, name := range names {
			want := make(map[string]bool)
			for _, f := range found.Findings {
				if f.PolicyOrigin.File == name && f.Engine == "Policies" {
					want[fmt.Sprintf("%d:%d %s/%s", f.PolicyOrigin.Line-1, f.PolicyOrigin.Column-1, f.Policy, f.Rule)] = true
				}
			}
			for got := ""; got != fmt.Sprint(want); e.next() {
				shown := make(map[string]bool)
				for _, d := range e.shown[name] {
					at, rest, _ := strings.Cut(d, "-")
					_, code, _ := strings.Cut(rest, " ")
					_, code, _ = strings.Cut(code, " ")
					code, _, _ = strings.Cut(code, ":")
					shown[at+" "+code] = true
				}
				if got = fmt.Sprint(shown); got == fmt.Sprint(want) {
					break
				}
			}
		}
	}
	for _, name := range names {
		e.open(name, texts[name])
	}
	compare()
	text := strings.ReplaceAll(texts[names[0]], "object.spec.replicas <= params.spec.max", "true || object.spec.replicas <= params.spec.max")
	if text == texts[names[0]] {
		t.Fatal("nothing is edited")
	}
	e.change(names[0], 2, "# a line more\n"+text)
	e.write(names[0], "# a line more\n"+text)
	compare()
	if !strings.Contains(fmt.Sprint(e.shown[names[0]]), "never-fails") {
		t.Errorf("%q", e.shown[names[0]])
	}
	e.notify("textDocument/didSave", object{"textDocument": object{"uri": e.uri(names[0])}}) // nothing is evaluated then
	time.Sleep(2 * time.Second)
	e.ask("textDocument/hover", e.at(spot{names[0], 0, 0}))
	if compare(); len(e.said) > 0 {
		t.Errorf("%q", e.said)
	}
	e.notify("textDocument/didClose", object{"textDocument": object{"uri": e.uri(names[0])}})
	e.until(names[0])
	e.quit()
}

// TestLSPSettings holds that settings of the editor do what the flags of the same names do, whichever way
// they come, that they win over the repository's configuration, and that wrong ones are messages.
func TestLSPSettings(t *testing.T) {
	t.Parallel()
	dir := shopCopy(t)
	outside := filepath.Join(t.TempDir(), "mine.yaml")
	rendertest.WriteFile(t, outside, strings.NewReplacer("max-replicas", "mine", "<= params.spec.max", "<= 1", "  paramKind:\n    apiVersion: policies.shop.example/v1\n    kind: ReplicaLimit\n", "").Replace(firstPolicy(t, dir)))
	rendertest.WriteFile(t, filepath.Join(dir, ".preadmit/config.yaml"), "pack: [pod-security-baseline]\nnamespace: configured\n")
	commitFiles(t, dir)
	e := newEditor(t, dir)
	shown := func(e *editor, n int) string {
		w := &workshop{t: t, dir: dir, open: map[string]string{}}
		if n > 0 {
			w.open[tick] = "open"
		}
		w.show(e, n)
		return lines(e.shown)
	}
	shown(e, 0)
	for i, c := range []struct {
		settings object
		flags    []string
	}{
		{object{"pack": "pod-security-restricted"}, []string{"--pack", "pod-security-restricted"}},
		{object{"policy": []string{outside}, "kube-version": json.Number("1.30"), "no-tree-policies": true}, []string{"-p", outside, "--kube-version", "1.30", "--no-tree-policies"}},
		{object{"with": []string{"infra/namespaces.yaml"}, "exclude": []string{"infra/**"}, "fail-on": "warn"}, []string{"--with", filepath.Join(dir, "infra/namespaces.yaml"), "--exclude", "infra/**", "--fail-on", "warn"}},
		{object{"base": "HEAD"}, []string{"--base", "HEAD"}},
		{object{}, nil},
	} {
		e.notify("workspace/didChangeConfiguration", object{"settings": object{"preadmit": c.settings, "other": 1}})
		got := shown(e, i+1)
		fresh := newEditor(t, dir, c.flags...)
		want := shown(fresh, 0)
		fresh.quit()
		if want = strings.ReplaceAll(want, "tick0", fmt.Sprintf("tick%d", i+1)); got != want {
			t.Errorf("%v shows\n%s\nand %q\n%s", c.settings, got, c.flags, want)
		}
	}
	for settings, want := range map[string]string{
		`{"preadmit": {"pakc": []}}`:          `unknown key "pakc"; did you mean pack?`,
		`{"preadmit": {"nope": 1}}`:           `unknown key "nope"`,
		`{"preadmit": {"clusters": []}}`:      "clusters is about the repository, so it belongs to .preadmit/config.yaml",
		`{"preadmit": {"policy": "../x"}}`:    `policy: "../x" leads out of the repository`,
		`{"preadmit": {"kube-version": "1"}}`: `kube-version: "1" is not a Kubernetes version`,
		`{"preadmit": {"config": "x.yaml"}}`:  `unknown key "config"`,
		`[]`:                                  "settings are an object",
	} {
		e.said = nil
		e.notify("workspace/didChangeConfiguration", object{"settings": json.RawMessage(settings)})
		e.untilSaid(want)
	}
	e.notify("workspace/didChangeConfiguration", object{"settings": object{"preadmit": object{}}})
	e.write(".preadmit/config.yaml", "editor-settings: '{}'\n")
	e.untilSaid(`unknown key "editor-settings"`)
	e.quit()
}

// TestLSPFolders holds that a server with folders of several repositories shows in each what a server for
// this one alone shows, also when folders come and go. Paths of flags are relative to each folder.
func TestLSPFolders(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	rendertest.OK(t, err)
	names := []string{"one", "two", "three"}
	for i, name := range names {
		rendertest.OK(t, os.CopyFS(filepath.Join(dir, name), os.DirFS("../../testdata/repos/shop")))
		rendertest.OK(t, os.Mkdir(filepath.Join(dir, name, ".git"), 0o755))
		patch := filepath.Join(dir, name, lspPatch)
		rendertest.WriteFile(t, patch, strings.Repeat("# a line\n", i)+string(rendertest.ReadFile(t, patch)))
	}
	flags := []string{"lsp", "--pack", "pod-security-restricted", "--with", "infra/namespaces.yaml"}
	alone := func(name string) map[string][]string {
		e := startEditor(t, filepath.Join(dir, name), exec.Command("preadmit", flags...))
		w := &workshop{t: t, dir: e.dir, open: make(map[string]string)}
		w.show(e, 0)
		e.quit()
		delete(e.shown, tick)
		all := make(map[string][]string)
		for file, d := range e.shown {
			all[name+"/"+file] = d
		}
		return all
	}
	e := startEditor(t, dir, exec.Command("preadmit", flags...), "one", "two", "two/infra")
	want := alone("one")
	maps.Copy(want, alone("two"))
	until := func() {
		t.Helper()
		for fmt.Sprint(e.shown) != fmt.Sprint(want) {
			e.next()
			maps.DeleteFunc(e.shown, func(_ string, d []string) bool { return len(d) == 0 })
		}
	}
	until()
	at := spot{"two/" + lspPatch, 14, 9}
	if text := string(e.ask("textDocument/hover", e.at(at))); !strings.Contains(text, "becomes `/spec/replicas: 12`") {
		t.Error(text)
	}
	if led := e.locations("textDocument/definition", at); !slices.Contains(led, "two/policies/replicas.yaml:17") {
		t.Error(led)
	}
	e.notify("workspace/didChangeWorkspaceFolders", object{"event": object{
		"added": []object{{"uri": e.uri("three"), "name": ""}}, "removed": []object{{"uri": e.uri("one"), "name": ""}},
	}})
	want = alone("two")
	maps.Copy(want, alone("three"))
	until()
	e.quit()
}

// firstPolicy returns the first policy of the shop, with its binding.
func firstPolicy(t *testing.T, dir string) string {
	t.Helper()
	parts := strings.Split(string(rendertest.ReadFile(t, filepath.Join(dir, "policies/replicas.yaml"))), "---\n")
	return parts[0] + "---\n" + strings.Replace(parts[1], "  paramRef:\n    name: default\n    parameterNotFoundAction: Deny\n", "", 1)
}

// TestLSPByproducts holds that what editors write beside an open file is no document, be it a manifest, a
// part of a kustomization or a template, and that files which are open but were never saved are
// documents, also in directories that do not exist yet.
func TestLSPByproducts(t *testing.T) {
	t.Parallel()
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {hostNetwork: true, containers: [{name: a, image: a}]}\n"
	dir := t.TempDir()
	writeArchive(t, dir, `-- .git/HEAD --
-- .preadmit/config.yaml --
pack: [pod-security-baseline]
-- plain/x.yaml --
`+pod+`-- chart/Chart.yaml --
{apiVersion: v2, name: c, version: 1.0.0}
-- chart/templates/x.yaml --
`+pod+`-- overlay/kustomization.yaml --
resources: [x.yaml]
-- overlay/x.yaml --
`+pod)
	e := newEditor(t, dir)
	w := &workshop{t: t, dir: dir, open: make(map[string]string)}
	w.show(e, 0)
	dirs := []string{"plain", "chart/templates", "overlay"}
	for _, d := range dirs {
		e.open(d+"/x.yaml", pod)
	}
	w.show(e, 1)
	delete(e.shown, tick)
	want := lines(e.shown)
	if strings.Count(want, "hostNamespaces") != 3 {
		t.Fatal(want)
	}
	for i, name := range []string{"#x.yaml#", "x.yaml~", "x.yaml.~2~", ".x.yaml.swp", ".x.yaml.swo", ".x.yaml.un~", "4913", "x.yaml___jb_tmp___", "x.yaml___jb_old___", "x.yaml.vsctmp", ".#x.yaml"} {
		for _, d := range dirs {
			file := filepath.Join(dir, d, name)
			switch name {
			case ".#x.yaml":
				rendertest.OK(t, os.Symlink("me@host.example.4711:1700000000", file))
			case "4913":
				rendertest.WriteFile(t, file, "")
			default:
				rendertest.WriteFile(t, file, strings.ReplaceAll(pod, "{name: x}", "{name: x"+strconv.Itoa(i)+"}"))
			}
		}
		w.show(e, i+2)
		delete(e.shown, tick)
		if got := lines(e.shown); got != want {
			t.Errorf("with %s\n%s\nwant\n%s", name, got, want)
		}
	}
	e.notify("textDocument/didClose", object{"textDocument": object{"uri": e.uri("plain/x.yaml")}})
	for !strings.Contains(lines(e.shown), "dangling-link") { // nobody has the file open, so it is judged
		e.next()
	}
	for _, name := range []string{"plain/new.yaml", "later/on/new.yaml", "chart/templates/new.yaml"} {
		e.open(name, pod)
		for !strings.Contains(fmt.Sprint(e.shown[name]), "baseline/hostNamespaces") {
			e.next()
		}
	}
	e.quit()
}
