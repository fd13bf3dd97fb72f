package policytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// aConstraint says about an object what its annotation "says" tells it to: a word
// a violation, "pass", "unknown" and "error" apart; nothing without one.
type aConstraint struct {
	setup     *GatorSetup
	inventory []*render.Object
	got       *[]*render.Object
}

func (a aConstraint) Among(inventory []*render.Object) GatorPolicy {
	a.inventory = inventory
	return a
}

func (a aConstraint) Evaluate(_ context.Context, o *render.Object) ([]policy.Result, error) {
	if a.got != nil {
		*a.got = append(*a.got, o)
	}
	if r, err := reviewOf(o); err == nil {
		o = r.subject
	}
	says := o.GetAnnotations()["says"]
	if says == "nothing" {
		return nil, errors.New("can't be judged")
	}
	var results []policy.Result
	for _, word := range strings.Fields(says) {
		r := policy.Result{Outcome: policy.Fail, Message: "message " + word, Assumed: []string{"taken for granted"}}
		switch word {
		case "pass", "unknown", "error":
			r.Outcome = policy.Outcome(word)
		case "inventory":
			r.Message = ""
			for _, o := range a.inventory {
				r.Message += fmt.Sprint(o.GetName(), o.GetAnnotations())
			}
		case "expansions":
			r.Message = fmt.Sprint(len(a.setup.Expansions))
		}
		results = append(results, r)
	}
	return results, nil
}

// gatorEngines refuse a constraint by its annotation "broken", which is a Rule.
func gatorEngines(got *[]*render.Object) Engines {
	e := testEngines(new([]*policy.Request))
	e.Gator = func(s *GatorSetup) (GatorPolicy, error) {
		if rule, ok := s.Constraint.GetAnnotations()["broken"]; ok {
			return nil, &render.Error{Span: s.Constraint.Span(""), Rule: rule, Err: errors.New("is broken")}
		}
		return aConstraint{setup: s, got: got}, nil
	}
	return e
}

var gatorFiles = map[string]string{
	"template.yaml":   "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {name: limits}\n",
	"constraint.yaml": "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Limits\nmetadata: {name: c}\n",
	"broken.yaml":     "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Limits\nmetadata: {name: c, annotations: {broken: other}}\n",
	"schema.yaml":     "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Limits\nmetadata: {name: c, annotations: {broken: constraint-schema}}\n",
	"more.yaml":       "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Limits\nmetadata: {name: c}\n---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Limits\nmetadata: {name: d}\n",
	"expansion.yaml":  "apiVersion: expansion.gatekeeper.sh/v1beta1\nkind: ExpansionTemplate\nmetadata: {name: e}\n---\napiVersion: expansion.gatekeeper.sh/v1beta1\nkind: ExpansionTemplate\nmetadata: {name: f}\n",
	"two.yaml":        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: b}\n",
	"again.yaml":      "apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {k: v}}\n",
	"text.yaml":       "hello\n",
	"nokind.yaml":     "apiVersion: v1\nmetadata: {name: a}\n",
	"list.yaml":       "apiVersion: v1\nkind: List\nmetadata: {name: l, annotations: {says: one}}\nitems: []\n",
	"word.yaml":       "apiVersion: v1\nkind: Pod\nmetadata: {name: yes, annotations: {says: pass}}\n",
	"empty.yaml":      "# nothing\n---\n",
	"bad.yaml":        "a: [\n",
}

