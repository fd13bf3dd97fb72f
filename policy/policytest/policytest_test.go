package policytest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// scripted says about a request what the object's annotation "says" tells it to:
// outcomes, one a rule.
type scripted struct{ got *[]*policy.Request }

func (s scripted) Evaluate(_ context.Context, req *policy.Request, _ string, params *render.Object) ([]policy.Result, error) {
	*s.got = append(*s.got, req)
	says := req.Subject().GetAnnotations()["says"]
	if says == "nothing" {
		return nil, errors.New("can't be judged")
	}
	var results []policy.Result
	for i, outcome := range strings.Fields(says) {
		r := policy.Result{Rule: fmt.Sprintf("validations[%d]", i), Outcome: policy.Outcome(outcome), Message: "message " + outcome}
		if params != nil {
			r.Assumed = []string{"with " + params.GetNamespace() + "/" + params.GetName()}
		}
		results = append(results, r)
	}
	return results, nil
}

// flat kinds know nothing.
type flat struct{}

func (flat) Resource(gvk schema.GroupVersionKind) policy.Resource {
	return policy.Resource{GroupVersionResource: gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"), Namespaced: true}
}
func (flat) Admit(o *render.Object, _ string) (map[string]any, error) { return o.Object, nil }
func (flat) Equivalent(schema.GroupVersionResource) []policy.Version  { return nil }
func (flat) Convert(map[string]any, schema.GroupVersionKind) (map[string]any, error) {
	return nil, errors.New("no")
}

func testEngines(got *[]*policy.Request) Engines {
	return Engines{
		Kinds: func([]*render.Object) (policy.Kinds, error) { return flat{}, nil },
		Admission: func(p *render.Object, _ policy.Kinds, _ *policy.Cluster) (Evaluator, error) {
			if rule := p.GetAnnotations()["broken"]; rule != "" {
				return scripted{got}, &render.Error{Span: p.Span(""), Rule: rule, Err: errors.New("is broken")}
			}
			return scripted{got}, nil
		},
	}
}

// runSuite runs one manifest beside policies and objects.
func runSuite(t *testing.T, files map[string]string) *Report {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	r, err := Run(context.Background(), Options{FS: fsys, Engines: testEngines(new([]*policy.Request))}, ".")
	rendertest.OK(t, err)
	again, err := Run(context.Background(), Options{FS: fsys, Engines: testEngines(new([]*policy.Request))}, ".")
	if d := cmp.Diff(r, again); d != "" || err != nil {
		t.Errorf("a second run differs: %s %v", d, err)
	}
	return r
}

const testPolicy = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p%s}\nspec: {}\n"

func object(name, says string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {says: %q}}\n", name, says)
}

// TestOutcomes holds kaptest's order of outcomes: exempt, broken, denied,
// admitted.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		says, broken string
		got          string
		vacuous      bool
		reason       string
	}{
		{"pass pass", "", "admit", false, ""},
		{"", "", "admit", true, ""},
		{"pass fail", "", "deny", false, "validations[1]: message fail"},
		{"fail error fail", "", "error", false, "validations[1]: message error"},
		{"fail unknown", "", "error", false, "validations[1]: message unknown"},
		{"skip skip", "", "skip", false, "message skip"},
		{"skip", "validations[1]", "skip", false, "message skip"},
		{"fail", "validations[1]", "error", false, "does not compile: policies.yaml:3:18: is broken"},
		{"fail", "validations[0]", "deny", false, "validations[0]: message fail"}, // its messageExpression
		{"pass", "variables[x]", "error", false, "does not compile: policies.yaml:3:18: is broken"},
		{"pass", "matchConditions[x]", "error", false, "does not compile: policies.yaml:3:18: is broken"},
		{"nothing", "", "", false, "can't be judged"},
		{"nothing", "policy", "", false, "the API server refuses the policy: policies.yaml:3:18: is broken"},
	} {
		annotations := ""
		if c.broken != "" {
			annotations = fmt.Sprintf(", annotations: {broken: %q}", c.broken)
		}
		for _, want := range kaptestExpectations {
			r := runSuite(t, map[string]string{
				"policies.yaml": fmt.Sprintf(testPolicy, annotations), "objects.yaml": object("o", c.says),
				"kaptest.yaml": "validatingAdmissionPolicies: [policies.yaml]\nresources: [objects.yaml]\ntestSuites: [{policy: p, tests: [{object: {kind: ConfigMap, name: o}, expect: " + want + "}]}]\n",
			})
			if len(r.Suites) != 1 || len(r.Suites[0].Cases) != 1 || r.Suites[0].Error != "" {
				t.Fatalf("%+v: %+v", c, r)
			}
			got := r.Suites[0].Cases[0]
			if got.Got != c.got || got.OK != (c.got == want) || got.Reason != c.reason || got.Vacuous != c.vacuous {
				t.Errorf("%q, broken %q, want %s: got %+v", c.says, c.broken, want, got)
			}
			if s := r.Summary; s.Passed+s.Failed+s.Errors != 1 || s.Cases != 1 || (s.Passed == 1) != got.OK || (s.Errors == 1) != (c.got == "") {
				t.Errorf("%q: summary %+v", c.says, s)
			}
		}
	}
}

