package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// The marker stands under the span, whatever the width of what is before it.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 500)
	for _, c := range []struct {
		name, line       string
		column, end      int
		width            int
		text, underlined string
	}{
		{"plain", "key: value", 6, 11, 80, "key: value", "     ^^^^^"},
		{"one-character", "key: value", 6, 7, 80, "key: value", "     ^"},
		{"no-end", "key: value  ", 6, 0, 80, "key: value", "     ^^^^^"},
		{"no-column", "  key: value", 0, 0, 80, "  key: value", "  ^^^^^^^^^^"},
		{"past-the-end", "key: value", 30, 31, 80, "key: value", ""},
		{"end-past-the-end", "key: value", 6, 99, 80, "key: value", "     ^^^^^"},
		{"empty", "", 1, 2, 80, "", ""},
		{"blank", "   ", 0, 0, 80, "", ""},
		{"tab", "\tkey: v", 2, 5, 80, "    key: v", "    ^^^"},
		{"wide", "名前: 値", 5, 6, 80, "名前: 値", "      ^^"},
		{"emoji", "😀: x", 4, 5, 80, "😀: x", "    ^"},
		{"combining", "e\u0301e\u0301: x", 7, 8, 80, "e\u0301e\u0301: x", "    ^"},
		{"cyrillic", "ключ: x", 7, 8, 80, "ключ: x", "      ^"},
		{"control", "a\x1b[31mb: x", 8, 9, 80, `a\u{1b}[31mb: x`, "            ^"},
		{"bidi", "a\u202eb: x", 6, 7, 80, `a\u{202e}b: x`, "            ^"},
		{"not-utf8", "a\xffb: x", 6, 7, 80, `a\x{ff}b: x`, "          ^"},
		{"long-seen-from-the-start", "key: " + long, 1, 4, 20, "key: aaaaaaaaaaaaa…", "^^^"},
		{"long-middle", long + "key" + long, 501, 504, 20, "…aaaaaakeyaaaaaaaaa…", "       ^^^"},
		{"long-end", long + "key", 501, 504, 20, "…aaaaaakey", "       ^^^"},
		{"longer-than-the-width", long, 1, 501, 20, "aaaaaaaaaaaaaaaaaa…", "^^^^^^^^^^^^^^^^^^"},
		{"wide-window", strings.Repeat("値", 100), 51, 52, 20, "…値値値値値値値値値…", "       ^^"},
		{"width-too-small", "key: value", 6, 11, 1, "key: value", "     ^^^^^"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newExcerpt(c.line, render.Span{Line: 1, Column: c.column, EndLine: 1, EndColumn: c.end}, c.width)
			underlined := ""
			if e.to > e.from {
				underlined = strings.Repeat(" ", e.from) + strings.Repeat("^", e.to-e.from)
			}
			if e.text != c.text || underlined != c.underlined {
				t.Errorf("got\n%s\n%s\nwant\n%s\n%s", e.text, underlined, c.text, c.underlined)
			}
			if w := max(c.width, 20); cellsOf(e.text) > w || e.to > w {
				t.Errorf("%d cells, mark to %d", cellsOf(e.text), e.to)
			}
		})
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add("key: \t名前 e\u0301 \x1b", 3, 7, 30)
	f.Add("key: \t名前\x1be\u0301  ", 11, 80, -48) // a combining mark alone, at the end of a text that fills the width
	f.Fuzz(func(t *testing.T, line string, column, end, width int) {
		if width > 1000 || strings.ContainsAny(line, "\r\n") {
			t.Skip()
		}
		e := newExcerpt(line, render.Span{Line: 1, Column: column, EndLine: 1, EndColumn: end}, width)
		if w := max(width, 20); cellsOf(e.text) > w || e.from > e.to || e.from < 0 || e.to > w {
			t.Errorf("%q at width %d: %+v", line, width, e)
		}
		if bad := unsafeLine(guard("| " + e.text)); bad != "" {
			t.Errorf("%q: %s", e.text, bad)
		}
	})
}