func withGatorFiles(suite string, more map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{"suite.yaml": {Data: []byte(suite)}}
	for _, files := range []map[string]string{gatorFiles, more} {
		for name, text := range files {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return fsys
}

// aPod says what it is told to.
func aPod(says string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: pod, namespace: ns, annotations: {says: %q}}\n", says)
}

func runGator(t *testing.T, suite string, more map[string]string, got *[]*render.Object) *Report {
	t.Helper()
	r, err := Run(context.Background(), Options{FS: withGatorFiles(suite, more), Engines: gatorEngines(got)}, "suite.yaml")
	rendertest.OK(t, err)
	if len(r.Suites) != 1 || r.Suites[0].Kind != "gator" {
		t.Fatalf("%+v", r)
	}
	return r
}

// lines are a case's parts, a suite's errors and its notes, one a line.
func gatorLines(s *Suite) []string {
	var lines []string
	for _, c := range s.Cases {
		p := testWord(&c)
		lines = append(lines, fmt.Sprintf("%s %d %s %s/%s %s %s: want %s, got %s: %s", p, c.Line, c.Name, c.Policy, c.Rule, c.Kind, c.Resource, c.Want, c.Got, c.Reason))
	}
	if s.Error != "" {
		lines = append(lines, strings.Split(s.Error, "\n")...)
	}
	for _, n := range s.Notes {
		lines = append(lines, "note "+n)
	}
	return lines
}

func testWord(c *Case) string {
	switch {
	case c.OK && c.Vacuous:
		return "VACUOUS"
	case c.OK:
		return "ok"
	case c.Got == "":
		return "ERROR"
	}
	return "FAIL"
}

const gatorHead = "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests:\n- {name: t, template: template.yaml, constraint: constraint.yaml"

// TestGatorAssertions holds what gator's assertions come to.
func TestGatorAssertions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says, assertions string
		want             string
	}{
		{"pass", "{violations: no}", "ok: want no violations, got no violations: "},
		{"pass", "{violations: 0}", "ok: want no violations, got no violations: "},
		{"pass", "{}", "FAIL: want violations, got no violations: "},
		{"pass", "{violations: yes}", "FAIL: want violations, got no violations: "},
		{"a", "{violations: yes}", "ok: want violations, got violations: message a"},
		{"a", "{violations: null}", "ok: want violations, got violations: message a"},
		{"a b", "{}", "ok: want violations, got violations: message a; message b"},
		{"a b", "{Violations: 2}", "ok: want 2 violations, got 2 violations: message a; message b"},
		{"a b", "{violations: no}", "FAIL: want no violations, got 2 violations: message a; message b"},
		{"a b", "{violations: 1}", "FAIL: want 1 violation, got 2 violations: message a; message b"},
		{"a b", "{violations: 1, message: a$}", `ok: want 1 violation with "a$", got 1 violation with "a$": message a; message b`},
		{"a b", "{violations: 2}, {violations: 1, message: a$}, {violations: 0, message: c}", `ok: want 2 violations, 1 violation with "a$", no violations with "c", got 2 violations, 1 violation with "a$", no violations with "c": message a; message b`},
		{"a b", "{violations: 2}, {message: c}", `FAIL: want 2 violations, violations with "c", got 2 violations, no violations with "c": message a; message b`},
		{"", "{violations: no}", "VACUOUS: want no violations, got no violations: the constraint is not evaluated: it does not match the object, or is not enforced in gator"},
		{"", "{violations: yes}", "FAIL: want violations, got no violations: the constraint is not evaluated: it does not match the object, or is not enforced in gator"},
		{"nothing", "{violations: no}", "ERROR: want no violations, got : can't be judged"},
		{"a unknown", "{violations: yes}", "ERROR: want violations, got : message unknown"},
		{"error", "{violations: no}", "ERROR: want no violations, got : message error"},
		{"pass", "", "ERROR: want , got : suite.yaml:4:75: the case has no assertions"},
		{"pass", "{violations: -1}", "ERROR: want ?, got : suite.yaml:4:115: violations must be \"yes\", \"no\" or a number that is not negative"},
		{"pass", "{violations: true}", "ERROR: want ?, got : suite.yaml:4:115: violations must be \"yes\", \"no\" or a number that is not negative"},
		{"pass", "{violations: 1.5}", "ERROR: want ?, got : suite.yaml:4:115: violations must be \"yes\", \"no\" or a number that is not negative"},
		{"pass", "{violations: '2'}", "ERROR: want ?, got : suite.yaml:4:115: violations must be \"yes\", \"no\" or a number that is not negative"},
		{"pass", "{violations: no, message: '('}", "ERROR: want no violations, got : suite.yaml:4:131: message is not a regular expression: error parsing regexp: missing closing ): `(`"},
		{"pass", "{violations: no, mesage: a}", `ERROR: want no violations, got : suite.yaml:4:131: unknown key "mesage" in assertions[0]; did you mean message?`},
	} {
		r := runGator(t, gatorHead+", cases: [{name: n, object: o.yaml, assertions: ["+c.assertions+"]}]}\n", map[string]string{"o.yaml": aPod(c.says)}, nil)
		s := &r.Suites[0]
		if len(s.Cases) != 1 {
			t.Fatalf("%s: %+v", c.assertions, s)
		}
		one := s.Cases[0]
		got := fmt.Sprintf("%s: want %s, got %s: %s", testWord(&one), one.Want, one.Got, one.Reason)
		if got != c.want {
			t.Errorf("%q, [%s]:\n got %s\nwant %s", c.says, c.assertions, got, c.want)
		}
		if one.Name != "t/n" || one.Policy != "c" || one.Rule != "Limits" || one.Kind != "Pod" || one.Resource != "ns/pod" || one.Line != 4 {
			t.Errorf("%+v", one)
		}
		if one.OK && one.Got != one.Want {
			t.Errorf("it is as wanted, in other words: %+v", one)
		}
	}
}

