package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report/internal/sarif"
)

// sarifSchemas are the published schema, where it is at hand, and our own of
// what GitHub reads, which is stricter.
var sarifSchemas = []string{"../../shared/specs/sarif/sarif-schema-2.1.0.json", "testdata/sarif-github.schema.json"}

// checkSARIF holds a file against schemas, against the rules of GitHub and
// against the tree.
func checkSARIF(t *testing.T, r *Report, data []byte) {
	t.Helper()
	for _, file := range sarifSchemas {
		schema := compileSchema(t, file)
		if schema == nil {
			continue
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		rendertest.OK(t, err)
		if err := schema.Validate(doc); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, p := range Verify(data, r.Tree) {
		t.Errorf("verify: %s", p)
	}
}

func compileSchema(t *testing.T, file string) *jsonschema.Schema {
	t.Helper()
	f, err := os.Open(file)
	if os.IsNotExist(err) && strings.HasPrefix(file, "../") {
		t.Logf("%s is not here: left out", file)
		return nil
	}
	rendertest.OK(t, err)
	defer f.Close()
	doc, err := jsonschema.UnmarshalJSON(f)
	rendertest.OK(t, err)
	c := jsonschema.NewCompiler()
	rendertest.OK(t, c.AddResource("schema.json", doc))
	schema, err := c.Compile("schema.json")
	rendertest.OK(t, err)
	return schema
}

func sarifOf(t *testing.T, r *Report, o Options) sarif.Run {
	t.Helper()
	data := write(t, "sarif", r, o)
	checkSARIF(t, r, data)
	var log sarif.Log
	rendertest.OK(t, json.Unmarshal(data, &log))
	return log.Runs[0]
}

func TestSARIFIsTrue(t *testing.T) {
	t.Parallel()
	r := sample(t)
	checkSARIF(t, r, write(t, "sarif", r, Options{}))
}

// An empty run closes all alerts, so it has an array of results and all rules.
func TestSARIFClean(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Results, r.Units = nil, nil
	data := write(t, "sarif", r, Options{})
	if !bytes.Contains(data, []byte(`"results": []`)) {
		t.Error("no empty array of results")
	}
	run := sarifOf(t, r, Options{})
	var ids []string
	for _, rule := range run.Tool.Driver.Rules {
		ids = append(ids, rule.ID)
	}
	want := []string{"baseline/hostNamespaces", "baseline/privileged", "labels/validations[0]", "require-limits/validations[0]"}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if n := run.Invocations[0].Notifications; n == nil || len(n) > 0 {
		t.Errorf("notifications: %v", n)
	}
	for _, d := range run.Tool.Driver.Notifications {
		if strings.EqualFold(d.ID, d.Name) {
			t.Errorf("notification %s: id and name are the same, which SARIF1001 forbids", d.ID)
		}
	}
}

// No finding is lost: each has a result or, when nothing in the tree is near
// it, a notification.
func TestSARIFPlaces(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{
		"apps/a b#c%/ключ.yaml":       {Data: []byte("kind: Pod\nname: x\n")},
		"apps/link.yaml":              {Data: []byte("real.yaml"), Mode: os.ModeSymlink},
		"apps/real.yaml":              {Data: []byte("kind: Pod\n")},
		"apps/outside.yaml":           {Data: []byte("../../etc/passwd"), Mode: os.ModeSymlink},
		"apps/loop.yaml":              {Data: []byte("loop.yaml"), Mode: os.ModeSymlink},
		"charts/web/Chart.yaml":       {Data: []byte("name: web\n")},
		"charts/web/values.yaml":      {Data: []byte("a: 1\n")},
		"kustom/kustomization.yaml":   {Data: []byte("resources: []\n")},
		"plain/readme.md":             {Data: []byte("text")},
		"latin1/caf\u00e9/empty.yaml": {Data: nil},
	}
	for _, c := range []struct {
		name, file, unit, policyFile string
		line, column, endLine, end   int
		want                         string
	}{
		{name: "encoded", file: "apps/a b#c%/ключ.yaml", line: 2, column: 7, endLine: 2, end: 8, want: "apps/a%20b%23c%25/%D0%BA%D0%BB%D1%8E%D1%87.yaml:2:7-2:8"},
		{name: "line-0", file: "apps/real.yaml", want: "apps/real.yaml:1:0-1:0"},
		{name: "several-lines", file: "apps/real.yaml", line: 1, column: 1, endLine: 2, end: 1, want: "apps/real.yaml:1:1-1:10"},
		{name: "no-end", file: "apps/real.yaml", line: 1, column: 7, want: "apps/real.yaml:1:7-1:10"},
		{name: "column-past-the-end", file: "apps/real.yaml", line: 1, column: 70, endLine: 1, end: 90, want: "apps/real.yaml:1:0-1:0"},
		{name: "end-past-the-end", file: "apps/real.yaml", line: 1, column: 7, endLine: 1, end: 90, want: "apps/real.yaml:1:7-1:10"},
		{name: "line-past-the-end", file: "apps/real.yaml", line: 99999, column: 1, want: "apps/real.yaml:1:0-1:0"},
		{name: "negative", file: "apps/real.yaml", line: -4, column: -1, want: "apps/real.yaml:1:0-1:0"},
		{name: "empty-file", file: "latin1/caf\u00e9/empty.yaml", line: 1, column: 1, endLine: 1, end: 2, want: "latin1/caf%C3%A9/empty.yaml:1:0-1:0"},
		{name: "symlink", file: "apps/link.yaml", line: 1, column: 1, endLine: 1, end: 5, want: "apps/real.yaml:1:1-1:5"},
		{name: "link-outside", file: "apps/outside.yaml", line: 1, unit: "charts/web", want: "charts/web/Chart.yaml:1:0-1:0"},
		{name: "link-loop", file: "apps/loop.yaml", line: 1, unit: "kustom", want: "kustom/kustomization.yaml:1:0-1:0"},
		{name: "not-in-tree", file: "charts/web/templates/gone.yaml", line: 3, want: "charts/web/Chart.yaml:1:0-1:0"},
		{name: "directory", file: "plain", line: 3, want: "plain/readme.md:1:0-1:0"},
		{name: "dots", file: "../../etc/passwd", line: 1, unit: "apps/real.yaml", want: "apps/real.yaml:1:0-1:0"},
		{name: "absolute", file: "/etc/passwd", line: 1, unit: "charts/web/sub", want: "charts/web/Chart.yaml:1:0-1:0"},
		{name: "url", file: "oci://registry/chart", line: 1, policyFile: "plain/readme.md", want: "plain/readme.md:1:0-1:0"},
		{name: "nowhere", file: "", want: ""},
		{name: "rule-alone", policyFile: "plain/readme.md", want: "plain/readme.md:1:0-1:0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := policy.Result{
				Engine: "E", Policy: "p", Rule: "r", Outcome: policy.Fail, Action: policy.Deny, Message: "m", Fingerprint: "f",
				Object:       render.Key{Kind: "Pod", Name: "x", Unit: c.unit},
				PolicyOrigin: render.Span{File: c.policyFile},
			}
			if c.file != "" {
				x.Origins = []render.Origin{{Span: render.Span{File: c.file, Line: c.line, Column: c.column, EndLine: c.endLine, EndColumn: c.end}}}
			}
			run := sarifOf(t, &Report{Results: []policy.Result{x}, Tree: tree}, Options{})
			got := ""
			for _, r := range run.Results {
				p := r.Locations[0].Physical
				got += fmt.Sprintf("%s:%d:%d-%d:%d", p.Artifact.URI, p.Region.StartLine, p.Region.StartColumn, p.Region.EndLine, p.Region.EndColumn)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if n := len(run.Invocations[0].Notifications); (n == 1) != (c.want == "") {
				t.Errorf("%d notifications", n)
			}
		})
	}
}

// A fix is valid SARIF. One whose place is wrong, or that not all results of the alert have, is left out.
func TestSARIFFixes(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{"a.yaml": {Data: []byte("a: 😀 1\nb: 2\n")}}
	edit := func(line, column, end int) *policy.Repair {
		at := render.Span{File: "a.yaml", Line: line, Column: column, EndLine: line, EndColumn: end}
		return &policy.Repair{Text: "Set a: 3 (safe)", Edits: []policy.Replacement{{Span: at, Text: "3\r\n😀"}}}
	}
	for _, c := range []struct {
		name  string
		fixes []*policy.Repair // of results of a rule at a line
		want  int
	}{
		{"one", []*policy.Repair{edit(1, 6, 7)}, 1},
		{"equal", []*policy.Repair{edit(1, 6, 7), edit(1, 6, 7)}, 1},
		{"other", []*policy.Repair{edit(1, 6, 7), edit(1, 5, 7)}, 0},
		{"some", []*policy.Repair{edit(1, 6, 7), nil}, 0},
		{"backwards", []*policy.Repair{edit(1, 6, 5)}, 0},
		{"beyond", []*policy.Repair{edit(9, 6, 7)}, 0},
		{"empty", []*policy.Repair{{Text: "x"}}, 0},
		{"outside", []*policy.Repair{{Text: "x", Edits: []policy.Replacement{{Span: render.Span{File: "../a.yaml", Line: 1, Column: 1, EndLine: 1, EndColumn: 1}}}}}, 0},
	} {
		r := &Report{Tree: tree}
		for i, f := range c.fixes {
			x := policy.Result{Engine: "E", Policy: "p", Rule: "r", Outcome: policy.Fail, Action: policy.Deny, Message: "m", Fingerprint: "f", Fix: f}
			x.Object = render.Key{Kind: "Pod", Name: fmt.Sprint(i), Unit: "a.yaml"}
			x.Origins = []render.Origin{{Span: render.Span{File: "a.yaml", Line: 1}}}
			r.Results = append(r.Results, x)
		}
		data := write(t, "sarif", r, Options{})
		checkSARIF(t, r, data)
		if n := strings.Count(string(data), `"artifactChanges"`); n != c.want {
			t.Errorf("%s: %d fixes: %s", c.name, n, data)
		}
		if c.want > 0 {
			for _, p := range Verify(bytes.Replace(data, []byte(`"startColumn": 6,`), []byte(`"startColumn": 60,`), 1), tree) {
				t.Log(p)
				c.want--
			}
			if c.want > 0 {
				t.Errorf("%s: Verify accepts a fix of a column that the line does not have", c.name)
			}
		}
	}
}

// Without a tree lines stay as they are, and nothing that needs one is there.
func TestSARIFWithoutTree(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Tree = nil
	data := write(t, "sarif", r, Options{})
	checkSARIF(t, r, data)
	for _, key := range []string{"primaryLocationLineHash", "snippet"} {
		if bytes.Contains(data, []byte(key)) {
			t.Errorf("there is a %s", key)
		}
	}
	if !bytes.Contains(data, []byte(`"uri": "charts/web/values.yaml"`)) {
		t.Error("a place is lost")
	}
}

// A Secret's data is in no format, whoever points to its line.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Tree = fstest.MapFS{
		"s.yaml":     {Data: []byte("apiVersion: v1\nkind: Secret\nstringData:\n  key: hunter2\n  block: |\n    hunter2\ndata: {\"a\": hunter2}\n")},
		"v.yaml":     {Data: []byte("dbPassword: hunter2\nother: x\n")},
		"p.yaml":     {Data: []byte("password: \"hunter2\n")},
		"j.json":     {Data: []byte(`{"kind":"Secret","data":{"a":"hunter2"}}`)},
		"alone.yaml": {Data: []byte("kind: Secret\ndata:\n  key: hunter2\n")},
		"file.json":  {Data: []byte(`{"a":"hunter2"}`)},
		"unit.json":  {Data: []byte(`{"a":"hunter2"}`)},
		"l.yaml":     {Data: []byte("v.yaml"), Mode: os.ModeSymlink},
		"rendered":   {Data: []byte("kind: Pod\n")},
	}
	secret := render.Key{APIVersion: "v1", Kind: "Secret", Name: "s", Unit: "s.yaml"}
	pod := render.Key{APIVersion: "v1", Kind: "Pod", Name: "p", Unit: "s.yaml"}
	at := func(file string, line int) render.Origin {
		return render.Origin{Span: render.Span{File: file, Line: line, Column: 3, EndLine: line, EndColumn: 40}, Role: render.Value}
	}
	fail := func(k render.Key, o ...render.Origin) policy.Result {
		return policy.Result{Engine: "E", Policy: "p", Rule: "r", Outcome: policy.Fail, Action: policy.Deny, Message: "m", Object: k, Origins: o}
	}
	broken := policy.Result{Engine: policy.EngineRender, Rule: "yaml-syntax", Outcome: policy.Error, Action: policy.Deny, Message: "m"}
	placeless := secret
	placeless.Unit = "unit.json"
	r.Results = []policy.Result{
		fail(secret, at("s.yaml", 4), at("v.yaml", 1)), fail(secret, at("gone.yaml", 4)), fail(secret, at("s.yaml", 6)), fail(secret, at("s.yaml", 7)),
		fail(secret, at("j.json", 1)), fail(secret, at("file.json", 0)), fail(placeless),
		fail(pod, at("rendered", 1), at("v.yaml", 1)), fail(pod, at("v.yaml", 1)), fail(pod, at("l.yaml", 1)), fail(pod, at("j.json", 0)), fail(pod, at("file.json", 1)),
	}
	for _, o := range []render.Origin{at("s.yaml", 6), at("alone.yaml", 3), at("p.yaml", 1), at("j.json", 1), at("v.yaml", 1)} {
		broken.Origins = []render.Origin{o}
		r.Results = append(r.Results, broken)
	}
	for _, f := range Formats {
		for _, o := range []Options{{}, {Verbose: true, Width: 200}} {
			if out := write(t, f.Name, r, o); bytes.Contains(out, []byte("hunter2")) {
				t.Errorf("%s shows it:\n%s", f.Name, out)
			}
		}
	}
}

