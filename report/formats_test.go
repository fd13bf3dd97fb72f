package report

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// manyResults are findings of one rule at a line each, in the tree of the sample.
func manyResults(n int, of func(i int, x *policy.Result)) []policy.Result {
	var results []policy.Result
	for i := range n {
		x := webResult(i)
		x.Message = fmt.Sprintf("message %02d", i)
		x.Origins = []render.Origin{{Span: render.Span{File: "charts/web/templates/deployment.yaml", Line: 1 + i%11}, Role: render.Template}}
		of(i, &x)
		results = append(results, x)
	}
	return results
}

// TestGitHubShowsTheWorst holds that of each level the ten worst new findings are
// shown, and the others counted.
func TestGitHubShowsTheWorst(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Results = manyResults(40, func(i int, x *policy.Result) {
		x.Rule = fmt.Sprintf("rule-%02d", i)
		x.Action = []policy.Action{policy.Deny, policy.Warn}[i%2]
		x.Baseline = policy.New
		switch {
		case i == 38:
			x.Severity = policy.Critical
		case i == 39:
			x.Outcome, x.Action = policy.Unknown, policy.Audit
		case i < 4:
			x.Baseline = policy.Unchanged
		}
	})
	out := write(t, "github", r, Options{})
	all, err := commands(out)
	rendertest.OK(t, err)
	counts := make(map[string]int)
	for _, c := range all {
		counts[c.name]++
		if strings.Contains(c.data, "message 00") || strings.Contains(c.data, "message 01") {
			t.Errorf("what was there before is annotated: %+v", c)
		}
	}
	if diff := cmp.Diff(map[string]int{"error": 10, "warning": 10, "notice": 1}, counts); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(all[0].data, "message 38\n") {
		t.Errorf("the worst is not first: %q", all[0].data)
	}
	if !strings.Contains(string(out), "\n8 errors, 7 warnings more in the summary (-o markdown): GitHub shows ten of a kind\n") {
		t.Errorf("the others are not counted:\n%s", out)
	}
}

// A command says what it said before it was escaped, and a file that GitHub
// can't show is named in the text alone.
func TestGitHubEscapes(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Results = manyResults(2, func(i int, x *policy.Result) {
		x.Message = "100%: a, b::c\nd %0A e"
		x.Policy = "p,q:r%"
		if i == 1 {
			x.Rule = "elsewhere"
			x.Object.Unit = "gone"
			x.Origins[0].File = "not/in/the/tree.yaml"
		}
	})
	out := write(t, "github", r, Options{})
	all, err := commands(out)
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %d commands:\n%s", err, len(all), out)
	}
	if all[0].props["title"] != "denied: p,q:r%/validations[0]" || !strings.HasPrefix(all[0].data, "100%: a, b::c d %0A e\n") {
		t.Errorf("got %+v", all[0])
	}
	if !strings.HasPrefix(string(out), "::error file=charts/web/templates/deployment.yaml,line=1,endLine=1,title=denied%3A p%2Cq%3Ar%25/validations[0]::100%25: a, b::c d %250A e%0A") {
		t.Errorf("got %s", out)
	}
	if all[1].props["file"] == "not/in/the/tree.yaml" || !strings.Contains(all[1].data, "not/in/the/tree.yaml:2") {
		t.Errorf("got %+v", all[1])
	}
}

