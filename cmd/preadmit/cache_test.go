package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestCacheChangesNothing edits repositories one step at a time. After each the
// reports have to be the same bytes without a cache, with what earlier steps
// left in one, and once more.
func TestCacheChangesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		repo  string
		args  []string
		steps int
	}{
		{"../../testdata/repos/shop", []string{"--pack", "best-practices", "--pack", "pod-security-restricted"}, 14},
		{"../../testdata/repos/shop", []string{"--base", "HEAD", "--pack", "best-practices"}, 14},
		{"../../testdata/repos/argocd", []string{"--base", "HEAD"}, 12},
		{"../../testdata/repos/flux", []string{"--base", "HEAD"}, 12},
		{"../../testdata/repos/shop", []string{"--as", "jane", "--authorizer", "rbac", "-v"}, 6},
		{"../../testdata/repos/broken", nil, 10},
		{"../../testdata/repos", nil, 3},
		{"../../testdata/repos/argocd", []string{"--pack", "best-practices"}, 16},
		{"../../testdata/repos/flux", []string{"--pack", "best-practices"}, 16},
		{"../../../shared/repos/podinfo", nil, 4},
		{"../../../shared/repos/flux2-kustomize-helm-example", []string{"--pack", "best-practices"}, 4},
	} {
		t.Run(filepath.Base(c.repo)+strings.Join(c.args, ""), func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat(c.repo); err != nil {
				t.Skip("not here: ", c.repo)
			}
			dir, kept := t.TempDir(), t.TempDir()
			copyRepository(t, c.repo, dir)
			random := rand.New(rand.NewPCG(6, uint64(len(c.args))))
			for i := range stepsOf(t, c.steps) {
				what := "as it is"
				if i%4 == 3 {
					merge(t, dir)
				}
				if i > 0 {
					what = edit(t, dir, random)
				}
				args := append([]string{"check", dir, "-j", strconv.Itoa(1 + i%2)}, c.args...)
				want := reports(t, append(args, "--no-cache")...)
				for _, again := range []string{"", ", again"} {
					got := reports(t, append(args, "--cache", kept)...)
					if d := cmp.Diff(want, got); d != "" {
						t.Fatalf("step %d, %s%s (-without +with cache):\n%s", i, what, again, d)
					}
				}
			}
		})
	}
}

// stepsOf is how many edits to try: PREADMIT_EDITS asks for more.
func stepsOf(t *testing.T, n int) int {
	t.Helper()
	if more, err := strconv.Atoi(os.Getenv("PREADMIT_EDITS")); err == nil {
		return more
	}
	return n
}

// reports are what a run says in some formats, and its exit code.
func reports(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	all := append(args, "-q", "-o", "json", "-o", "text="+filepath.Join(dir, "text"), "-o", "sarif="+filepath.Join(dir, "sarif"))
	var out, errs bytes.Buffer
	code := run(context.Background(), all, nil, &out, &errs)
	if code == exitUsage {
		t.Fatalf("%v: %s", args, errs.String())
	}
	for _, name := range []string{"text", "sarif"} {
		data := rendertest.ReadFile(t, filepath.Join(dir, name))
		out.Write(data)
	}
	return fmt.Sprintf("%d\n%s%s", code, out.String(), errs.String())
}

// edit changes a file of a directory in some way, and says which and how.
func edit(t *testing.T, dir string, random *rand.Rand) string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.ContainsAny(filepath.Ext(p), "yjt") && !strings.Contains(p, "/.git/") {
			files = append(files, p)
		}
		return err
	})
	rendertest.OK(t, err)
	name := files[random.IntN(len(files))]
	data := rendertest.ReadFile(t, name)
	lines := strings.SplitAfter(string(data), "\n")
	at := random.IntN(len(lines))
	kind := random.IntN(8)
	switch kind {
	case 0, 1: // all that follows moves down
		lines[at] = "# a comment\n" + lines[at]
	case 2:
		lines[at] = ""
	case 3, 4: // a value
		lines = strings.SplitAfter(strings.Map(func(r rune) rune {
			if r >= '1' && r <= '8' && random.IntN(3) == 0 {
				return r + 1
			}
			return r
		}, string(data)), "\n")
	case 5:
		err = os.Remove(name)
	case 6:
		err = os.WriteFile(filepath.Join(filepath.Dir(name), "added-"+filepath.Base(name)), data, 0o644)
	case 7: // the file moves, and a link or one to nowhere takes its place
		target := "moved-" + filepath.Base(name)
		err = os.Rename(name, filepath.Join(filepath.Dir(name), target))
		if random.IntN(4) == 0 {
			target = "gone"
		}
		if err == nil {
			err = os.Symlink(target, name)
		}
	}
	if err == nil && kind < 5 {
		err = os.WriteFile(name, []byte(strings.Join(lines, "")), 0o644)
	}
	rendertest.OK(t, err)
	return fmt.Sprintf("edit %d of line %d of %s", kind, at+1, name)
}