// TestRequest holds what a test's fields make of the request.
func TestRequest(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"d/policies.yaml": {Data: []byte(strings.Replace(fmt.Sprintf(testPolicy, ""), "spec: {}", "spec: {paramKind: {apiVersion: v1, kind: Limit}}", 1))},
		"objects.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 1, namespace: a, annotations: {says: pass}}\n---\n" +
			"apiVersion: v1\nkind: Limit\nmetadata: {name: l, namespace: far}\n")},
		"d/kaptest.yaml": {Data: []byte("validatingAdmissionPolicies: [policies.yaml]\nresources: [../objects.yaml]\ntestSuites:\n- policy: p\n  tests:\n" +
			"  - {object: {kind: ConfigMap, name: '1'}, oldObject: {kind: ConfigMap, name: '1'}, param: {name: l}, userInfo: {name: u, groups: [g], extra: {k: [v]}}, expect: admit}\n")},
	}
	fsys["objects.yaml"].Data = []byte(strings.Replace(string(fsys["objects.yaml"].Data), "name: 1,", "name: '1',", 1))
	var got []*policy.Request
	r, err := Run(context.Background(), Options{FS: fsys, Engines: testEngines(&got), Name: func(s string) string { return "shown/" + s }}, "d/kaptest.yaml")
	rendertest.OK(t, err)
	if len(got) != 1 {
		t.Fatalf("%d requests: %+v", len(got), r)
	}
	want := policy.UserInfo{Username: "u", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
	req := got[0]
	if d := cmp.Diff(want, req.UserInfo); d != "" || req.Operation != policy.Update || !req.DryRun || req.Namespace != "a" || req.Name != "1" || req.Resource.Resource != "configmaps" {
		t.Errorf("%s%+v", d, req)
	}
	c := r.Suites[0].Cases[0]
	notes := []string{"with far/l", "Namespace a is not among the resources: assumed to have no labels and annotations"}
	if d := cmp.Diff(notes, c.Notes); d != "" || c.Resource != "a/1" || c.Line != 6 || r.Suites[0].File != "shown/d/kaptest.yaml" {
		t.Errorf("%s%+v", d, c)
	}
}

