package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report"
)

// TestInit holds that init's file changes nothing but what it says: everything that counts without
// the file counts with it. Each suggestion is accepted too, or refused for an empty value that a
// person must fill in.
func TestInit(t *testing.T) {
	t.Parallel()
	repos, err := filepath.Glob("../../testdata/repos/*")
	rendertest.OK(t, err)
	for _, name := range []string{"flux2-kustomize-helm-example", "govuk-helm-charts", "podinfo"} {
		repo := filepath.Join("../../../shared/repos", name)
		if _, err := os.Stat(repo); err == nil {
			repos = append(repos, repo)
		} else {
			t.Logf("%s is not here: init is not tried with it", repo)
		}
	}
	for _, repo := range repos {
		t.Run(filepath.Base(repo), func(t *testing.T) {
			t.Parallel()
			holdInit(t, repo)
		})
	}
}

// TestInitHostile holds the same for names that look like lines of the file, that screens show as
// others, or that YAML and globs take for something else.
func TestInitHostile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such names")
	}
	pod := func(name string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: " + name + "}, spec: {containers: [{name: a, image: 'a:1', securityContext: {privileged: true}}]}}\n"
	}
	files := map[string]string{
		"root.yaml":                            "{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: root}, spec: {destination: {name: in-cluster}, source: {path: apps, repoURL: \"https://a/deploy\\nfail-on: never\"}}}\n",
		"apps/sets.yaml":                       "{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, metadata: {name: \"x\\nexclude: ['**']\"}, spec: {generators: [{pullRequest: {}}, {clusters: {selector: {matchLabels: {a: b}}}}], template: {metadata: {name: \"\\u202e{{number}}\"}, spec: {}}}}\n",
		".hidden\u2028fail-on: never/pod.yaml": pod("a"),
		"q\u0085#policy: x/p.rego":             "package main\n",
	}
	for i, name := range []string{"a\nfail-on: never\n#", "b\u202eyaml.", "[x]", "*", "c: d", "true", "- e", "#f", "'", "\"", "g\\", "é", "~", "123", "a, b]", "\r\texclude"} {
		files[name+"/pod.yaml"] = pod(fmt.Sprintf("p%d", i))
		chart := name + "/chart" + name
		files[chart+"/Chart.yaml"], files[chart+"/values-prod.yaml"] = "{apiVersion: v2, name: c, version: 1.0.0}\n", "a: 1\n"
		files[chart+"/templates/a.yaml"] = pod(fmt.Sprintf("c%d", i))
	}
	dir := t.TempDir()
	for name, text := range files {
		rendertest.OK(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o777))
		rendertest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	t.Run("followed", func(t *testing.T) { holdInit(t, dir) })
	rendertest.OK(t, os.Remove(filepath.Join(dir, "root.yaml")))
	rendertest.OK(t, os.RemoveAll(filepath.Join(dir, "apps")))
	t.Run("by paths", func(t *testing.T) { holdInit(t, dir) })
}

func holdInit(t *testing.T, repo string) {
	dir := t.TempDir()
	rendertest.OK(t, os.CopyFS(dir, os.DirFS(repo)))
	file := filepath.Join(dir, filepath.FromSlash(configFile))
	rendertest.OK(t, os.RemoveAll(file))
	_, err := gittest.Init(dir)
	rendertest.OK(t, err)
	rendertest.OK(t, os.WriteFile(filepath.Join(dir, ".git/config"), []byte("[remote \"origin\"]\n\turl = https://git.shop.example/fork/deploy.git\n"), 0o666))
	check := func() (int, map[string]bool) {
		code, out, errs := ran(t, "check", dir, "-o", "json")
		if code == exitUsage {
			t.Fatalf("check refuses the file: %s\n%s", errs, read(t, file))
		}
		r, err := report.Read(strings.NewReader(out))
		rendertest.OK(t, err)
		counts := make(map[string]bool)
		for _, x := range r.Results {
			if !x.Unreached && (x.Undecided() || x.Outcome == policy.Fail && x.Action == policy.Deny) {
				counts[x.Fingerprint] = true
			}
		}
		return code, counts
	}
	before, counted := check()
	if code, _, errs := ran(t, "init", dir); code != exitOK {
		t.Fatalf("init: exit code %d: %s", code, errs)
	}
	text := read(t, file)
	if code, _, errs := ran(t, "init", dir); code != exitUsage || !strings.Contains(errs, "is there already") || read(t, file) != text {
		t.Errorf("init again: exit code %d: %s", code, errs)
	}
	for _, line := range strings.Split(text, "\n") {
		if !fileLine.MatchString(line) || report.Plain(line) != line {
			t.Errorf("a line is %q", line)
		}
	}
	node, err := config.Parse(configFile, []byte(text))
	rendertest.OK(t, err)
	if node != nil {
		rendertest.OK(t, new(config.File).Decode(node))
	}
	after, still := check()
	if after != before || !maps.Equal(counted, still) {
		t.Errorf("exit code %d became %d, %v became %v with\n%s", before, after, counted, still, text)
	}
	for _, block := range strings.Split(text, "\n\n")[1:] {
		used := suggestion.ReplaceAllString(block, "$1")
		if used == block {
			continue
		}
		for _, given := range regexp.MustCompile(`(?m)^- (\.preadmit/.*)$`).FindAllStringSubmatch(used, -1) {
			rendertest.OK(t, os.WriteFile(filepath.Join(dir, given[1]), []byte("{apiVersion: v1, kind: List, items: []}\n"), 0o666))
		}
		rendertest.OK(t, os.WriteFile(file, []byte(strings.Replace(text, block, used, 1)), 0o666))
		code, _, errs := ran(t, "check", dir, "-o", "json")
		empty := regexp.MustCompile(`(?m)^[ -]+[a-z-]+:$`).MatchString(used)
		if empty != (code == exitUsage) || empty && !strings.Contains(errs, "want a ") {
			t.Errorf("exit code %d: %s with\n%s", code, errs, used)
		}
	}
	rendertest.OK(t, os.RemoveAll(filepath.Dir(file)))
	if ran(t, "init", dir); read(t, file) != text {
		t.Errorf("another run writes another file:\n%s\nfirst:\n%s", read(t, file), text)
	}
}

// fileLine matches each line of the file: a comment or a suggestion.
var fileLine = regexp.MustCompile(`^(# \S.*|#- .*|#  \S.*|#[a-z-]+:.*|)$`)

// suggestion matches the # of a line that is no comment.
var suggestion = regexp.MustCompile(`(?m)^#([^ ]|  )`)

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	rendertest.OK(t, err)
	return string(data)
}