// A line of a Secret at fault is shown where it holds no secret.
func TestSecretsLabelsAreShown(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Tree = fstest.MapFS{
		"s.yaml": {Data: []byte("kind: Secret\nmetadata:\n  labels:\n    app: Not a label\nimmutable: \"yes\"\nflow: {immutable: 1, data: hunter2}\n")},
		"t.yaml": {Data: []byte("kind: Secret\nstringData:\n  a: {{ include \"chart.password\" . }}\n  b: {{ \"hunter2\" | b64enc }}\n")},
	}
	secret := render.Key{APIVersion: "v1", Kind: "Secret", Name: "s", Unit: "s.yaml"}
	fail := func(k render.Key, file string, line int, fields ...string) policy.Result {
		return policy.Result{
			Engine: "E", Policy: "p", Rule: "r", Outcome: policy.Fail, Action: policy.Deny, Message: fmt.Sprint(file, line), Object: k, Fields: fields,
			Origins: []render.Origin{{Span: render.Span{File: file, Line: line, Column: 1, EndLine: line, EndColumn: 40}, Role: render.Manifest}},
		}
	}
	r.Results = []policy.Result{
		fail(secret, "s.yaml", 4, "/metadata/labels/app"), fail(secret, "s.yaml", 5, "/immutable"), fail(secret, "s.yaml", 6, "/immutable"),
		fail(render.Key{Unit: "t"}, "t.yaml", 3), fail(render.Key{Unit: "t"}, "t.yaml", 4),
	}
	out := string(write(t, "text", r, Options{Verbose: true, Width: 200}))
	for _, want := range []string{"app: Not a label", `immutable: "yes"`, `a: {{ include "chart.password" . }}`} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not shown:\n%s", want, out)
		}
	}
	lines, _ := NewSource(r).Lines("s.yaml")
	if shown := strings.Join(lines, "\n"); strings.Contains(out+shown, "hunter2") || !strings.Contains(shown, "app: Not a label") {
		t.Errorf("shown:\n%s\n%s", shown, out)
	}
	r.Results = append(r.Results, fail(secret, "s.yaml", 4, "/stringData/a")) // the same line makes a secret too
	if out := string(write(t, "text", r, Options{Verbose: true, Width: 200})); strings.Contains(out, "Not a label") {
		t.Errorf("a line that makes a secret too is shown:\n%s", out)
	}
}