// merge commits everything in a directory.
func merge(t *testing.T, dir string) {
	t.Helper()
	repo, err := gittest.Init(dir)
	if err == nil {
		_, err = repo.CommitAll("all")
	}
	rendertest.OK(t, err)
}

// TestCacheIsUsed holds that the property above is not one of an empty cache.
func TestCacheIsUsed(t *testing.T) {
	t.Parallel()
	kept := t.TempDir()
	args := []string{"check", "../../testdata/repos/shop", "--cache", kept}
	reports(t, args...)
	before := entries(t, kept)
	if len(before) < 10 {
		t.Fatalf("only %d entries are kept", len(before))
	}
	reports(t, args...)
	if d := cmp.Diff(before, entries(t, kept)); d != "" {
		t.Errorf("a second run kept something else:\n%s", d)
	}
}

// TestCacheKeepsSurroundings holds that an edit of one unit stores nothing anew about the
// others, whatever the kinds that policies look up.
func TestCacheKeepsSurroundings(t *testing.T) {
	t.Parallel()
	dir, kept := t.TempDir(), t.TempDir()
	rendertest.OK(t, os.CopyFS(dir, os.DirFS("../../testdata/repos/shop")))
	args := []string{"check", dir, "--pack", "best-practices", "--cache", kept}
	reports(t, args...)
	before := len(entries(t, kept))
	values := filepath.Join(dir, "charts/web/values.yaml")
	data := rendertest.ReadFile(t, values)
	rendertest.OK(t, os.WriteFile(values, append(data, "# changed\n"...), 0o644))
	reports(t, args...)
	if added := len(entries(t, kept)) - before; added > 2 { // the chart and its results
		t.Errorf("%d entries more", added)
	}
}

// TestCacheKeepsClusters holds that a second run evaluates nothing and writes nothing, however many
// clusters have the same policies.
func TestCacheKeepsClusters(t *testing.T) {
	t.Parallel()
	dir, kept := t.TempDir(), t.TempDir()
	config := "repository: [https://git.example/shop]\nclusters:\n"
	for i := range 9 {
		config += fmt.Sprintf("- {name: c%[1]d, server: 'https://c%[1]d.example'}\n", i)
		rendertest.WriteFile(t, filepath.Join(dir, fmt.Sprintf("apps/c%d.yaml", i)), fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: app%[1]d, namespace: argocd}
spec:
  project: default
  source: {repoURL: https://git.example/shop, path: deploy/c%[1]d, targetRevision: HEAD}
  destination: {server: 'https://c%[1]d.example', namespace: team-%[1]d}
`, i))
		rendertest.WriteFile(t, filepath.Join(dir, fmt.Sprintf("deploy/c%d/all.yaml", i)), fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: team-%[1]d, labels: {number: "%[1]d"}}
---
apiVersion: v1
kind: Pod
metadata: {name: pod-%[1]d, namespace: team-%[1]d}
spec: {containers: [{name: a, image: a}]}
`, i))
	}
	rendertest.WriteFile(t, filepath.Join(dir, ".preadmit/config.yaml"), config)
	args := []string{"check", dir, "--pack", "pod-security-restricted", "--cache", kept}
	want := reports(t, args...)
	written := func() map[string]string {
		all := entries(t, kept)
		data := make(map[string]string, len(all))
		for name := range all {
			data[name] = string(rendertest.ReadFile(t, name))
		}
		return data
	}
	before := written()
	if d := cmp.Diff(want, reports(t, args...)); d != "" {
		t.Errorf("the second run reports something else:\n%s", d)
	}
	for name, data := range written() {
		if before[name] != data {
			t.Errorf("the second run wrote %s", filepath.Base(name))
		}
	}
}

