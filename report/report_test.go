package report

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

func TestNewCounts(t *testing.T) {
	t.Parallel()
	failed := &render.Error{Span: render.Span{File: "charts/db/Chart.yaml", Line: 5}, Err: errors.New("dependency redis is not vendored"), Missing: true}
	warned := &render.Error{Err: errors.New("a note"), Warning: true}
	units := []*render.Unit{
		{Source: render.Source{Path: "charts/web", Kind: "helm"}, Name: "web", Objects: []*render.Object{{}, {}}, Err: warned},
		{Source: render.Source{Path: "charts/db", Kind: "helm"}, Name: "db", Err: failed},
	}
	rules := []policy.Rule{{Engine: "E", Policy: "p", Name: "a"}, {Engine: "E", Policy: "p", Name: "b"}, {Engine: "F", Policy: "p", Name: "a"}}
	results := []policy.Result{
		{Outcome: policy.Fail, Action: policy.Deny, Baseline: "new"},
		{Outcome: policy.Fail, Action: policy.Deny, Baseline: "unchanged"},
		{Outcome: policy.Fail, Action: policy.Deny, Suppression: &policy.Suppression{}},
		{Outcome: policy.Fail, Action: policy.Warn},
		{Outcome: policy.Fail, Action: policy.Audit},
		{Outcome: policy.Pass},
		{Outcome: policy.Skip},
		{Outcome: policy.Unknown},
		{Outcome: policy.Error},
		{Outcome: policy.Error, Baseline: "unchanged"},
	}
	r := New(Tool{Name: "preadmit"}, units, rules, results)
	want := Summary{Units: 2, Rendered: 1, Discovered: 2, NotRendered: 1, Clusters: 1, Objects: 2, Policies: 2, Rules: 3, Pass: 1, Fail: 5, Skip: 1, Unknown: 1, Error: 2, New: 1, Suppressed: 1}
	if diff := cmp.Diff(want, r.Summary); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	wantUnits := []Unit{
		{ID: "charts/web", Path: "charts/web", Kind: "helm", Renderer: "helm", Name: "web", Status: "rendered", Objects: 2},
		{ID: "charts/db", Path: "charts/db", Kind: "helm", Renderer: "helm", Name: "db", Status: "not-rendered", Reason: "charts/db/Chart.yaml:5: dependency redis is not vendored"},
	}
	if diff := cmp.Diff(wantUnits, r.Units); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
	got := []int{r.Denied(policy.Deny), r.Denied(policy.Warn), r.Denied(policy.Audit), r.Incomplete()}
	if diff := cmp.Diff([]int{1, 2, 3, 2}, got); diff != "" {
		t.Errorf("denied, from warn, from audit, incomplete (-want +got):\n%s", diff)
	}
}

// Of more rules than GitHub takes those that found something are kept.
func TestSARIFTrimsRules(t *testing.T) {
	t.Parallel()
	r := sample(t)
	for i := range maxDescriptors {
		r.Rules = append(r.Rules, policy.Rule{Engine: "E", Policy: fmt.Sprintf("a-%05d", i), Name: "r"})
	}
	data := write(t, "sarif", r, Options{})
	if p := Verify(data, r.Tree); len(p) > 0 {
		t.Errorf("verify: %v", p[0])
	}
}

// TestHeldResults holds that a format writes the same bytes, however the results are
// held.
func TestHeldResults(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {Verbose: true}, {Quiet: true}, {Statistics: true}} {
		for _, f := range Formats {
			want := write(t, f.Name, sample(t), o)
			r := sample(t)
			var held policy.CompactList
			var rest []policy.Result
			for i, x := range r.Results {
				if i%5 == 4 {
					rest = append(rest, x)
				} else {
					held.Keep(held.Add([]policy.Result{x}))
				}
			}
			held.Sort()
			r.Results, r.Held = rest, &held
			if diff := cmp.Diff(string(want), string(write(t, f.Name, r, o))); diff != "" {
				t.Errorf("%s, %+v (-in Results +in Held):\n%s", f.Name, o, diff)
			}
		}
	}
}