// Ids are policy/rule, which is what suppressions say; engines come before it
// only where they must.
func TestRuleIDs(t *testing.T) {
	t.Parallel()
	r := &Report{Rules: []policy.Rule{
		{Engine: "Kyverno", Policy: "limits", Name: "check"},
		{Engine: "ValidatingPolicy", Policy: "limits", Name: "check"},
		{Engine: "Kyverno", Policy: "a/b", Name: "c"},
		{Engine: "Kyverno", Policy: "a", Name: "b/c"},
		{Engine: "Rego", Policy: "main", Name: ""},
		{Engine: "Rego", Policy: "main", Name: "", Title: "the same again"},
		{Engine: "PodSecurity", Policy: "baseline", Name: "privileged"},
	}}
	results := newList(&Report{Results: []policy.Result{{Engine: "Render", Rule: "yaml-syntax"}, {Engine: "Render", Policy: "helm", Rule: "yaml-syntax"}}})
	want := []string{
		"Kyverno/a/b/c", "Kyverno/a/b/c~2", "Kyverno/limits/check", "ValidatingPolicy/limits/check",
		"baseline/privileged", "helm/yaml-syntax", "main", "render/yaml-syntax",
	}
	rendertest.Equal(t, want, newRuleIDs(r, results).ids)
}