// TestCacheKeepsChanges holds that an edit of one unit adds the results of what it changes
// and no others, and the same edit nothing.
func TestCacheKeepsChanges(t *testing.T) {
	t.Parallel()
	dir, kept := t.TempDir(), t.TempDir()
	copyRepository(t, "../../testdata/repos/shop", dir)
	args := []string{"check", dir, "--base", "HEAD", "--pack", "best-practices", "--cache", kept}
	reports(t, args...)
	before := len(entries(t, kept))
	step := fileEdit{"values", "charts/web/values.yaml", "tag: \"1.14.2\"", "tag: \"1.14.3\""}
	step.apply(t, filepath.Join(dir, step.file))
	reports(t, args...)
	if added := len(entries(t, kept)) - before; added < 3 || added > 12 { // renderings of the chart, what changes and what does not, as it was and is
		t.Errorf("%d entries more", added)
	}
	after := entries(t, kept)
	reports(t, args...)
	if d := cmp.Diff(after, entries(t, kept)); d != "" {
		t.Errorf("the same run kept something else:\n%s", d)
	}
}

func entries(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	all := make(map[string]fs.FileMode)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		all[p] = info.Mode()
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v", p, info.Mode())
		}
		return err
	})
	rendertest.OK(t, err)
	return all
}

// TestCacheIsBroken damages every entry, in turns.
func TestCacheIsBroken(t *testing.T) {
	t.Parallel()
	kept := t.TempDir()
	args := []string{"check", "../../testdata/repos/shop", "--cache", kept}
	want := reports(t, args...)
	random := rand.New(rand.NewPCG(1, 2))
	for damage, do := range []func([]byte) []byte{
		func(b []byte) []byte { b[random.IntN(len(b))] ^= byte(1 + random.IntN(255)); return b },
		func(b []byte) []byte { return b[:random.IntN(len(b))] },
		func(b []byte) []byte { return append(b, 0) },
		func([]byte) []byte { return []byte("not an entry\n") },
		func([]byte) []byte { return nil },
	} {
		for name := range entries(t, kept) {
			data := rendertest.ReadFile(t, name)
			if random.IntN(4) == 0 {
				continue
			}
			rendertest.OK(t, os.WriteFile(name, do(data), 0o600))
		}
		if d := cmp.Diff(want, reports(t, args...)); d != "" {
			t.Fatalf("damage %d changes the report:\n%s", damage, d)
		}
	}
}

// TestCacheKeepsResults holds that each field of a result comes back.
func TestCacheKeepsResults(t *testing.T) {
	t.Parallel()
	var want, got []evaluate.Compiled
	n := 0
	v := reflect.ValueOf(&want).Elem()
	fill(t, v, &n)
	var e cache.Encoder
	e.Plain(want)
	data, err := e.Data()
	rendertest.OK(t, err)
	d := cache.NewDecoder(data)
	if d.Plain(&got); d.End() != nil {
		t.Fatal(d.End())
	}
	rendertest.Equal(t, want, got)
	empty := []policy.Result{{Fields: []string{}}, {}}
	e = cache.Encoder{}
	e.Plain(empty)
	data, _ = e.Data()
	var back []policy.Result
	cache.NewDecoder(data).Plain(&back)
	rendertest.Equal(t, empty, back)
}

// fill gives every field of a value a value of its own.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(strconv.Itoa(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	default:
		t.Fatalf("a %s in what is kept", v.Type())
	}
}

// TestCacheSeesEachInput changes the inputs of results one after the other. Each
// changes the report. With --base, each is also merged.
func TestCacheSeesEachInput(t *testing.T) {
	t.Parallel()
	for name, base := range map[string][]string{"tree": nil, "change": {"--base", "HEAD"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seesWhatMatters(t, base)
		})
	}
}

