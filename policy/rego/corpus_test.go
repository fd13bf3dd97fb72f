package rego

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A corpusCase is a test of conftest's, with what its files are.
type corpusCase struct {
	dir   string
	Files struct{ Policies, Data, Resources []string }
	Args  struct{ Namespaces, Flags []string }
	want  struct {
		Result         string
		Summary        *summary
		OutputContains []string
	}
}

// A summary is what conftest counts.
type summary struct{ Tests, Passed, Warnings, Failures, Exceptions int }

// elsewhere are the cases that are not about evaluating objects, and why.
var elsewhere = map[string]string{
	"05": "without a policy there is nothing to make an engine of: cmd says so",
}

func readCase(t *testing.T, dir string) corpusCase {
	t.Helper()
	c := corpusCase{dir: dir}
	decode(t, filepath.Join(dir, "case.json"), &c)
	wants := []any{&c.want}
	decode(t, filepath.Join(dir, "expect.json"), &wants)
	return c
}

func decode(t *testing.T, file string, into any) {
	t.Helper()
	rendertest.OK(t, json.Unmarshal(rendertest.ReadFile(t, file), into))
}

func TestConftestCorpus(t *testing.T) {
	t.Parallel()
	for _, dir := range rendertest.GlobOrSkip(t, "../../../shared/corpora/conftest/*") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			if why := elsewhere[filepath.Base(dir)[:2]]; why != "" {
				t.Skip(why)
			}
			readCase(t, dir).check(t)
		})
	}
}

func (c corpusCase) check(t *testing.T) {
	var modules []Module
	for _, f := range c.Files.Policies {
		modules = append(modules, Module{f, string(rendertest.ReadFile(t, filepath.Join(c.dir, f)))})
	}
	var o Options
	for _, f := range c.Files.Data {
		o.Data = append(o.Data, Document{File: f, Text: string(rendertest.ReadFile(t, filepath.Join(c.dir, f)))})
	}
	if o.Namespaces = c.Args.Namespaces; slices.Contains(c.Args.Flags, "--all-namespaces") {
		o.Namespaces = nil
	}
	var printed []string
	o.Print = func(file string, line int, text string) { printed = append(printed, text) }
	e, err := New(modules, o)
	var objs []*render.Object
	for _, f := range c.Files.Resources {
		if strings.HasSuffix(f, ".yaml") {
			objs = append(objs, objects(t, f, rendertest.ReadFile(t, filepath.Join(c.dir, f)))...)
		}
	}
	results := policy.Errors(policy.EngineCompile, nil, err)
	var v policy.Validator = e
	if slices.Contains(c.Args.Flags, "--combine") {
		v = e.Combine(objs)
	}
	for _, obj := range objs {
		found, err := v.Validate(t.Context(), &policy.Request{Operation: policy.Create, Object: obj})
		rendertest.OK(t, err)
		results = append(results, found...)
	}
	if combined, ok := v.(*Combined); ok {
		rest, err := combined.Rest(t.Context())
		rendertest.OK(t, err)
		results = append(results, rest...)
	}
	c.compare(t, results, printed)
}

func (c corpusCase) compare(t *testing.T, results []policy.Result, printed []string) {
	got, counted := "pass", summary{}
	said := strings.Join(printed, "\n")
	for _, r := range results {
		said += "\n" + r.Message
		switch {
		case r.Outcome == policy.Error || got == "error":
			got = "error"
		case r.Outcome == policy.Fail && r.Action == policy.Deny:
			got = "fail"
			counted.Failures++
		case r.Outcome == policy.Fail && r.Engine == policy.EngineRego:
			counted.Warnings++
			if c.want.Result == "warn" || slices.Contains(c.Args.Flags, "--fail-on-warn") {
				got = c.want.Result
			}
		case r.Outcome == policy.Skip:
			counted.Exceptions++
		}
	}
	if got != c.want.Result {
		t.Errorf("it is %s, conftest says %s:\n%s", got, c.want.Result, lines("", results))
	}
	if want := c.want.Summary; want != nil {
		want.Tests, want.Passed = 0, 0 // conftest counts definitions, and not rules
		if diff := cmp.Diff(*want, counted); diff != "" {
			t.Errorf("%s%s", diff, lines("", results))
		}
	}
	for _, text := range c.want.OutputContains {
		if !c.says(said, text) {
			t.Errorf("nobody says %q:\n%s", text, said)
		}
	}
}

// says looks for what conftest prints, without what only its printer adds.
func (c corpusCase) says(said, text string) bool {
	switch {
	case text == "not ok" || text == "failure" || strings.Contains(text, " passed, "):
		return true
	case text == "built-in error":
		text = "not available"
	case strings.HasPrefix(text, "undefined function "):
		text = strings.TrimPrefix(text, "undefined function ") + " is not available"
	case strings.HasPrefix(text, "PRNT"):
		text = text[strings.LastIndex(text, ": ")+2:]
	}
	return strings.Contains(said, text)
}