// Of more results than GitHub takes, the worst are kept, and it is said.
func TestSARIFTruncates(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for range 7001 {
		b.WriteString("key: value\n")
	}
	r := &Report{Tree: fstest.MapFS{"a.yaml": {Data: []byte(b.String())}}}
	for i := range 7000 {
		x := policy.Result{
			Engine: "E", Policy: "p", Rule: "r", Outcome: policy.Fail, Action: policy.Warn, Message: "m", Fingerprint: "f",
			Object:  render.Key{Kind: "Pod", Name: fmt.Sprint(i)},
			Origins: []render.Origin{{Span: render.Span{File: "a.yaml", Line: i + 1}}},
		}
		if i >= 6900 {
			x.Action = policy.Deny
		}
		r.Results = append(r.Results, x)
	}
	data := write(t, "sarif", r, Options{})
	for _, p := range Verify(data, r.Tree) {
		t.Errorf("verify: %s", p)
	}
	var log sarif.Log
	rendertest.OK(t, json.Unmarshal(data, &log))
	run := log.Runs[0]
	if len(run.Results) != 5000 || run.Properties.Omitted != 2000 {
		t.Errorf("%d results, %d omitted", len(run.Results), run.Properties.Omitted)
	}
	for i, res := range run.Results[:101] {
		if want := map[bool]string{true: "error", false: "warning"}[i < 100]; res.Level != want {
			t.Fatalf("result %d has the level %s", i, res.Level)
		}
	}
	notes := run.Invocations[0].Notifications
	if len(notes) != 1 || !strings.Contains(notes[0].Message.Text, "5000 of 7000 results") {
		t.Errorf("notifications: %+v", notes)
	}
}