// TestGatorTests holds what tests and cases read, and what of them is refused.
func TestGatorTests(t *testing.T) {
	t.Parallel()
	const object = ", cases: [{name: n, object: o.yaml, assertions: [{violations: no}]}]"
	for _, c := range []struct {
		name, test string
		want       []string
	}{
		{"plain", "name: t, template: template.yaml, constraint: constraint.yaml" + object, []string{"ok 4 t/n c/Limits Pod ns/pod: want no violations, got no violations: "}},
		{"no names", "template: template.yaml, constraint: constraint.yaml, cases: [{object: o.yaml, assertions: [{violations: no}]}]", []string{"ok 4  c/Limits Pod ns/pod: want no violations, got no violations: "}},
		{"no template", "constraint: constraint.yaml" + object, []string{
			"ERROR 4 n c/Limits Pod ns/pod: want no violations, got : suite.yaml:4:3: template is missing", "suite.yaml:4:3: template is missing",
		}},
		{"no constraint", "template: template.yaml" + object, []string{
			"ERROR 4 n / Pod ns/pod: want no violations, got : suite.yaml:4:3: constraint is missing", "suite.yaml:4:3: constraint is missing",
		}},
		{"missing files", "template: a.yaml, constraint: b.yaml, expansion: c.yaml, cases: [{object: d.yaml, inventory: [e.yaml], assertions: [{}]}]", []string{
			"ERROR 4  /  : want violations, got : suite.yaml:4:70: d.yaml: no such file; suite.yaml:4:98: e.yaml: no such file; suite.yaml:4:4: a.yaml: no such file; suite.yaml:4:22: b.yaml: no such file; suite.yaml:4:42: c.yaml: no such file",
			"suite.yaml:4:4: a.yaml: no such file",
			"suite.yaml:4:22: b.yaml: no such file",
			"suite.yaml:4:42: c.yaml: no such file",
			"suite.yaml:4:70: d.yaml: no such file",
			"suite.yaml:4:98: e.yaml: no such file",
		}},
		{"out of the tree", "template: ../t.yaml, constraint: /etc/passwd, expansion: 'https://x/y'", []string{
			"ERROR 4  /  : want valid, got : suite.yaml:4:4: ../t.yaml: path leads out of the tree; suite.yaml:4:25: \"/etc/passwd\" is not a path relative to the suite; suite.yaml:4:50: \"https://x/y\" is not a path relative to the suite",
			"suite.yaml:4:4: ../t.yaml: path leads out of the tree", "suite.yaml:4:25: \"/etc/passwd\" is not a path relative to the suite", "suite.yaml:4:50: \"https://x/y\" is not a path relative to the suite",
		}},
		{"swapped", "template: constraint.yaml, constraint: template.yaml" + object, []string{
			`ERROR 4 n / Pod ns/pod: want no violations, got : suite.yaml:4:4: constraint.yaml: want ConstraintTemplate of templates.gatekeeper.sh, got Limits of "constraints.gatekeeper.sh/v1beta1"; suite.yaml:4:31: template.yaml: want constraint of constraints.gatekeeper.sh, got ConstraintTemplate of "templates.gatekeeper.sh/v1"`,
			`suite.yaml:4:4: constraint.yaml: want ConstraintTemplate of templates.gatekeeper.sh, got Limits of "constraints.gatekeeper.sh/v1beta1"`,
			`suite.yaml:4:31: template.yaml: want constraint of constraints.gatekeeper.sh, got ConstraintTemplate of "templates.gatekeeper.sh/v1"`,
		}},
		{"the first document", "template: template.yaml, constraint: more.yaml" + object, []string{
			"ok 4 n c/Limits Pod ns/pod: want no violations, got no violations: ",
			"note more.yaml:7:18: is ignored: gator reads only the first document of a constraint",
		}},
		{"refused", "template: template.yaml, constraint: broken.yaml" + object, []string{"ERROR 4 n c/Limits Pod ns/pod: want no violations, got : broken.yaml:3:18: is broken"}},
		{"refused, without cases", "template: template.yaml, constraint: broken.yaml", []string{"ERROR 4  c/Limits Limits c: want valid, got : broken.yaml:3:18: is broken"}},
		{"accepted", "template: template.yaml, constraint: constraint.yaml, cases: []", []string{"ok 4  c/Limits Limits c: want valid, got valid: "}},
		{"invalid", "name: i, template: template.yaml, constraint: schema.yaml, invalid: true", []string{"ok 4 i c/Limits Limits c: want invalid, got invalid: schema.yaml:3:18: is broken"}},
		{"invalid, but valid", "template: template.yaml, constraint: constraint.yaml, invalid: true", []string{"FAIL 4  c/Limits Limits c: want invalid, got valid: the constraint is valid by its template's schema"}},
		{"invalid otherwise", "template: template.yaml, constraint: broken.yaml, invalid: true", []string{"ERROR 4  c/Limits Limits c: want invalid, got : broken.yaml:3:18: is broken"}},
		{"invalid, of a file that is not there", "template: x.yaml, constraint: schema.yaml, invalid: true", []string{
			"ERROR 4  c/Limits Limits c: want invalid, got : suite.yaml:4:4: x.yaml: no such file", "suite.yaml:4:4: x.yaml: no such file",
		}},
		{"invalid, with cases", "template: template.yaml, constraint: schema.yaml, invalid: true" + object, []string{
			"ok 4  c/Limits Limits c: want invalid, got invalid: schema.yaml:3:18: is broken",
			"suite.yaml:4:69: a constraint that is to be invalid has no cases",
		}},
		{"skipped test", "name: s, template: nowhere.yaml, skip: true" + object, []string{"note suite.yaml:4:3: test s is skipped"}},
		{"skipped case", "name: s, template: template.yaml, constraint: constraint.yaml, cases: [{name: c, skip: true, object: nowhere.yaml}]", []string{"note suite.yaml:4:75: case s/c is skipped"}},
		{"unknown keys", "template: template.yaml, constraint: constraint.yaml, cases: [{objekt: o.yaml, object: o.yaml, assertions: [{violations: no}]}], expanssion: x", []string{
			`ERROR 4  c/Limits Pod ns/pod: want no violations, got : suite.yaml:4:67: unknown key "objekt" in cases[0]; did you mean object?`,
			`suite.yaml:4:133: unknown key "expanssion" in tests[0]; did you mean expansion?`,
			`suite.yaml:4:67: unknown key "objekt" in cases[0]; did you mean object?`,
		}},
		{"two objects", "template: template.yaml, constraint: constraint.yaml, cases: [{object: two.yaml, assertions: [{}]}]", []string{
			"ERROR 4  c/Limits  : want violations, got : suite.yaml:4:67: two.yaml contains 2 objects, not one",
			"suite.yaml:4:67: two.yaml contains 2 objects, not one",
		}},
		{"no objects", "template: template.yaml, constraint: constraint.yaml, cases: [{object: empty.yaml, assertions: [{}]}, {object: text.yaml, assertions: [{}]}, {object: nokind.yaml, assertions: [{}]}, {object: bad.yaml, assertions: [{}]}, {assertions: [{}]}]", []string{
			"ERROR 4  c/Limits  : want violations, got : suite.yaml:4:67: empty.yaml: contains no object",
			"ERROR 4  c/Limits  : want violations, got : suite.yaml:4:107: text.yaml: line 1: is not a mapping, so not a Kubernetes object",
			"ERROR 4  c/Limits  : want violations, got : suite.yaml:4:146: nokind.yaml: line 1: is not a Kubernetes object: kind is missing",
			"ERROR 4  c/Limits  : want violations, got : suite.yaml:4:187: bad.yaml:1:4: the [ that opens here is never closed",
			"ERROR 4  c/Limits  : want violations, got : suite.yaml:4:224: object is missing",
			"suite.yaml:4:67: empty.yaml: contains no object",
			"suite.yaml:4:107: text.yaml: line 1: is not a mapping, so not a Kubernetes object",
			"suite.yaml:4:146: nokind.yaml: line 1: is not a Kubernetes object: kind is missing",
			"suite.yaml:4:187: bad.yaml:1:4: the [ that opens here is never closed",
			"suite.yaml:4:224: object is missing",
		}},
		{"a List is one object", "template: template.yaml, constraint: constraint.yaml, cases: [{object: list.yaml, assertions: [{}]}]", []string{"ok 4  c/Limits List l: want violations, got violations: message one"}},
		{"yes is a word", "template: template.yaml, constraint: constraint.yaml, cases: [{object: word.yaml, assertions: [{violations: no}]}]", []string{
			"ok 4  c/Limits Pod yes: want no violations, got no violations: ",
			"note word.yaml:3:18: value is a boolean for kubectl, Helm and Argo CD, and a string for kustomize and Flux",
		}},
		{"inventory, the last counts", "template: template.yaml, constraint: constraint.yaml, cases: [{object: inv.yaml, inventory: [two.yaml, again.yaml], assertions: [{message: '^amap.k:v.bmap..$'}]}, {object: inv.yaml, inventory: [two.yaml], assertions: [{message: '^amap..bmap..$'}]}, {object: inv.yaml, assertions: [{message: '^$'}]}]", []string{
			`ok 4  c/Limits Pod ns/pod: want violations with "^amap.k:v.bmap..$", got violations with "^amap.k:v.bmap..$": amap[k:v]bmap[]`,
			`ok 4  c/Limits Pod ns/pod: want violations with "^amap..bmap..$", got violations with "^amap..bmap..$": amap[]bmap[]`,
			`ok 4  c/Limits Pod ns/pod: want violations with "^$", got violations with "^$": `,
		}},
		{"expansions", "template: template.yaml, constraint: constraint.yaml, expansion: expansion.yaml, cases: [{object: exp.yaml, assertions: [{message: '2'}]}]", []string{
			`ok 4  c/Limits Pod ns/pod: want violations with "2", got violations with "2": 2`,
		}},
		{"no expansion", "template: template.yaml, constraint: constraint.yaml, expansion: two.yaml", []string{
			`ERROR 4  c/Limits Limits c: want valid, got : suite.yaml:4:58: two.yaml: want ExpansionTemplate of expansion.gatekeeper.sh, got Pod of "v1"`,
			`suite.yaml:4:58: two.yaml: want ExpansionTemplate of expansion.gatekeeper.sh, got Pod of "v1"`,
		}},
	} {
		files := map[string]string{"o.yaml": aPod("pass"), "inv.yaml": aPod("inventory"), "exp.yaml": aPod("expansions")}
		r := runGator(t, "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests:\n- {"+c.test+"}\n", files, nil)
		if d := cmp.Diff(c.want, gatorLines(&r.Suites[0])); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// TestGatorSuites holds what of a suite's file is refused.
func TestGatorSuites(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: test.gatekeeper.sh/v1alpha1\n"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"other kind", head + "kind: Sweet\ntests: [{skip: true}]\n", []string{"suite.yaml:2:1: kind must be Suite", "note suite.yaml:3:9: test  is skipped"}},
		{"no tests", head + "kind: Suite\n", []string{"suite.yaml:2:7: has no tests"}},
		{"tests are no list", head + "kind: Suite\ntests: {}\n", []string{"suite.yaml:3:1: tests must be a list", "suite.yaml:2:7: has no tests"}},
		{"skipped", head + "kind: Suite\nskip: true\ntests: [{template: nowhere}]\n", []string{"note suite.yaml:3:1: the suite is skipped"}},
		{"unknown key", head + "kind: Suite\ntest: []\ntests: [{skip: true}]\n", []string{
			`suite.yaml:3:1: unknown key "test" in the suite; did you mean tests?`, "note suite.yaml:4:9: test  is skipped",
		}},
		{"second suite", head + "kind: Suite\ntests: [{skip: true}]\n---\n" + head + "kind: Suite\ntests: [{skip: true}]\n", []string{
			"suite.yaml:5:1: a suite is one document: this one is ignored", "note suite.yaml:3:9: test  is skipped",
		}},
		{"nothing is a number", head + "kind: Suite\ntests: [{template: 1, constraint: [], cases: 7, skip: maybe}, 7]\n", []string{
			"ERROR 3  /  : want valid, got : suite.yaml:3:10: 1: no such file; suite.yaml:3:9: constraint is missing",
			"ERROR 3  /  : want valid, got : suite.yaml:3:63: template is missing; suite.yaml:3:63: constraint is missing",
			"suite.yaml:3:49: skip must be true or false", "suite.yaml:3:10: 1: no such file", "suite.yaml:3:23: constraint must be a string", "suite.yaml:3:9: constraint is missing",
			"suite.yaml:3:39: cases must be a list", "suite.yaml:3:63: tests[1] must be a mapping", "suite.yaml:3:63: template is missing", "suite.yaml:3:63: constraint is missing",
		}},
	} {
		r := runGator(t, c.text, nil, nil)
		if d := cmp.Diff(c.want, gatorLines(&r.Suites[0])); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// TestGatorReview holds what an AdmissionReview makes of the request.
func TestGatorReview(t *testing.T) {
	t.Parallel()
	const suite = gatorHead + ", cases: [{object: review.yaml, assertions: [{violations: no}]}]}\n"
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: n, annotations: {says: pass}}}"
	for _, c := range []struct {
		name, request string
		want          string
	}{
		{
			"update", "request: {operation: UPDATE, object: " + pod + ", oldObject: " + pod + ", userInfo: {username: u, groups: [g], extra: {k: [v]}}, dryRun: true, uid: x, kind: {group: '', version: v1, kind: Pod}, resource: {group: '', version: v1, resource: pods}, namespace: n, name: p}",
			"ok UPDATE Pod n/p: ",
		},
		{"little", "request: {object: " + pod + "}", "ok  Pod n/p: "},
		{"delete", "request: {operation: DELETE, oldObject: " + pod + "}", "ok DELETE Pod n/p: "},
		{"delete without", "request: {operation: DELETE, object: " + pod + "}", "ERROR  AdmissionReview : suite.yaml:4:76: review.yaml: is an AdmissionReview of a DELETE without an oldObject"},
		{"no request", "response: {uid: x, allowed: true}", "ERROR  AdmissionReview : suite.yaml:4:76: review.yaml: is an AdmissionReview without a request"},
		{"no object", "request: {operation: CREATE}", "ERROR  AdmissionReview : suite.yaml:4:76: review.yaml: is an AdmissionReview with neither an object nor an oldObject"},
		{"object without kind", "request: {object: {apiVersion: v1}}", "ERROR  AdmissionReview : suite.yaml:4:76: review.yaml: its request's object is not a Kubernetes object: kind is missing"},
		{"unknown field", "request: {operaton: CREATE, object: " + pod + "}", `ERROR  AdmissionReview : suite.yaml:4:76: review.yaml: is not an AdmissionReview: strict decoding error: unknown field "request.operaton"`},
	} {
		var got []*render.Object
		r := runGator(t, suite, map[string]string{"review.yaml": "apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\n" + c.request + "\n"}, &got)
		one := r.Suites[0].Cases[0]
		if line := fmt.Sprintf("%s %s %s %s: %s", testWord(&one), one.Operation, one.Kind, one.Resource, one.Reason); line != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, line, c.want)
		}
		if len(got) > 0 && got[0].GetKind() != "AdmissionReview" {
			t.Errorf("%s: not the review is asked about: %v", c.name, got[0])
		}
	}
}