// TestDiscovery holds which files are suites.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	r := runSuite(t, map[string]string{
		".git/kaptest.yaml":       "testSuites: []",
		"a/kaptest.yaml":          "",
		"a/kaptest.yml":           "testSuites: [",
		"b/other.yaml":            "testSuites: []\nresources: []\n",
		"b/v2.yaml":               "version: v1alpha1\nvapTestSuites: []\n",
		"b/values.yaml":           "image: x\n",
		"b/crd.yaml":              "kind: Tests\napiVersion: example.com/v1\ntestSuites: []\n",
		"b/testSuites.txt":        "testSuites: []\n",
		"c/kyverno-test.yaml":     "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\n",
		"c/suite.yaml":            "kind: Suite\napiVersion: test.gatekeeper.sh/v1alpha1\n",
		"d/testSuites-in-it.yaml": "a:\n  testSuites: []\n",
	})
	var got []string
	for _, s := range r.Suites {
		got = append(got, s.Kind+" "+s.File)
		if s.Error == "" {
			t.Errorf("%s: no error, and no test in it", s.File)
		}
	}
	want := []string{"kaptest a/kaptest.yaml", "kaptest a/kaptest.yml", "kaptest b/other.yaml", "kaptest b/v2.yaml", "kyverno c/kyverno-test.yaml", "gator c/suite.yaml"}
	rendertest.Equal(t, want, got)
	if r.Summary.Errors != 6 || r.Summary.Passed != 0 {
		t.Errorf("%+v", r.Summary)
	}
}

// unreadable is a tree in which a directory can't be read.
type unreadable struct{ fstest.MapFS }

func (u unreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == "a/locked" {
		return nil, fs.ErrPermission
	}
	return u.MapFS.ReadDir(name)
}

// TestUnreadableDirectories holds that a directory that can't be read is reported,
// and hides nothing else.
func TestUnreadableDirectories(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("d/", maxDepth+2)
	r, err := Run(context.Background(), Options{Engines: testEngines(new([]*policy.Request)), FS: unreadable{fstest.MapFS{
		"a/locked/kaptest.yaml": {Data: []byte("testSuites: []")}, deep + "kaptest.yaml": {Data: []byte("testSuites: []")},
		"z/kaptest.yaml": {Data: []byte("testSuites: []")},
	}}}, ".")
	rendertest.OK(t, err)
	var got []string
	for _, s := range r.Suites {
		got = append(got, s.Error)
	}
	want := []string{"a/locked: can't be read", strings.TrimSuffix(deep, "/") + ": directory is more than 64 levels deep"}
	if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || r.Suites[2].File != "z/kaptest.yaml" {
		t.Errorf("want %q and z/kaptest.yaml, got %q", want, got)
	}
}

// TestHostileSuites holds that no form of a file passes, or breaks the run.
func TestHostileSuites(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"null", "[]", "7", "testSuites", "testSuites: 7", "testSuites: [7]", "testSuites: {a: b}", "testSuites: [{policy: [], tests: {}}]",
		"testSuites: [{policy: p, tests: [7]}]", "testSuites: [{policy: p, tests: [{object: 7, expect: admit}]}]",
		"testSuites: [{policy: p, tests: [{object: {kind: [], name: {}}, expect: []}]}]",
		"testSuites: [{policy: p, tests: [{userInfo: {extra: [], groups: {}}, expect: admit}]}]",
		"validatingAdmissionPolicies: [{}]\nresources: 8\ntestSuites: []", "validatingAdmissionPolicies: [kaptest.yaml]\nresources: [kaptest.yaml]\ntestSuites: []",
		"validatingAdmissionPolicies: [.]\nresources: ['..']\ntestSuites: [{policy: p, tests: [{expect: admit}]}]",
		"version: v2\npolicies: []\nresources: []\ncrds: [7]\nmapTestSuites: [{policy: p, tests: [{expect: admit, object: {}}]}]",
		"a: &a [*a]", "testSuites: &a [*a]", "testSuites: []\n---\ntestSuites: []\n", "\x00", "testSuites: [\xff]", strings.Repeat("[", 5000),
		"testSuites: [{policy: p, policy: q, tests: []}]", "? {a: b}\n: c\ntestSuites: []",
	} {
		r := runSuite(t, map[string]string{"kaptest.yaml": text})
		if len(r.Suites) != 1 || r.Suites[0].Error == "" || r.Summary.Passed > 0 {
			t.Errorf("%.60q: %+v", text, r)
		}
		if strings.Contains(r.Suites[0].Error, "\x00") || len(r.Suites[0].Error) > 100*maxText {
			t.Errorf("%.60q: error of %d bytes", text, len(r.Suites[0].Error))
		}
	}
}
