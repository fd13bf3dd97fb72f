package admission

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const corpora = "../../../shared/corpora/"

// TestMatchingTable holds matching against the API server's own table.
func TestMatchingTable(t *testing.T) {
	t.Parallel()
	cases := rendertest.Rows[matchCase](t, corpora+"vap-tables/k8s-vap-match.jsonl")
	for _, c := range cases {
		c.check(t)
	}
	if len(cases) < 15 {
		t.Errorf("only %d cases", len(cases))
	}
	tell(t, "VAP matching", len(cases))
}

// tell logs the line that make conformance reads, of a test that fails at
// each difference.
func tell(t *testing.T, table string, n int) {
	t.Helper()
	if !t.Failed() {
		t.Logf("table %s: %d / %d", table, n, n)
	}
}

type matchCase struct {
	ID, Name, Namespace, Operation, Subresource, Error string
	Criteria                                           v1.MatchResources
	Kind, MatchKind                                    schema.GroupVersionKind
	Resource, MatchResource                            schema.GroupVersionResource
	Object                                             map[string]any
	Matches                                            bool
}

func (m *matchCase) check(t *testing.T) {
	t.Helper()
	if m.Criteria.MatchPolicy == nil {
		exact := v1.Exact // the table is about criteria that are not defaulted
		m.Criteria.MatchPolicy = &exact
	}
	if m.Error != "" {
		match.Default(&m.Criteria)
		p := &v1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		p.Spec.MatchConstraints, p.Spec.Validations = &m.Criteria, []v1.Validation{{}}
		defaultPolicy(p)
		errs := refusePolicy(&render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{}}}, p)
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), "elector") {
			t.Errorf("%s: got %v, want an error about %q", m.ID, errs, m.Error)
		}
		return
	}
	if strings.Contains(m.ID, "error") {
		return // a selector that is refused when it is written
	}
	e := &Engine{options: Options{Kinds: tableKinds{subresource: m.Subresource}}}
	req := &policy.Request{
		Operation: policy.Operation(m.Operation), Kind: m.Kind, SubResource: m.Subresource, Name: m.Name, Namespace: m.Namespace,
		Resource: policy.Resource{GroupVersionResource: m.Resource, Namespaced: true, Known: true}, Object: &render.Object{}, Admitted: map[string]any{},
	}
	got, as := match.New(&m.Criteria).Match(&newReview(context.Background(), e, req).subject)
	if (got == match.Yes) != m.Matches {
		t.Errorf("%s: match is %v, want %v", m.ID, got, m.Matches)
	}
	if m.Matches && (as.Kind != m.MatchKind || !m.MatchResource.Empty() && as.Resource != m.MatchResource) {
		t.Errorf("%s: matches as %v, want %v %v", m.ID, as, m.MatchKind, m.MatchResource)
	}
}

// tableKinds serves deployments in the versions of the table.
type tableKinds struct {
	testKinds
	subresource string
}

func (t tableKinds) Equivalent(r schema.GroupVersionResource) []policy.Version {
	var vs []policy.Version
	for _, gv := range []string{"apps/v1", "apps/v1beta1", "extensions/v1beta1"} {
		v := policy.ParseGroupVersion(gv)
		kind := v.WithKind("Deployment")
		if t.subresource == "scale" {
			kind = v.WithKind("Scale")
			if gv == "apps/v1" {
				kind = schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
			}
		}
		vs = append(vs, policy.Version{Resource: v.WithResource("deployments"), Kind: kind})
	}
	if r.Resource != "deployments" {
		return nil
	}
	return vs
}

// TestPublishedOutcomes evaluates other people's objects by their policies and
// compares with the outcomes that they publish.
func TestPublishedOutcomes(t *testing.T) {
	t.Parallel()
	folders := rendertest.GlobOrSkip(t, corpora+"kubescape-vap/*")
	n, wrong := 0, 0
	for _, folder := range folders {
		c := loadCase(t, folder)
		context := append(c.objects("params"), append(c.objects("crds"), c.objects("cluster")...)...)
		policies := append(c.objects("policies"), c.objects("bindings")...)
		for _, want := range c.Expect {
			if want.Operation != "CREATE" || want.OldObject != nil {
				continue
			}
			n++
			if got := c.outcome(policies, context, want); got != want.Result {
				wrong++
				t.Logf("difference: %s: %s %s %s: want %s, got %s", filepath.Base(folder), want.Policy, want.Resource.File, want.Resource.Name, want.Result, got)
			}
		}
	}
	t.Logf("table kubescape: %d / %d", n-wrong, n)
	if wrong*50 > n || n < 100 {
		t.Errorf("%d of %d outcomes differ", wrong, n)
	}
}

// outcome is "fail" when the policy denies the object, or breaks on it.
func (p *publishedCase) outcome(policies, cluster []*render.Object, want publishedOutcome) string {
	objects := p.file(want.Resource.File)
	if want.Resource.Doc >= len(objects) {
		return "absent"
	}
	kinds := testKinds{crds(cluster)}
	e, err := New(policies, Options{Kinds: kinds, Cluster: policy.NewCluster(cluster...), AssumeBound: always})
	if err != nil {
		p.t.Error(err)
	}
	req := policy.Request{Operation: policy.Create, Object: objects[want.Resource.Doc]}
	req.UserInfo.Username = "alice"
	results, err := policy.Chain{Kinds: kinds, Validators: []policy.Validator{e}}.Review(context.Background(), []policy.Request{req})
	rendertest.OK(p.t, err)
	for _, r := range results {
		if r.Policy == want.Policy && (r.Outcome == policy.Error || r.Outcome == policy.Fail && r.Action == policy.Deny) {
			return "fail"
		}
	}
	return "pass"
}