// TestGatorDiscovery holds which files are suites.
func TestGatorDiscovery(t *testing.T) {
	t.Parallel()
	const suite = "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests: [{skip: true}]\n"
	fsys := fstest.MapFS{}
	maps.Copy(fsys, fstest.MapFS{
		"a/any.yaml":  {Data: []byte(suite)},
		"a/b.yml":     {Data: []byte("# c\n---\n" + suite)},
		"a/c.json":    {Data: []byte(`{"apiVersion": "test.gatekeeper.sh/v1alpha1", "kind": "Suite", "tests": [{"skip": true}]}`)},
		"a/text.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\ndata:\n  suite: |\n    " + strings.ReplaceAll(suite, "\n", "\n    ") + "\n")},
		"a/suite.txt": {Data: []byte(suite)},
	})
	r, err := Run(context.Background(), Options{FS: fsys, Engines: gatorEngines(nil)}, ".")
	rendertest.OK(t, err)
	var got []string
	for _, s := range r.Suites {
		got = append(got, s.File+s.Error)
	}
	rendertest.Equal(t, []string{"a/any.yaml", "a/b.yml", "a/c.json"}, got)
}

// TestHostileGatorSuites holds that no form of a file passes, or breaks the run.
func TestHostileGatorSuites(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\n"
	for _, text := range []string{
		head + "tests: [{template: ., constraint: ..}]", head + "tests: [{template: suite.yaml, constraint: suite.yaml}]", head + "tests: [null]",
		head + "tests: &a [*a]", head + "tests: [{cases: [null, 7, {assertions: 7}, {assertions: [7]}]}]", head + "tests: [{name: {}, invalid: 7}]",
		head + "tests: [{template: \"a\\0b\", constraint: \"" + strings.Repeat("../", 100) + "etc/passwd\"}]", head + "? {a: b}\n: c\n",
		head + "tests: [{template: template.yaml, constraint: constraint.yaml, cases: [{object: o.yaml, inventory: {a: b}, assertions: [{message: '" + strings.Repeat("(a*)*", 300) + "{1000}{1000}'}]}]}]",
		"apiVersion: test.gatekeeper.sh/v1alpha1\nkind: [Suite]\ntests: 1", head + "\xff", head + strings.Repeat("[", 5000),
	} {
		r := runGator(t, text, map[string]string{"o.yaml": aPod("pass")}, nil)
		if s := r.Suites[0]; s.Error == "" || r.Summary.Passed > 0 || len(s.Error) > 100*maxText {
			t.Errorf("%.60q: %+v", text, s)
		}
	}
}