// A case is red if the run is, and what does not count says why.
func TestJUnitVerdicts(t *testing.T) {
	t.Parallel()
	accepted := &policy.Suppression{Reason: "known", Expires: "2027-03-31"}
	for _, c := range []struct {
		outcome     policy.Outcome
		action      policy.Action
		baseline    policy.Baseline
		suppression *policy.Suppression
		failOn      policy.Action
		want        string
	}{
		{policy.Fail, policy.Deny, "", nil, "", "failure: m"},
		{policy.Fail, policy.Deny, policy.New, nil, "", "failure: m"},
		{policy.Fail, policy.Deny, policy.Unchanged, nil, "", "skipped: there before, and unchanged: m"},
		{policy.Fail, policy.Deny, policy.Absent, nil, "", "0 0 0"},
		{policy.Fail, policy.Deny, "", accepted, "", "skipped: suppressed until 2027-03-31 (known): m"},
		{policy.Fail, policy.Warn, "", nil, "", "skipped: does not fail the run: m"},
		{policy.Fail, policy.Warn, "", nil, policy.Warn, "failure: m"},
		{policy.Fail, policy.Audit, "", nil, policy.Warn, "skipped: does not fail the run: m"},
		{policy.Fail, policy.Deny, "", nil, "never", "skipped: does not fail the run: m"},
		{policy.Unknown, policy.Audit, "", nil, "never", "error: m"},
		{policy.Error, policy.Deny, policy.New, nil, "", "error: m"},
		{policy.Error, policy.Deny, policy.Unchanged, nil, "", "skipped: there before, and unchanged: m"},
		{policy.Skip, policy.Deny, "", nil, "", "1 1 0"},
		{policy.Pass, policy.Deny, "", nil, "", "1 0 1"},
	} {
		r := sample(t)
		r.Units = r.Units[:1]
		x := webResult(0)
		x.Message, x.Object.Unit = "m", r.Units[0].Path
		x.Outcome, x.Action, x.Baseline, x.Suppression = c.outcome, c.action, c.baseline, c.suppression
		r.Results = []policy.Result{x}
		all, err := readJUnit(write(t, "junit", r, Options{FailOn: c.failOn}))
		if err != nil || len(all.Suites) != 1 {
			t.Fatalf("%v: %+v", err, all)
		}
		s := all.Suites[0]
		got := fmt.Sprint(s.Tests, " ", s.Skipped, " ", s.Properties[0].Value)
		for _, tc := range s.Cases {
			for tag, d := range map[string][]junitDetail{"failure": tc.Failure, "error": tc.Error, "skipped": tc.Skipped} {
				if len(d) > 0 {
					got = tag + ": " + d[0].Message
				}
			}
		}
		if got != c.want {
			t.Errorf("%s %s %s, fail on %q: got %q, want %q", c.outcome, c.action, c.baseline, c.failOn, got, c.want)
		}
	}
}

// Several results of one rule about one object are one case, as bad as the
// worst of them, and a unit that nothing tells about is in error.
func TestJUnitCases(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Results = manyResults(3, func(i int, x *policy.Result) {
		x.Object.Name = "one"
		if i == 0 {
			x.Action = policy.Warn
		}
	})
	all, err := readJUnit(write(t, "junit", r, Options{}))
	rendertest.OK(t, err)
	got := make(map[string][]junitCase)
	for _, s := range all.Suites {
		got[s.Name] = s.Cases
	}
	web := got["charts/web"]
	if len(web) != 1 || len(web[0].Failure) != 1 || !strings.Contains(web[0].Failure[0].Text, "message 00") || web[0].Failure[0].Message != "message 01" {
		t.Errorf("charts/web has %+v", web)
	}
	if db := got["charts/db"]; len(db) != 1 || len(db[0].Error) != 1 || !strings.Contains(db[0].Error[0].Message, "not vendored") {
		t.Errorf("charts/db has %+v", db)
	}
}

// Jenkins' schema takes it, where that and xmllint are at hand.
func TestJUnitSchema(t *testing.T) {
	t.Parallel()
	const schema = "../../shared/specs/sarif/junit-10.xsd"
	if _, err := exec.LookPath("xmllint"); err != nil {
		t.Skip("there is no xmllint")
	}
	for _, file := range []string{"junit", "junit-warn", "junit-change"} {
		out, err := exec.Command("xmllint", "--nonet", "--noout", "--schema", schema, "testdata/want."+file).CombinedOutput()
		if strings.Contains(string(out), "failed to load") {
			t.Skipf("%s is not here", schema)
		}
		if err != nil {
			t.Errorf("%s: %s", file, out)
		}
	}
}

// The same object in two manifests, and the same finding twice, are entries of
// their own; what was there before is in the report, and what is suppressed or
// gone is not. A moved line changes no fingerprint.
func TestGitLabFingerprints(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Units = nil
	r.Results = manyResults(6, func(i int, x *policy.Result) {
		x.Object.Name, x.Fingerprint, x.Message = "one", "same", "m"
		switch i {
		case 1:
			x.Object.Unit = "apps/prod"
		case 3:
			x.Baseline = policy.Unchanged
		case 4:
			x.Baseline = policy.Absent
		case 5:
			x.Suppression = &policy.Suppression{}
		}
	})
	prints := func() []string {
		out := write(t, "gitlab", r, Options{})
		if err := checkQuality(r, out, Options{}); err != nil {
			t.Error(err)
		}
		all, err := readQuality(out)
		rendertest.OK(t, err)
		var prints []string
		for _, e := range all {
			prints = append(prints, e.Fingerprint)
		}
		slices.Sort(prints)
		return prints
	}
	before := prints()
	if len(before) != 4 {
		t.Errorf("there are %d entries", len(before))
	}
	for i := range r.Results {
		r.Results[i].Origins[0].Line++
	}
	if diff := cmp.Diff(before, prints()); diff != "" {
		t.Errorf("lower down they are others:\n%s", diff)
	}
}