// TestPublishedExpressions evaluates by expressions alone, as kaptest does: with
// the parameter and the user that each row names, whatever the policy matches.
func TestPublishedExpressions(t *testing.T) {
	t.Parallel()
	folders := rendertest.GlobOrSkip(t, corpora+"kaptest/*")
	n := 0
	for _, folder := range folders {
		c := loadCase(t, folder)
		resources := c.objects("resources")
		e, err := New(c.objects("policies"), Options{Kinds: testKinds{}, Cluster: policy.NewCluster(resources...)})
		if err != nil {
			t.Log(err)
		}
		for _, want := range c.Expect {
			if want.OldObject != nil || want.Operation != "CREATE" {
				continue
			}
			n++
			if got := c.evaluate(e, want); got != want.Result {
				t.Errorf("%s: %s on %s: want %s, got %s", filepath.Base(folder), want.Policy, want.Resource.Name, want.Result, got)
			}
		}
	}
	tell(t, "kaptest", n)
}

func (p *publishedCase) evaluate(e *Engine, want publishedOutcome) string {
	object := p.file(want.Resource.File)[want.Resource.Doc]
	reqs := requestsAbout(p.t, e.options.Kinds, object)
	if len(reqs) == 0 {
		return "undecodable"
	}
	req := &reqs[0]
	if want.UserInfo != nil {
		req.UserInfo.Username = want.UserInfo.Name
	}
	var params *render.Object
	if wanted := want.Params; wanted != nil {
		for _, o := range p.objects("resources") {
			if o.GetKind() == wanted.Kind && o.GetName() == wanted.Name && o.GetNamespace() == wanted.Namespace {
				params = o
			}
		}
	}
	results, err := e.Evaluate(context.Background(), req, want.Policy, params)
	if err != nil {
		return err.Error()
	}
	worst := "pass"
	for _, r := range results {
		switch {
		case r.Outcome == policy.Fail:
			return "fail"
		case r.Outcome != policy.Pass:
			worst = string(r.Outcome)
		}
	}
	return worst
}

// TestBudgets holds what evaluations cost against the API server's own table.
func TestBudgets(t *testing.T) {
	t.Parallel()
	n := 0
	for _, c := range rendertest.Rows[struct {
		ID                               string
		Attrs                            struct{ Object map[string]any }
		Budget, Remaining                int64
		ExceedBudget, ExceedPerCallLimit bool
		Exprs                            []string
		Params                           map[string]any
	}](t, corpora+"cel-expr/k8s-cel-budget.jsonl") {
		if c.Budget < 0 {
			continue // the limit for one call, see the hostile cases
		}
		c.Attrs.Object = runtime.DeepCopyJSON(map[string]any{"apiVersion": "v1", "kind": "Endpoints", "metadata": c.Attrs.Object["metadata"], "subsets": c.Attrs.Object["subsets"]})
		if c.Attrs.Object["metadata"] == nil {
			c.Attrs.Object["metadata"] = map[string]any{"name": "endpoints1"}
		}
		n++
		remaining, err := spend(t, c.Attrs.Object, c.Exprs, c.Params != nil, c.Budget)
		if (err != nil) != c.ExceedBudget || err == nil && remaining != c.Remaining {
			t.Errorf("%s: %d remain of %d, want %d: %v", c.ID, remaining, c.Budget, c.Remaining, err)
		}
	}
	tell(t, "VAP budgets", n)
}

// spend evaluates expressions over an object, counting, and returns what
// remains of a budget.
func spend(t *testing.T, object map[string]any, expressions []string, params bool, budget int64) (int64, error) {
	t.Helper()
	var text strings.Builder
	text.WriteString("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\nspec:\n")
	if params {
		text.WriteString("  paramKind: {apiVersion: v1, kind: ConfigMap}\n")
	}
	text.WriteString("  matchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]}\n  validations:\n")
	for _, x := range expressions {
		fmt.Fprintf(&text, "  - expression: %q\n", x)
	}
	e, err := New(rendertest.Parse(t, "p.yaml", text.String()), Options{Kinds: testKinds{}, Authorizer: lawyer{}})
	rendertest.OK(t, err)
	b := e.policies[0]
	req := &policy.Request{
		Operation: policy.Create, Kind: schema.GroupVersionKind{Version: "v1", Kind: "Endpoints"}, Name: "endpoints1", Namespace: "default",
		Admitted: object, Object: &render.Object{},
	}
	x := newReview(context.Background(), e, req).run.setUp(b.compiled, nullParam, policy.Version{Kind: req.Kind})
	x.meter.Begin(budget)
	x.bind(true, true, x.as)
	for _, v := range b.validations {
		before := x.meter.Remaining()
		if _, err := x.eval(v); err != nil {
			return before, err
		}
	}
	return x.meter.Remaining(), nil
}
