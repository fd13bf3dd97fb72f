package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestKaptest runs kaptest's own suites. Those named invalid-* are to fail,
// each for its reason, and of the others every case is to come out as
// published.
func TestKaptest(t *testing.T) {
	t.Parallel()
	dir := kaptestTree(t)
	r := tested(t, dir, exitDenied)
	cases := 0
	for _, s := range r.Suites {
		if s.Error != "" {
			t.Errorf("%s: %s", s.File, s.Error)
		}
		if strings.HasPrefix(filepath.Base(s.File), "invalid-") {
			mustFail(t, s)
			continue
		}
		for _, c := range s.Cases {
			cases++
			if !c.OK || c.Vacuous {
				t.Errorf("%s:%d: %s on %s: want %s, got %s: %s", s.File, c.Line, c.Policy, c.Resource, c.Want, c.Got, c.Reason)
			}
		}
	}
	t.Logf("%d suites, %d cases as published, %d to fail", len(r.Suites), cases, r.Summary.Cases-cases)
	if cases < 25 {
		t.Errorf("only %d cases", cases)
	}
}

// mustFail holds that no case of a suite passes, and that one that names what
// is not there is not run.
func mustFail(t *testing.T, s policytest.Suite) {
	t.Helper()
	if len(s.Cases) == 0 {
		t.Errorf("%s: no cases", s.File)
	}
	for _, c := range s.Cases {
		named := !strings.HasSuffix(s.File, "invalid-no-namespace.yaml")
		if c.OK || c.Reason == "" || named && c.Got != "" {
			t.Errorf("%s: got %q: %s", s.File, c.Got, c.Reason)
		}
	}
}

// TestKaptestWithoutPolicies runs the suites as they stand in the corpus, where
// the policies that they name are missing: none may pass.
func TestKaptestWithoutPolicies(t *testing.T) {
	t.Parallel()
	dir := "../../../shared/corpora/upstream/kaptest"
	rendertest.SkipWithout(t, dir)
	if _, err := os.Stat(dir + "/examples/simple/simple-policy.yaml"); err == nil {
		t.Skip("the policies are there")
	}
	r := tested(t, dir, exitUsage)
	if r.Summary.Passed != 0 || r.Summary.Suites < 6 {
		t.Errorf("%+v", r.Summary)
	}
	for _, s := range r.Suites {
		if !strings.Contains(s.Error, "no such file") {
			t.Errorf("%s: %s", s.File, s.Error)
		}
	}
}

// kaptestTree puts kaptest's suites and policies together, which stand apart
// in the corpus.
func kaptestTree(t *testing.T) string {
	t.Helper()
	const corpora = "../../../shared/corpora/"
	rendertest.SkipWithout(t, corpora+"upstream/kaptest")
	dir := t.TempDir()
	rendertest.OK(t, os.CopyFS(dir, os.DirFS(corpora+"upstream/kaptest")))
	places := map[string]string{
		"examples__simple__simple-policy": "examples/simple", "examples__complicated__complicated-policy": "examples/complicated",
	}
	policies, _ := filepath.Glob(corpora + "kaptest/*/policies/*.yaml")
	for _, from := range policies {
		data := rendertest.ReadFile(t, from)
		place, ok := places[filepath.Base(filepath.Dir(filepath.Dir(from)))]
		if !ok {
			place = "internal/tester/testdata"
		}
		rendertest.OK(t, writeBelow(dir, filepath.Join(place, filepath.Base(from)), data))
	}
	return dir
}

// writeBelow writes into a directory that may have been copied as read-only.
func writeBelow(dir, name string, data []byte) error {
	name = filepath.Join(dir, name)
	if err := os.Chmod(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// tested runs preadmit test -o json.
func tested(t *testing.T, dir string, want int) *policytest.Report {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if got := run(context.Background(), []string{"test", "-o", "json", dir}, nil, &stdout, &stderr); got != want {
		t.Errorf("exit code %d, want %d: %s", got, want, stderr.String())
	}
	r := &policytest.Report{}
	rendertest.OK(t, json.Unmarshal(stdout.Bytes(), r))
	return r
}