// A clean run is an empty array, which GitLab takes for "all fixed", a page and
// a summary that say so, and a report that counts.
func TestCleanRuns(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Results, r.Units = nil, r.Units[:1]
	for format, want := range map[string]string{
		"gitlab":       "[\n]\n",
		"markdown":     "## preadmit: 0 denied\n\nChecked: 16 objects",
		"github":       "result: 0 denied\n",
		"junit":        `tests="0" failures="0" errors="0">`,
		"html":         `<p class="tally">0 denied</p>`,
		"policyreport": "kind: ClusterPolicyReport\nmetadata:\n  name: preadmit\n  labels:\n    app.kubernetes.io/managed-by: preadmit\nsummary:\n  pass: 0\n",
	} {
		out := write(t, format, r, Options{})
		if !strings.Contains(string(out), want) {
			t.Errorf("%s does not hold %q:\n%s", format, want, out)
		}
		if err := checks[format](r, out, Options{}); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
	r.Summary.Objects = 0
	for format, want := range map[string]string{"markdown": "**Nothing was checked**", "html": "<strong>Nothing was checked</strong>", "github": "nothing was checked"} {
		if out := write(t, format, r, Options{}); !strings.Contains(string(out), want) {
			t.Errorf("%s does not say that nothing was checked:\n%s", format, out)
		}
	}
}

// The page's policy lets through its own style and script and nothing else.
func TestHTMLPolicy(t *testing.T) {
	t.Parallel()
	out := string(write(t, "html", sample(t), Options{}))
	for tag, directive := range map[string]string{"style": "style-src", "script": "script-src"} {
		body := regexp.MustCompile(`(?s)<` + tag + `>(.*)</` + tag + `>`).FindStringSubmatch(out)
		if body == nil {
			t.Fatalf("there is no %s", tag)
		}
		sum := sha256.Sum256([]byte(body[1]))
		if want := directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(out, want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
	if !strings.Contains(out, `content="default-src 'none'; `) {
		t.Error("the policy allows more")
	}
	for _, bad := range []string{"http:", "https:", "url(", "@import", "fetch(", "XMLHttpRequest", "innerHTML", "eval("} {
		if strings.Contains(strings.Replace(out, "http-equiv", "", 1), bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
}

// A PolicyReport has what PolicyReport calls a result, by the namespace.
func TestPolicyReportResults(t *testing.T) {
	t.Parallel()
	all, err := readClusterReports(write(t, "policyreport", sample(t), Options{}))
	rendertest.OK(t, err)
	var got []string
	for _, doc := range all {
		got = append(got, fmt.Sprintf("%s %q %+v", doc.Kind, doc.Metadata.Namespace, doc.Summary))
	}
	want := []string{
		`ClusterPolicyReport "" {Pass:0 Fail:0 Warn:0 Error:5 Skip:0}`,
		`PolicyReport "dev" {Pass:0 Fail:0 Warn:0 Error:1 Skip:0}`,
		`PolicyReport "prod" {Pass:1 Fail:14 Warn:4 Error:4 Skip:2}`,
	}
	rendertest.Equal(t, want, got)
}

// A namespace with more than etcd takes is in several reports of other names.
func TestPolicyReportIsCut(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Results = manyResults(3000, func(_ int, x *policy.Result) { x.Message = strings.Repeat("long ", 200) })
	out := write(t, "policyreport", r, Options{})
	if err := checkClusterReports(r, out, Options{}); err != nil {
		t.Error(err)
	}
	docs := strings.Split(string(out), "---\n")
	if len(docs) < 4 {
		t.Errorf("there are %d documents", len(docs)-1)
	}
	for _, doc := range docs {
		if len(doc) > 1_100_000 {
			t.Errorf("a document has %d bytes", len(doc))
		}
	}
}

// A summary of GitHub's is cut part by part, and says so first.
func TestMarkdownIsCut(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Results = append(r.Results, manyResults(5000, func(i int, x *policy.Result) {
		x.Rule = fmt.Sprint(i)
		x.Message = fmt.Sprint(i, strings.Repeat(" $long$ [x](y)", 100))
	})...)
	out := string(write(t, "markdown", r, Options{}))
	if err := checkMarkdown(r, []byte(out), Options{}); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"**Not all is shown below**", `of 5014 under "Denied"`, "of these 5014 are not shown here.", "### Not decided (1)", "### Missing (2)", "### Warned (3)", "### Suppressed (1)", "### Notes (1)"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if strings.Index(out, "### Denied") > strings.Index(out, "### In error") {
		t.Error("what is denied does not come first")
	}
	if n := strings.Count(out, "\n- denied: "); n < 100 {
		t.Errorf("of the findings that have no room %d are shown briefly", n)
	}
}
