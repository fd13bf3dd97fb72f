package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const kyvernoCorpora = "../../../shared/corpora/"

// TestKyvernoRows runs Kyverno's published tests of policies, and holds every
// case against the row that Kyverno's own command line gave. Messages are
// compared without white space.
func TestKyvernoRows(t *testing.T) {
	t.Parallel()
	dir := kyvernoTree(t, "kyverno-policies")
	r := testedAll(t, dir)
	score := newKyvernoScore(dir)
	cases := casesOf(r)
	for _, row := range kyvernoRows(t) {
		score.row(row, cases[row.key()])
	}
	score.suites(t, r)
	score.print(t, "")
	score.atLeast(t, 995)
}

// TestKyvernoCLI runs the tests of Kyverno's own command line: all of them
// pass there.
func TestKyvernoCLI(t *testing.T) {
	t.Parallel()
	dir := kyvernoTree(t, "kyverno-cli")
	r := testedAll(t, dir)
	score := newKyvernoScore(dir)
	for _, s := range r.Suites {
		for _, c := range s.Cases {
			why := ""
			if !c.OK || c.Vacuous && c.Got != statusSkipped {
				why = fmt.Sprintf("want %s, got %q: %s", c.Want, c.Got, c.Reason)
			}
			score.add(s.File, c.Policy, c.Rule, c.Kind+" "+c.Resource, why)
		}
	}
	score.suites(t, r)
	score.print(t, "CLI ")
	score.atLeast(t, 900)
}

const statusSkipped = "excluded"

// kyvernoRow is what Kyverno's command line said about one case.
type kyvernoRow struct{ test, policy, rule, resource, result, reason, message string }

func kyvernoRows(t *testing.T) []kyvernoRow {
	t.Helper()
	data := rendertest.ReadFile(t, kyvernoCorpora+"kyverno-rows.tsv")
	var rows []kyvernoRow
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n")[1:] {
		f := strings.Split(line, "\t")
		rows = append(rows, kyvernoRow{f[0], f[1], f[2], f[3], f[4], f[5], f[6]})
	}
	return rows
}

// key is how a case names what the row is about.
func (k kyvernoRow) key() string {
	parts := strings.Split(k.resource, "/")
	name := parts[len(parts)-1]
	if len(parts) < 3 { // of a resource that was made
		return strings.Join([]string{k.test, k.policy, k.rule}, " ")
	}
	name = strings.TrimPrefix(parts[len(parts)-2]+"/"+name, "/")
	return strings.Join([]string{k.test, k.policy, k.rule, parts[len(parts)-3], name}, " ")
}

// casesOf are the cases by what they are about. Of what a generate rule made,
// Kyverno's rows have the name alone.
func casesOf(r *policytest.Report) map[string][]policytest.Case {
	cases := make(map[string][]policytest.Case)
	for _, s := range r.Suites {
		for _, c := range s.Cases {
			rule := strings.Join([]string{s.File, c.Policy, c.Rule}, " ")
			key := strings.Join([]string{rule, c.Kind, c.Resource}, " ")
			cases[key], cases[rule] = append(cases[key], c), append(cases[rule], c)
		}
	}
	return cases
}

// A kyvernoScore counts by kind of policy.
type kyvernoScore struct {
	tables       map[string]string // by suite's directory, policy and rule
	right, total map[string]int
	differences  []string
	dir          string
}

func newKyvernoScore(dir string) *kyvernoScore {
	s := &kyvernoScore{dir: dir, right: map[string]int{}, total: map[string]int{}}
	s.tables = tablesOf(dir)
	return s
}

// row compares one row with the cases about it: some of them is to be like it.
func (k *kyvernoScore) row(r kyvernoRow, cases []policytest.Case) {
	why := "no such case"
	for _, c := range cases {
		if why = r.differs(c); why == "" {
			break
		}
	}
	k.add(r.test, r.policy, r.rule, r.resource, why)
}