func seesWhatMatters(t *testing.T, base []string) {
	dir, kept := t.TempDir(), t.TempDir()
	copyRepository(t, "../../testdata/repos/shop", dir)
	args := append([]string{"check", dir, "--pack", "pod-security-restricted"}, base...)
	both := func(what string) string {
		t.Helper()
		got := reports(t, append(args[:len(args):len(args)], "--cache", kept)...)
		if d := cmp.Diff(reports(t, append(args[:len(args):len(args)], "--no-cache")...), got); d != "" {
			t.Errorf("%s (-without +with cache):\n%s", what, d)
		}
		return got
	}
	was := both("as it is")
	for _, step := range []fileEdit{
		{"a policy moves by a line", "policies/limits.yaml", "", "# a comment\n"},
		{"a parameter", "policies/replicas.yaml", "max: 10", "max: 3"},
		{"a binding's action", "policies/replicas.yaml", "validationActions: [Deny]", "validationActions: [Warn]"},
		{"a policy's message", "policies/team.yaml", "workloads need a label team", "whose is it?"},
		{"a namespace's label", "infra/namespaces.yaml", "enforce: privileged", "enforce: baseline"},
		{"the labels of namespaces move by a line", "infra/namespaces.yaml", "", "# a comment\n"},
		{"values", "charts/web/values.yaml", "resources: {}", "resources: {limits: {memory: 1Gi}}"},
		{"a template", "charts/web/templates/deployment.yaml", "", "{{- /* a comment */}}\n\n"},
		{"an overlay", "apps/api/overlays/prod/kustomization.yaml", "count: 12", "count: 13"},
		{"a base", "apps/api/base/deployment.yaml", "", "# a comment\n"},
		{"a template more", "charts/web/templates/more.yaml", "", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n"},
		{"a file in front of others", "ops/kustomization.yml", "", "resources: [../infra/cache.yaml]\n"},
		{"a file more", "infra/more.yaml", "", "apiVersion: v1\nkind: Pod\nmetadata: {name: more}\nspec: {containers: [{name: c, image: i}], hostNetwork: true}\n"},
		{"a definition more", "infra/limits.yaml", "", definition},
		{"a file less", "infra/cache.yaml", "", ""},
		{"a link to nowhere", "infra/linked.yaml", "->", "gone.yaml"},
		{"a link to somewhere", "infra/linked.yaml", "->", "more.yaml"},
		{"an exemption of the kind", "infra/limits.yaml", "type: integer", "type: string"},
	} {
		step.apply(t, filepath.Join(dir, step.file))
		got := both(step.what)
		if got == was {
			t.Errorf("%s: the report stays as it was: nothing is shown", step.what)
		}
		if was = got; base != nil {
			merge(t, dir)
			was = both(step.what + ", merged")
		}
	}
}

// TestCacheSeesCommit edits a policy, and then compares the same edit with another commit
// that has the same policies. Results name the commit in places of the base's policy.
func TestCacheSeesCommit(t *testing.T) {
	t.Parallel()
	dir, kept := t.TempDir(), t.TempDir()
	copyRepository(t, "../../testdata/repos/shop", dir)
	args := []string{"check", dir, "--base", "HEAD", "--pack", "pod-security-restricted"}
	seen := make(map[string]bool)
	for _, text := range []string{"one", "two"} {
		policy := filepath.Join(dir, "policies/team.yaml")
		was, err := os.ReadFile(policy)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "NOTES.md"), []byte(text), 0o644)
		}
		rendertest.OK(t, err)
		merge(t, dir)
		fileEdit{"message", policy, "workloads need a label team", "whose is it?"}.apply(t, policy)
		want := reports(t, append(args[:len(args):len(args)], "--no-cache")...)
		for range 2 {
			if d := cmp.Diff(want, reports(t, append(args[:len(args):len(args)], "--cache", kept)...)); d != "" {
				t.Errorf("%s (-without +with cache):\n%s", text, d)
			}
		}
		if seen[want] {
			t.Error("the reports are the same: nothing is shown")
		}
		seen[want] = true
		rendertest.OK(t, os.WriteFile(policy, was, 0o644))
	}
}