func pod(i int) render.Key {
	return render.Key{APIVersion: "v1", Kind: "Pod", Namespace: "n", Name: fmt.Sprintf("p%03d", i), Unit: "u"}
}

// A hundred equal findings read as one, whether one line or many made them.
func TestTextGroups(t *testing.T) {
	t.Parallel()
	at := func(i, line int, message string) policy.Result {
		return policy.Result{
			Engine: "E", Policy: "p", Rule: "r", Outcome: policy.Fail, Action: policy.Deny, Object: pod(i), Message: message,
			Origins: []render.Origin{{Span: render.Span{File: "f.yaml", Line: line, Column: 1}}},
		}
	}
	for _, c := range []struct {
		name    string
		result  func(i int) policy.Result
		verbose bool
		has     []string
	}{
		{"one-line", func(i int) policy.Result { return at(i, 7, "m") }, false, []string{"and 99 more objects: Pod n/p001, ", "… 91 others (-v names them)"}},
		{"one-line-verbose", func(i int) policy.Result { return at(i, 7, "m") }, true, []string{"Pod n/p099\n"}},
		{"one-message", func(i int) policy.Result { return at(i, i+1, "m") }, false, []string{"also at f.yaml:2:1: Pod n/p001 in u", "also: at 94 more places (-v lists them)"}},
		{"one-message-verbose", func(i int) policy.Result { return at(i, i+1, "m") }, true, []string{"also at f.yaml:100:1: Pod n/p099 in u\n"}},
		{"one-line-many-messages", func(i int) policy.Result { return at(i, 7, fmt.Sprint("m", i)) }, false, []string{"denied: m0\n", "also: m1\n", "96 more messages of this rule here"}},
		{"no-place", func(i int) policy.Result { x := at(i, 7, "m"); x.Origins = nil; return x }, false, []string{"no line is known", "and 99 more objects"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := &Report{}
			for i := range 100 {
				r.Results = append(r.Results, c.result(i))
			}
			out := string(write(t, "text", r, Options{Verbose: c.verbose}))
			if n := strings.Count(out, "denied: "); n != 1 {
				t.Errorf("%d findings", n)
			}
			for _, s := range c.has {
				if !strings.Contains(out, s) {
					t.Errorf("%q is not in it:\n%s", s, out)
				}
			}
		})
	}
}

// What has no place is told by its message alone.
func TestTextWithoutPlace(t *testing.T) {
	t.Parallel()
	r := &Report{}
	for _, m := range []string{"a", "b", "a"} {
		r.Results = append(r.Results, policy.Result{Engine: "E", Policy: "p", Rule: "r", Outcome: policy.Fail, Action: policy.Deny, Object: pod(0), Message: m})
	}
	out := string(write(t, "text", r, Options{}))
	if strings.Count(out, "denied: a\n") != 1 || strings.Count(out, "denied: b\n") != 1 {
		t.Errorf("got\n%s", out)
	}
}

// What differs in rule, action or outcome never reads as one.
func TestTextKeepsApart(t *testing.T) {
	t.Parallel()
	base := policy.Result{
		Engine: "E", Policy: "p", Rule: "r", Outcome: policy.Fail, Action: policy.Deny, Object: pod(0), Message: "m",
		Origins: []render.Origin{{Span: render.Span{File: "f.yaml", Line: 1}}},
	}
	r := &Report{}
	for _, change := range []func(*policy.Result){
		func(*policy.Result) {},
		func(x *policy.Result) { x.Action = policy.Warn },
		func(x *policy.Result) { x.Action = policy.Audit },
		func(x *policy.Result) { x.Outcome = policy.Unknown },
		func(x *policy.Result) { x.Outcome = policy.Error },
		func(x *policy.Result) { x.Engine = "F" },
		func(x *policy.Result) { x.Policy = "q" },
		func(x *policy.Result) { x.Rule = "s" },
	} {
		x := base
		change(&x)
		r.Results = append(r.Results, x)
	}
	out := string(write(t, "text", r, Options{}))
	var words []string
	for line := range strings.SplitSeq(out, "\n") {
		if word, ok := strings.CutSuffix(line, ": m"); ok {
			words = append(words, word)
		}
	}
	want := []string{"denied", "denied", "denied", "denied", "error", "unknown", "warning", "audit"}
	rendertest.Equal(t, want, words)
}