func (k kyvernoRow) differs(c policytest.Case) string {
	switch {
	case c.OK != (k.result == "Pass"):
		return fmt.Sprintf("want %s, got %q: %s", c.Want, c.Got, c.Reason)
	case k.reason == "Excluded" && !c.Vacuous && c.Got == c.Want:
		return "" // a copy of the policy does not match it, and another is
	case c.Vacuous != (k.reason == "Excluded"):
		return fmt.Sprintf("want %s, got %q, vacuous: %v", k.reason, c.Got, c.Vacuous)
	case !c.Vacuous && squeezed(c.Reason) != squeezed(k.message):
		return fmt.Sprintf("want message %q, got %q", k.message, c.Reason)
	}
	return ""
}

func squeezed(s string) string { return strings.Join(strings.Fields(s), "") }

func (k *kyvernoScore) add(test, policyName, rule, resource, why string) {
	table := k.tables[path.Dir(test)+" "+policyName+" "+strings.TrimPrefix(strings.TrimPrefix(rule, "autogen-"), "cronjob-")]
	table = cmp.Or(table, k.tables[path.Dir(test)+" "+policyName+" "], "unknown policy")
	k.total[table]++
	if why == "" {
		k.right[table]++
		return
	}
	k.differences = append(k.differences, fmt.Sprintf("%s: %s/%s on %s: %s", test, policyName, rule, resource, why))
}

// suites reports those that were not read whole.
func (k *kyvernoScore) suites(t *testing.T, r *policytest.Report) {
	t.Helper()
	for _, x := range r.Suites {
		if x.Error != "" {
			k.differences = append(k.differences, x.File+": "+strings.ReplaceAll(x.Error, "\n", "; "))
		}
	}
}

func (k *kyvernoScore) print(t *testing.T, prefix string) {
	t.Helper()
	for _, d := range k.differences {
		t.Logf("difference: %s", d)
	}
	for _, table := range slices.Sorted(maps.Keys(k.total)) {
		t.Logf("table Kyverno %s%s: %d / %d", prefix, table, k.right[table], k.total[table])
	}
}

// atLeast holds that so many of a thousand are right.
func (k *kyvernoScore) atLeast(t *testing.T, thousandths int) {
	t.Helper()
	right, total := 0, 0
	for table := range k.total {
		right, total = right+k.right[table], total+k.total[table]
	}
	t.Logf("%d of %d, %.2f%%", right, total, 100*float64(right)/float64(max(total, 1)))
	if right*1000 < total*thousandths {
		t.Errorf("only %d of %d are as Kyverno has them", right, total)
	}
}

// tablesOf says about every policy below a directory what its rules are: by the
// directory of a suite that names it, policy and rule.
func tablesOf(dir string) map[string]string {
	tables := make(map[string]string)
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Base(name) != "kyverno-test.yaml" {
			return err
		}
		rel, _ := filepath.Rel(dir, filepath.Dir(name))
		for _, file := range listed(name, "policies") {
			data, err := os.ReadFile(filepath.Join(filepath.Dir(name), file))
			if err != nil {
				continue
			}
			objects, _ := render.Parse(file, data)
			for _, o := range objects {
				at := filepath.ToSlash(rel) + " " + o.GetName() + " "
				tables[at] = o.GetKind()
				rules, _ := render.Lookup(o.Object, "/spec/rules")
				list, _ := rules.([]any)
				for _, r := range list {
					tables[at+textInRule(r, "name")] = o.GetKind() + " " + kindOfRule(r)
				}
			}
		}
		return nil
	})
	return tables
}

func textInRule(rule any, key string) string {
	v, _ := render.Lookup(rule, "/"+key)
	s, _ := v.(string)
	return s
}

// kindOfRule is what a rule does, in a word.
func kindOfRule(rule any) string {
	for _, path := range []string{"/mutate/foreach", "/mutate", "/generate", "/verifyImages", "/validate/cel", "/validate/podSecurity", "/validate/foreach", "/validate/pattern", "/validate/anyPattern", "/validate/deny", "/validate/manifests"} {
		if v, ok := render.Lookup(rule, path); ok && v != nil {
			return strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".")
		}
	}
	return "other"
}