// TestCacheSeesEngineInputs runs with two dates, two versions of Kubernetes, two
// users and two sets of policies, in every combination, over a tree and over a change.
// Each changes the report, and a warm cache that holds them all gives the bytes of no
// cache.
func TestCacheSeesEngineInputs(t *testing.T) {
	t.Parallel()
	for name, base := range map[string][]string{"tree": nil, "change": {"--base", "HEAD"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seesEngineInputs(t, base)
		})
	}
}

func seesEngineInputs(t *testing.T, base []string) {
	kept := t.TempDir()
	dirs := []string{t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		for name, text := range map[string]string{"pod.yaml": inputsPod, "policies.yaml": strings.ReplaceAll(inputsPolicies, "MESSAGE", "message "+strconv.Itoa(i))} {
			rendertest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		merge(t, dir)
		rendertest.OK(t, os.WriteFile(filepath.Join(dir, "pod.yaml"), []byte(inputsPod+"---\n"+strings.ReplaceAll(inputsPod, "name: web", "name: new")), 0o644))
	}
	var runs [][]string
	for _, date := range []string{"2026-01-01", "2027-01-01"} {
		for _, version := range []string{"1.30", "1.37"} {
			for _, user := range []string{"jane", "joe"} {
				for _, dir := range dirs {
					runs = append(runs, append([]string{
						"check", filepath.Join(dir, "pod.yaml"), "--policy", filepath.Join(dir, "policies.yaml"),
						"--date", date, "--kube-version", version, "--as", user,
					}, base...))
				}
			}
		}
	}
	seen := map[string]int{}
	for i, args := range runs {
		cold := strings.ReplaceAll(reports(t, append(args[:len(args):len(args)], "--no-cache")...), dirs[i%2], "DIR")
		if j, same := seen[cold]; same {
			t.Errorf("%v and %v have the same report: nothing is shown", args, runs[j])
		}
		seen[cold] = i
		reports(t, append(args[:len(args):len(args)], "--cache", kept)...)
	}
	for i, args := range runs {
		warm := strings.ReplaceAll(reports(t, append(args[:len(args):len(args)], "--cache", kept)...), dirs[i%2], "DIR")
		if j, same := seen[warm]; !same || j != i {
			t.Errorf("%v: the report with a warm cache differs from that without one", args)
		}
	}
}

// inputsPod has a field that Kubernetes 1.34 brought.
const inputsPod = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: prod}
spec: {hostnameOverride: web, containers: [{name: web, image: registry.example/web:1}]}
`

const inputsPolicies = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: users}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "request.userInfo.username == 'jane'", message: MESSAGE}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: users}
spec: {policyName: users, validationActions: [Deny]}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: freeze}
spec:
  validationFailureAction: Enforce
  background: false
  rules:
  - name: date
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      message: MESSAGE
      deny: {conditions: {all: [{key: "{{ time_after(time_now_utc(), '2026-06-01T00:00:00Z') }}", operator: Equals, value: true}]}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: always}
spec:
  validationFailureAction: Enforce
  rules:
  - name: always
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {message: MESSAGE, deny: {}}
`

// A fileEdit replaces a text in a file, or puts one in front; it makes a file, or
// removes it where there is nothing to put in, or makes it a link.
type fileEdit struct{ what, file, old, now string }

func (f fileEdit) apply(t *testing.T, name string) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	text := string(data)
	switch {
	case f.old == "->":
		_ = os.Remove(name)
		err = os.Symlink(f.now, name)
	case f.now == "":
		err = os.Remove(name)
	default:
		if !strings.Contains(text, f.old) {
			t.Fatalf("%s: %s holds no %q", f.what, f.file, f.old)
		}
		err = os.WriteFile(name, []byte(strings.Replace(text, f.old, f.now, 1)), 0o644)
	}
	rendertest.OK(t, err)
}

const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: replicalimits.policies.shop.example}
spec:
  group: policies.shop.example
  scope: Cluster
  names: {kind: ReplicaLimit, plural: replicalimits}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {max: {type: integer}}}}
`