// Absent is not clean: what was not looked at is said, also of a run that found
// nothing, and a quiet clean run says nothing.
func TestTextSummary(t *testing.T) {
	t.Parallel()
	clean := Summary{Units: 1, Rendered: 1, Objects: 3, Policies: 1, Rules: 2}
	rules := []policy.Rule{{Engine: "Kyverno", Policy: "p", Name: "a"}, {Engine: "Kyverno", Policy: "p", Name: "b"}}
	schemas := []policy.Rule{
		{Engine: policy.EngineSchema, Policy: "Pod", Name: "decode"},
		{Engine: policy.EngineSchema, Policy: "Pod", Name: "validate"},
		{Engine: policy.EngineSchema, Policy: "Deployment.apps", Name: "decode"},
		{Engine: policy.EngineCRD, Policy: "xs.example.com", Name: "schema"},
	}
	failed := []Unit{{Path: "charts/db", Kind: "helm", Status: "failed", Reason: "charts/db/Chart.yaml:1: not a chart"}}
	partly := []Unit{{Path: "charts/db", Kind: "helm", Status: "rendered", Objects: 2, Reason: "one template broke"}}
	for _, c := range []struct {
		name    string
		report  Report
		options Options
		want    string
	}{
		{"clean", Report{Summary: clean, Rules: rules}, Options{}, "checked: 3 objects of 1 unit by 2 rules of 1 policy\nresult: 0 denied\n"},
		{"schema", Report{Summary: clean, Rules: schemas[:2]}, Options{}, "checked: 3 objects of 1 unit by the schema of 1 kind\nresult: 0 denied\n"},
		{
			"all",
			Report{Summary: clean, Rules: slices.Concat(rules, schemas)},
			Options{},
			"checked: 3 objects of 1 unit by 2 rules of 1 policy, 1 CustomResourceDefinition and the schemas of 2 kinds\nresult: 0 denied\n",
		},
		{"clean-quiet", Report{Summary: clean}, Options{Quiet: true}, ""},
		{
			"nothing",
			Report{},
			Options{},
			"checked: 0 objects of 0 units by 0 rules of 0 policies\nresult: 0 denied\nnothing was checked: this says nothing about what is in the tree\n",
		},
		{
			"failed-quiet",
			Report{Units: failed, Summary: clean},
			Options{Quiet: true},
			"not rendered: charts/db (helm, failed): charts/db/Chart.yaml:1: not a chart\n",
		},
		{"partly", Report{Units: partly, Summary: clean}, Options{Quiet: true}, "partly rendered: charts/db (helm, rendered): one template broke\n"},
		{"notes", Report{Notes: []string{"a\nb"}, Summary: clean, Rules: rules}, Options{}, "checked: 3 objects of 1 unit by 2 rules of 1 policy\nresult: 0 denied\nnote: a b\n"},
	} {
		if diff := cmp.Diff(c.want, string(write(t, "text", &c.report, c.options))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Quiet shows what fails the run and what could not be looked at.
func TestTextQuiet(t *testing.T) {
	t.Parallel()
	for least, want := range map[policy.Action]string{
		"": "de", policy.Deny: "de", policy.Warn: "dew", policy.Audit: "dewa", "never": "e",
	} {
		r := Report{Results: []policy.Result{
			{Outcome: policy.Fail, Action: policy.Deny, Message: "d"},
			{Outcome: policy.Error, Action: policy.Warn, Message: "e"},
			{Outcome: policy.Fail, Action: policy.Warn, Message: "w"},
			{Outcome: policy.Fail, Action: policy.Audit, Message: "a"},
		}}
		got := ""
		for line := range strings.SplitSeq(string(write(t, "text", &r, Options{Quiet: true, FailOn: least})), "\n") {
			if i := strings.Index(line, ": "); i > 0 && len(line) == i+3 {
				got += line[i+2:]
			}
		}
		if got != want {
			t.Errorf("%q: shows %q, want %q", least, got, want)
		}
	}
}

// A place that the tree does not have is named, and nothing is quoted.
func TestTextWithoutSource(t *testing.T) {
	t.Parallel()
	for _, tree := range []fstest.MapFS{nil, {}, {"f.yaml": {Data: []byte("one line")}}} {
		r := &Report{Results: []policy.Result{{
			Outcome: policy.Fail, Action: policy.Deny, Message: "m", Object: pod(0),
			Origins: []render.Origin{{Span: render.Span{File: "f.yaml", Line: 3, Column: 2}}},
		}}}
		if tree != nil {
			r.Tree = tree
		}
		out := string(write(t, "text", r, Options{}))
		if !strings.Contains(out, "--> f.yaml:3:2\n") || strings.Contains(out, "|") {
			t.Errorf("%v:\n%s", tree, out)
		}
	}
}

// Without the option there is no escape, and with it the text is the same.
func TestTextColour(t *testing.T) {
	t.Parallel()
	plain := write(t, "text", sample(t), Options{})
	coloured := write(t, "text", sample(t), Options{Color: true})
	if bytes.Contains(plain, []byte("\x1b")) || !bytes.Contains(coloured, []byte("\x1b[1;31mdenied")) {
		t.Error("colour is not as asked for")
	}
	if diff := cmp.Diff(string(plain), ourEscapes.ReplaceAllString(string(coloured), "")); diff != "" {
		t.Errorf("(-plain +coloured):\n%s", diff)
	}
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":         "plain",
		"名前 é 😀":        "名前 é 😀",
		"a\nb":          `a\u{a}b`,
		"\x1b[2J":       `\u{1b}[2J`,
		"\u009b1m":      `\u{9b}1m`,
		"\u202e":        `\u{202e}`,
		"a\u200b\ufeff": `a\u{200b}\u{feff}`,
		"\u00a0x":       `\u{a0}x`,
		"\xff":          `\x{ff}`,
		"##[error]x":    `#\u{23}[error]x`,
		"\u3164":        `\u{3164}`,
		"\U000e0041":    `\u{e0041}`,
	} {
		if got := visible(in, 100); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{"xxxxxxxx": "xxxxxxxx", "xxxxxxxxx": "xxxxxxxx…", "éééé": "éééé", "ééééé": "éééé…"} {
		if got := visible(in, 8); got != want {
			t.Errorf("%q cut: got %q, want %q", in, got, want)
		}
	}
	if got := visible("e"+strings.Repeat("\u0301", 10), 1000); got != "e"+strings.Repeat("\u0301", 8)+`\u{301}\u{301}` {
		t.Errorf("marks: %q", got)
	}
}

func TestProse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		" a\r\n\r\n  b\tc\u2028d \n": "a b c d",
		"a  b":                       "a  b",
		"\n":                         "",
	} {
		if got := prose(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := prose(strings.Repeat("é", 10000)); len(got) > maxMessage+8 || !utf8.ValidString(got) {
		t.Errorf("%d bytes", len(got))
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"x ::error::":    "x ::error::",
		"::error::":      `\u{3a}:error::`,
		" \u00a0\t::e":   " \u00a0\t" + `\u{3a}:e`,
		"a ##[warning]b": `a #\u{23}[warning]b`,
		"###[x":          `##\u{23}[x`,
		": :":            ": :",
		"":               "",
	} {
		if got := guard(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// What is wrong at the end of a line, such as an expression that breaks off, is
// marked behind it.
func TestMarkBehindLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line     string
		column   int
		width    int
		shown    string
		from, to int
	}{
		{"- expression: a ==", 19, 40, "- expression: a == ", 18, 19},
		{"- expression: a ==  ", 21, 40, "- expression: a == ", 18, 19},
		{strings.Repeat("x", 60) + " ==", 64, 20, "…xxx == ", 7, 8},
		{"", 1, 40, "", 0, 0},
		{"- expression: a ==", 20, 40, "- expression: a ==", 0, 0},
	} {
		e := newExcerpt(c.line, render.Span{Line: 1, Column: c.column, EndLine: 2, EndColumn: 1}, c.width)
		if e.text != c.shown || e.from != c.from || e.to != c.to {
			t.Errorf("%q at %d: %q, %d to %d", c.line, c.column, e.text, e.from, e.to)
		}
	}
}

// An assumption of several findings stands once, however many each rests on.
func TestRepeatedAssumptions(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Results = nil
	for i := range 3 {
		x := webResult(i)
		x.Rule, x.Assumed = fmt.Sprint(i), []string{fmt.Sprint("only ", i), "the first", "the second"}
		r.Results = append(r.Results, x)
	}
	for _, format := range []string{"text", "markdown", "html"} {
		out := string(write(t, format, r, Options{}))
		for _, want := range []string{"the first (3 findings)", "the second (3 findings)", "only 0", "only 2"} {
			if strings.Count(out, want) != 1 || strings.Count(out, "the second") != 1 {
				t.Errorf("%s: %d times %q:\n%s", format, strings.Count(out, want), want, out)
			}
		}
	}
}

// A change of many objects in the same lines is shown once, with their names.
func TestEqualChanges(t *testing.T) {
	t.Parallel()
	r := &Report{Base: &Base{Revision: "HEAD", Commit: "0123456789abcdef"}}
	update := func(i int, kind, diff string) {
		k := pod(i)
		k.Kind = kind
		r.Changes = append(r.Changes, Change{Operation: policy.Update, Object: k, Diff: diff})
	}
	for i := range 30 {
		update(i, "Pod", fmt.Sprintf("@@ -%d,3 +%d,3 @@\n context: %d\n-a: 1\n+a: 2\n", i, i, i))
	}
	update(30, "Pod", "@@ -1,3 +1,3 @@\n-a: 1\n+a: 3\n")
	update(31, "Job", "@@ -1,3 +1,3 @@\n-a: 1\n+a: 2\n")
	r.Changes = append(r.Changes, Change{Operation: policy.Create, Object: pod(32)}, Change{Operation: policy.Create, Object: pod(33)})
	text := string(write(t, "text", r, Options{}))
	for part, n := range map[string]int{
		"updated: ": 3, "created: ": 2, "the same lines change in 29 more objects: Pod n/p001, ": 1, "… 21 others (-v names them)": 1, "+a: 2": 2, "+a: 3": 1,
	} {
		if strings.Count(text, part) != n {
			t.Errorf("want %d times %q:\n%s", n, part, text)
		}
	}
	markdown := string(write(t, "markdown", r, Options{}))
	_, diffs, _ := strings.Cut(markdown, "### What changes in objects (32)")
	if strings.Count(diffs, "**updated**") != 3 || !strings.Contains(diffs, ", and the same lines in 29 more objects\n") {
		t.Errorf("markdown:\n%s", markdown)
	}
}

// What Argo CD made of one repository is told apart by name, not by path.
func TestMarkdownUnits(t *testing.T) {
	t.Parallel()
	r := &Report{Units: []Unit{{ID: "argocd/a/one", Path: ".", Kind: "argocd", Status: "not-rendered", Reason: "no chart"}}}
	if out := string(write(t, "markdown", r, Options{})); !strings.Contains(out, "- `argocd/a/one` (argocd, not") {
		t.Errorf("got\n%s", out)
	}
}

// TestTallyPods holds that denied results about pods are counted apart.
func TestTallyPods(t *testing.T) {
	t.Parallel()
	var counts tally
	for _, r := range []policy.Result{
		{Outcome: policy.Fail, Action: policy.Deny},
		{Outcome: policy.Fail, Action: policy.Deny, Pods: true},
		{Outcome: policy.Fail, Action: policy.Warn, Pods: true},
		{Outcome: policy.Pass, Pods: true},
	} {
		counts.count(&r)
	}
	if got, want := counts.String(), "2 denied (1 of objects that workloads create), 1 warned; 1 passed"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
