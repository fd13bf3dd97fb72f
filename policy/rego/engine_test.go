package rego

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	opa "github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// engine is that of the files of a text, which must have no errors.
func engine(t testing.TB, text string, set ...func(*Options)) (*Engine, []*render.Object) {
	t.Helper()
	g := files(t, text)
	for _, f := range set {
		f(&g.options)
	}
	e, err := New(g.modules, g.options)
	rendertest.OK(t, err)
	return e, g.objects
}

func validate(t testing.TB, v policy.Validator, o *render.Object) []policy.Result {
	t.Helper()
	results, err := v.Validate(t.Context(), &policy.Request{Operation: policy.Create, Object: o})
	rendertest.OK(t, err)
	return results
}

func TestUpdateEvaluatesNewObjectDeleteNone(t *testing.T) {
	t.Parallel()
	e, o := engine(t, pod+`
-- old.yaml --
{kind: Pod, metadata: {name: old}}
-- a.rego --
package main
deny contains input.metadata.name
`)
	for _, tt := range []struct {
		req  policy.Request
		want string
	}{
		{policy.Request{Operation: policy.Update, Object: o[0], OldObject: o[1]}, "web"},
		{policy.Request{Operation: policy.Delete, OldObject: o[1]}, ""},
	} {
		results, err := e.Validate(t.Context(), &tt.req)
		got := ""
		for _, r := range results {
			got += r.Message
		}
		if err != nil || got != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.req.Operation, got, err, tt.want)
		}
	}
}

func TestObjectsAreEvaluatedAsWritten(t *testing.T) {
	t.Parallel()
	e, o := engine(t, pod+"-- a.rego --\npackage main\ndeny contains \"served\" if input.spec.restartPolicy\n")
	req := &policy.Request{Operation: policy.Create, Object: o[0], Admitted: map[string]any{"spec": map[string]any{"restartPolicy": "Always"}}}
	if got, err := e.Validate(t.Context(), req); err != nil || got[0].Outcome != policy.Pass {
		t.Errorf("%v, %v", got, err)
	}
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	const text = pod + `
-- a.rego --
package main
deny contains "a"
-- b.rego --
package main.web
deny contains "b"
-- c.rego --
package helper
x := 1
`
	for _, tt := range []struct {
		patterns []string
		want     string
		errs     string
	}{
		{nil, "a b", "c.rego:1:1: package helper defines no deny, violation or warn rule, and no other package uses it"},
		{[]string{"main"}, "a", ""},
		{[]string{"main.*"}, "b", ""},
		{[]string{"mian"}, "", "--rego-namespace mian checks nothing: it matches no package"},
		{[]string{"[", "main"}, "a", "--rego-namespace [ checks nothing: it matches no package"},
	} {
		g := files(t, text)
		g.options.Namespaces = tt.patterns
		e, err := New(g.modules, g.options)
		var said []string
		for _, r := range validate(t, e, g.objects[0]) {
			said = append(said, r.Message)
		}
		if got := strings.Join(said, " "); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.patterns, got, tt.want)
		}
		if got := fmt.Sprint(err); err == nil && tt.errs != "" || err != nil && got != tt.errs {
			t.Errorf("%q: %v, want %q", tt.patterns, got, tt.errs)
		}
	}
}

func TestPrintIsReportedWithoutSecrets(t *testing.T) {
	t.Parallel()
	var got []string
	e, o := engine(t, pod+`
-- secret.yaml --
{apiVersion: v1, kind: Secret, metadata: {name: db}, stringData: {password: hunter2hunter2}}
-- a.rego --
package main
deny contains "x" if {
	print(input.metadata.name, "::error::", input.stringData)
}
`, func(o *Options) {
		o.Print = func(file string, line int, text string) {
			got = append(got, fmt.Sprintf("%s:%d: %s", file, line, text))
		}
	})
	for _, x := range o {
		validate(t, e, x)
	}
	want := []string{"a.rego:3: web ::error:: <undefined>", "a.rego:3: " + opa.Hidden}
	rendertest.Equal(t, want, got)
}