// A file that GitHub would refuse for its size is cut too.
func TestSARIFIsNeverTooLarge(t *testing.T) {
	t.Parallel()
	r := &Report{Tree: fstest.MapFS{"a.yaml": {Data: []byte(strings.Repeat("a\n", 6000))}}}
	noise := uint64(1)
	for i := range 3000 {
		var b strings.Builder
		for b.Len() < 6000 {
			noise = noise*6364136223846793005 + 1442695040888963407
			fmt.Fprintf(&b, "%x", noise)
		}
		x := policy.Result{
			Engine: "E", Policy: "p", Rule: "r", Outcome: policy.Fail, Action: policy.Deny, Message: b.String(), Hint: b.String(),
			Object:  render.Key{Kind: "Pod", Name: fmt.Sprint(i)},
			Origins: []render.Origin{{Span: render.Span{File: "a.yaml", Line: i + 1}}},
			Assumed: []string{b.String(), b.String()[1:]},
		}
		r.Results = append(r.Results, x)
	}
	data := write(t, "sarif", r, Options{})
	if n := gzipped(data); n > 10<<20 || n < 1<<20 {
		t.Errorf("%d bytes when compressed", n)
	}
	if !bytes.Contains(data, []byte("are left out, since GitHub takes no more")) {
		t.Error("it is not said that results are left out")
	}
}

// A result that is not decided is an alert, since without one the line would look clean.
func TestSARIFUndecided(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action policy.Action
		want   string
	}{
		{policy.Deny, "warning"},
		{policy.Warn, "warning"},
		{policy.Audit, "note"},
	} {
		r := sample(t)
		r.Units = nil
		r.Results = slices.DeleteFunc(r.Results, func(x policy.Result) bool { return x.Outcome != policy.Unknown || len(x.Missing) > 0 })
		r.Results[0].Action = c.action
		run := sarifOf(t, r, Options{})
		if got := run.Results[0].Level; got != c.want {
			t.Errorf("%s: got %s, want %s", c.action, got, c.want)
		}
		if n := run.Invocations[0].Notifications; len(n) != 1 || n[0].Descriptor.ID != "not-decided" {
			t.Errorf("notifications: %+v", n)
		}
	}
}

// Suppressed results would be opened as alerts, and so would those that are gone.
func TestSARIFLeavesOutAccepted(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Units, r.Results = nil, nil
	for i, state := range []policy.Baseline{policy.New, policy.Unchanged, policy.Absent, policy.New} {
		x := webResult(i)
		x.Baseline = state
		x.Origins = []render.Origin{{Span: render.Span{File: "charts/web/values.yaml", Line: i + 1}}}
		if i == 3 {
			x.Suppression = &policy.Suppression{Reason: "known", Expires: "2027-01-01"}
		}
		r.Results = append(r.Results, x)
	}
	var lines []int
	for _, res := range sarifOf(t, r, Options{}).Results {
		lines = append(lines, res.Locations[0].Physical.Region.StartLine)
	}
	rendertest.Equal(t, []int{1, 2}, lines)
}

// A unit of which no result says that it failed is still in the file.
func TestSARIFUnits(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Results = nil
	run := sarifOf(t, r, Options{})
	n := run.Invocations[0].Notifications
	if len(n) != 1 || n[0].Descriptor.ID != "not-rendered" || !strings.HasPrefix(n[0].Message.Text, "charts/db was not rendered") || len(n[0].Locations) != 1 {
		t.Errorf("notifications: %+v", n)
	}
}