// listed are the files that a list of a suite names.
func listed(suite, key string) []string {
	data, err := os.ReadFile(suite)
	if err != nil {
		return nil
	}
	var m map[string]any
	if yaml.Unmarshal(bytes.Split(data, []byte("\n---"))[0], &m) != nil {
		return nil
	}
	var files []string
	list, _ := m[key].([]any)
	for _, v := range list {
		if s, ok := v.(string); ok {
			files = append(files, s)
		}
	}
	return files
}

// kyvernoTree puts Kyverno's suites together with the resources that stand
// elsewhere in the corpus.
func kyvernoTree(t *testing.T, source string) string {
	t.Helper()
	from := kyvernoCorpora + "upstream/" + source
	rendertest.SkipWithout(t, from)
	dir := t.TempDir()
	rendertest.OK(t, os.CopyFS(dir, os.DirFS(from)))
	cases, _ := filepath.Glob(kyvernoCorpora + source + "/*/case.json")
	for _, file := range cases {
		var c struct{ Upstream []string }
		if data, err := os.ReadFile(file); err != nil || json.Unmarshal(data, &c) != nil {
			t.Fatal(file, err)
		}
		for _, suite := range c.Upstream {
			suite = filepath.Join(dir, strings.TrimPrefix(suite, source+"/"))
			for _, key := range []string{"resources", "targetResources", "policies"} {
				for _, ref := range listed(suite, key) {
					supply(t, filepath.Join(filepath.Dir(suite), ref), filepath.Join(filepath.Dir(file), "resources", path.Base(ref)))
				}
			}
		}
	}
	return dir
}

// supply copies a file to where it is missing.
func supply(t *testing.T, to, from string) {
	t.Helper()
	if _, err := os.Stat(to); err == nil {
		return
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return
	}
	rendertest.OK(t, os.MkdirAll(filepath.Dir(to), 0o755))
	rendertest.OK(t, os.WriteFile(to, data, 0o644))
}

// testedAll runs preadmit test -o json, whatever it comes to.
func testedAll(t *testing.T, dir string) *policytest.Report {
	t.Helper()
	var stdout, stderr bytes.Buffer
	run(context.Background(), []string{"test", "-o", "json", dir}, nil, &stdout, &stderr)
	r := &policytest.Report{}
	if err := json.Unmarshal(stdout.Bytes(), r); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	for i := range r.Suites {
		r.Suites[i].File = strings.TrimPrefix(r.Suites[i].File, filepath.ToSlash(dir)+"/")
	}
	return r
}

// TestKyvernoMisspelt misspells every policy, rule, resource and kind of the
// published tests in turn: no case that names one may pass.
func TestKyvernoMisspelt(t *testing.T) {
	t.Parallel()
	for key, pattern := range map[string]string{
		"policy": `(?m)^((?:- |  )policy: +)(\S+) *$`, "rule": `(?m)^((?:- |  )rule: +)(\S+) *$`,
		"kind": `(?m)^((?:- |  )kind: +)([A-Za-z]+) *$`, "resources": `(?m)^(  - )([\w./:-]+) *$`,
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			dir := kyvernoTree(t, "kyverno-policies")
			misspell(t, dir, regexp.MustCompile(pattern))
			passed, total := 0, 0
			for _, s := range testedAll(t, dir).Suites {
				for _, c := range s.Cases {
					if total++; c.OK && (key != "rule" || c.Rule != "" && c.Rule != c.Policy) {
						passed++
						t.Errorf("%s:%d: %s/%s on %s %s passes: %s", s.File, c.Line, c.Policy, c.Rule, c.Kind, c.Resource, c.Got)
					}
				}
			}
			t.Logf("%d of %d cases pass", passed, total)
			if total < 1000 {
				t.Errorf("only %d cases", total)
			}
		})
	}
}

// misspell appends a letter to what a pattern finds in the results of suites.
func misspell(t *testing.T, dir string, pattern *regexp.Regexp) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(name) != "kyverno-test.yaml" {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		head, results, _ := strings.Cut(string(data), "\nresults:")
		results = pattern.ReplaceAllString(results, "${1}${2}x")
		if err := os.Chmod(name, 0o644); err != nil {
			return err
		}
		return os.WriteFile(name, []byte(head+"\nresults:"+results), 0o644)
	})
	rendertest.OK(t, err)
}