func TestManyViolationsAreCounted(t *testing.T) {
	t.Parallel()
	e, o := engine(t, pod+`
-- a.rego --
package main
deny contains sprintf("%d", [x]) if some x in numbers.range(1, 1500)
warn contains concat("", [s | some i in numbers.range(1, 1000); s := "0123456789"])
`)
	results := validate(t, e, o[0])
	if n := len(results); n != maxViolations+2 || results[n-2].Message != "500 more violations of main.deny" {
		t.Errorf("%d results, the last but one says %q", n, results[n-2].Message)
	}
	if last := results[len(results)-1].Message; len(last) > policy.MaxMessage {
		t.Errorf("a message has %d bytes", len(last))
	}
}

func TestCancelledGivesNoResult(t *testing.T) {
	t.Parallel()
	e, o := engine(t, pod+"-- a.rego --\npackage main\ndeny contains \"x\" if { some a in numbers.range(1, 1000); some b in numbers.range(1, 1000); a+b == 0 }\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := e.Validate(ctx, &policy.Request{Object: o[0]}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := e.Combine(o).Rest(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestEndlessRuleIsAnError(t *testing.T) {
	t.Parallel()
	e, o := engine(t, pod+`
-- a.rego --
package main
deny contains "x" if { r := numbers.range(1, 3000); some a in r; some b in r; some c in r; a+b+c == 0 }
warn contains "y"
`, func(o *Options) { o.Time = 200 * time.Millisecond })
	start := time.Now()
	for range 50 {
		results := validate(t, e, o[0])
		if len(results) != 2 || results[0].Outcome != policy.Error || results[1].Message != "y" {
			t.Error(lines("", results))
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v, though the rule is known to take too long", took)
	}
}

func TestErrorsNameTheirRule(t *testing.T) {
	t.Parallel()
	var rego strings.Builder
	rego.WriteString("package main\n")
	for i := range 40 {
		fmt.Fprintf(&rego, "deny_%02d contains \"%d\" if to_number(input.metadata.labels.app) > %d\n", i, i, i)
	}
	e, o := engine(t, "-- a.rego --\n"+rego.String()+`
-- a.yaml --
{kind: A, metadata: {name: a, labels: {app: "5"}}}
-- b.yaml --
{kind: B, metadata: {name: b, labels: {app: five}}}
`)
	for range 12 {
		for i, want := range []map[policy.Outcome]int{{policy.Fail: 5, policy.Pass: 35}, {policy.Error: 40}} {
			got := map[policy.Outcome]int{}
			for _, r := range validate(t, e, o[i]) {
				got[r.Outcome]++
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", o[i].GetName(), diff)
			}
		}
	}
}

func TestRulesAreDocumented(t *testing.T) {
	t.Parallel()
	e, _ := engine(t, `
-- a.rego --
# METADATA
# scope: package
# title: not of a rule
# related_resources:
# - ref: https://example.com/all
# custom:
#   severity: low
package main

# METADATA
# title: No latest
# description: |
#   Say which
#   version.
# related_resources:
# - https://example.com/latest
# custom:
#   severity: High
#   remediation: Name a version.
deny_latest contains "x" if input.a

# METADATA
# title: One
# description: of two
warn contains "one" if input.one

# METADATA
# title: Two
warn contains "two" if input.two

# METADATA
# scope: document
# title: Whole
# custom: {severity: other}
deny contains "x" if input.x

deny contains "y" if input.y
`)
	place := func(line int) render.Span { return render.Span{File: "a.rego", Line: line, Column: 1} }
	want := []policy.Rule{
		{
			Engine: "Rego", Policy: "main", Name: "deny", Severity: "", Action: policy.Deny, Title: "Whole", Origin: place(35),
			Expression: "deny contains \"x\" if input.x\n\ndeny contains \"y\" if input.y", URL: "https://example.com/all",
		},
		{
			Engine: "Rego", Policy: "main", Name: "deny_latest", Severity: policy.High, Action: policy.Deny, Title: "No latest", Origin: place(20),
			Description: "Say which\nversion.", Help: "Name a version.", URL: "https://example.com/latest", Expression: `deny_latest contains "x" if input.a`,
		},
		{
			Engine: "Rego", Policy: "main", Name: "warn", Severity: policy.Low, Action: policy.Warn, Origin: place(25),
			Description: "- One: of two\n- Two", URL: "https://example.com/all",
			Expression: "warn contains \"one\" if input.one\n\nwarn contains \"two\" if input.two",
		},
	}
	rendertest.Equal(t, want, e.Rules())
}

func TestLoadData(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"top.yaml": {Data: []byte("a: 1")}, "d/x.json": {Data: []byte(`{"b": 2}`)}, "d/e/f/y.yml": {Data: []byte("[1, 2]")},
		"d/README.md": {Data: []byte("#")},
	}
	docs, err := LoadData(fsys, "top.yaml", "d", "under.here:top.yaml", "missing")
	want := []Document{
		{File: "top.yaml", Text: "a: 1"},
		{File: "d/e/f/y.yml", Under: []string{"e", "f"}, Text: "[1, 2]"},
		{File: "d/x.json", Text: `{"b": 2}`},
		{File: "top.yaml", Under: []string{"under", "here"}, Text: "a: 1"},
	}
	rendertest.Equal(t, want, docs)
	if errs := render.Errors(err); len(errs) != 1 || errs[0].Span.File != "missing" {
		t.Error(err)
	}
	data, errs := newData(docs)
	if got := data.documents.String(); got != `{"a": 1, "b": 2, "e": {"f": [1, 2]}, "under": {"here": {"a": 1}}}` || errs != nil {
		t.Error(got, errs)
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	e, o := engine(t, pod+`
-- a.rego --
package main
deny contains sprintf("%s %v", [c.name, data.conftest.file.name]) if some c in input.spec.containers
`)
	want := lines("web", validate(t, e, o[0]))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if got := lines("web", validate(t, e, o[0])); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestHostileTextsAreShortErrors(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nested":       "package main\ndeny contains x if { x := " + strings.Repeat("[", 100_000),
		"parentheses":  "package main\ndeny contains x if { x := " + strings.Repeat("(", 100_000),
		"negations":    "package main\ndeny contains \"x\" if " + strings.Repeat("not ", 100_000) + "true",
		"a long name":  "package main\ndeny contains \"x\" if " + strings.Repeat("a", 1_000_000),
		"a string":     "package main\ndeny contains \"" + strings.Repeat("a", 1_000_000),
		"no text":      "",
		"no UTF-8":     "package main\ndeny contains \"\xff\xfe\"",
		"broken notes": "# METADATA\n# title: [\npackage main\ndeny contains \"x\"",
		"an alias":     "# METADATA\n# custom:\n#   a: &a [*a]\npackage main\ndeny contains \"x\"",
	} {
		e, err := New([]Module{{"a.rego", text}, {"b.rego", "package b\ndeny contains \"b\""}}, Options{})
		errs := render.Errors(err)
		if len(errs) == 0 || len(err.Error()) > 4<<10 || errs[0].Span.File != "a.rego" {
			t.Errorf("%s: %.300v", name, err)
		}
		if rules := e.Rules(); len(rules) != 1 || rules[0].Policy != "b" {
			t.Errorf("%s: the others are %v", name, rules)
		}
	}
}

func TestBrokenModulesHideNoOther(t *testing.T) {
	t.Parallel()
	var modules []Module
	for i := range 300 {
		text := fmt.Sprintf("package p%03d\ndeny contains \"x\" if input.kind == \"Pod\"\n", i)
		if i%2 == 1 {
			text += "warn contains x if y\n"
		}
		modules = append(modules, Module{fmt.Sprintf("%03d.rego", i), text})
	}
	e, err := New(modules, Options{})
	broken := map[string]bool{}
	for _, e := range render.Errors(err) {
		broken[e.Span.File] = true
	}
	if len(broken) != 150 || len(e.Rules()) != 150 {
		t.Errorf("%d modules are broken and %d rules left, want 150 of both", len(broken), len(e.Rules()))
	}
}

func TestLiteralsOfRules(t *testing.T) {
	t.Parallel()
	e, o := engine(t, pod+`
-- a.rego --
package main
deny contains msg if {
	input.kind == "Pod"
	some c in input.spec.containers
	endswith(lower(c.image), ":latest")
	not startswith(c["image"], concat("", ["registry", ".example"]))
	msg := sprintf("%s is not %s", [c.name, "pinned"])
}
deny contains "other" if input.spec.x == "other text"
`)
	want := []string{"registry", ".example", ":latest", "Pod"}
	rendertest.Equal(t, want, validate(t, e, o[0])[0].Literals)
}
