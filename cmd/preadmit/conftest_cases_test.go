package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
)

// A conftestCase is one of conftest's own acceptance tests.
type conftestCase struct {
	dir   string
	Files struct{ Policies, Data, Resources []string }
	Args  struct{ Namespaces, Flags []string }
	want  struct {
		Result         string
		OutputContains []string
		Summary        *struct{ Warnings, Failures int }
	}
}

// TestConftestCases checks the objects of conftest's acceptance tests as its
// users would, and holds what comes of it. Those in formats other than YAML
// and JSON are not about objects.
func TestConftestCases(t *testing.T) {
	t.Parallel()
	dirs, _ := filepath.Glob("../../../shared/corpora/conftest/*")
	if len(dirs) == 0 {
		t.Skip("../shared/corpora is absent")
	}
	right := 0
	for _, dir := range dirs {
		c := conftestCase{dir: dir}
		readJSON(t, dir+"/case.json", &c)
		readJSON(t, dir+"/expect.json", &[]any{&c.want})
		if why := c.check(t); why != "" {
			t.Logf("difference: %s: %s", filepath.Base(dir), why)
			continue
		}
		right++
	}
	t.Logf("table conftest cases: %d / %d", right, len(dirs))
	if right < 23 {
		t.Errorf("only %d cases are right", right)
	}
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// args are the command line that asks the same.
func (c *conftestCase) args() []string {
	args := []string{"check", "-o", "json", "-v"}
	for _, f := range c.Files.Resources {
		if filepath.Ext(f) == ".yaml" {
			args = append(args, filepath.Join(c.dir, f))
		}
	}
	for _, f := range c.Files.Policies {
		args = append(args, "-p", filepath.Join(c.dir, f))
	}
	if len(c.Files.Policies) == 0 {
		args = append(args, "-p", filepath.Join(c.dir, "policy"))
	}
	for _, f := range c.Files.Data {
		args = append(args, "--data", filepath.Join(c.dir, f))
	}
	for _, n := range c.Args.Namespaces {
		if n != "*" {
			args = append(args, "--rego-namespace", n)
		}
	}
	if slices.Contains(c.Args.Flags, "--combine") {
		args = append(args, "--combine")
	}
	return args
}

// check says in what the outcome is another one; "" if it is not.
func (c *conftestCase) check(t *testing.T) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), c.args(), nil, &stdout, &stderr)
	var report struct{ Results []policy.Result }
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		if c.want.Result == "fail" && len(c.Files.Policies) == 0 && code == exitUsage {
			return "" // there is nothing to evaluate by, which conftest calls a failure
		}
		return fmt.Sprintf("exit code %d: %s", code, stderr.String())
	}
	said := map[string]int{}
	text := stderr.String()
	for _, r := range report.Results {
		text += r.Message + "\n"
		switch {
		case r.Engine != policy.EngineRego && r.Engine != policy.EngineCompile:
		case r.Outcome == policy.Fail:
			said[string(r.Action)]++
		case r.Undecided():
			said["error"]++
		}
	}
	want := c.want.Result
	if want == "fail" && slices.Contains(c.Args.Flags, "--fail-on-warn") && said["deny"] == 0 {
		want = "warn"
	}
	ok := map[string]bool{"pass": said["deny"]+said["error"] == 0, "fail": said["deny"] > 0, "warn": said["warn"] > 0 && said["deny"] == 0, "error": said["error"] > 0}[want]
	if !ok {
		return fmt.Sprintf("want %s, got %v: %.500s", want, said, text)
	}
	if s := c.want.Summary; s != nil && (s.Warnings != said["warn"] || s.Failures != said["deny"]) {
		return fmt.Sprintf("want %+v, got %v", *s, said)
	}
	for _, part := range c.want.OutputContains {
		part = strings.TrimPrefix(part, "PRNT   ") // what a policy prints
		if !strings.Contains(text, part) && !ofConftestsOwn(part) {
			return fmt.Sprintf("does not say %q: %s", part, text)
		}
	}
	return ""
}

// ofConftestsOwn are parts of its reports' layout, and the words in which it
// says what is said otherwise here.
func ofConftestsOwn(part string) bool {
	own := []string{"tests, ", "not ok", "failure", "undefined function", "built-in error"}
	return slices.ContainsFunc(own, func(s string) bool { return strings.Contains(part, s) })
}
