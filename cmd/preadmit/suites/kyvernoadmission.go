package suites

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/render"
)

// Kyverno's command line evaluates admission policies too. A policy without a binding
// matches by its own constraints; every object is a CREATE, with the namespace labels
// of the test's values, and there is no authorizer.

// newAdmissionTest compiles an admission policy of a suite for Kyverno.
func newAdmissionTest(p *render.Object, s *policytest.KyvernoSetup, o Options) (policytest.KyvernoPolicy, error) {
	objects := []*render.Object{p}
	for _, b := range s.Bindings {
		if name, _, _ := unstructured.NestedString(b.Object, "spec", "policyName"); name == p.GetName() && b.GetKind() == p.GetKind()+"Binding" {
			objects = append(objects, b)
		}
	}
	options := admission.Options{
		Kinds: s.Kinds, Cluster: policy.NewCluster(slices.Concat(s.Params, testNamespaces(s))...), KubeVersion: o.KubeVersion, Coverage: o.Coverage,
		AssumeBound: func(*render.Object) bool { return true }, ListParams: true,
	}
	if k, ok := s.Kinds.(interface{ Unwrap() policy.Kinds }); ok {
		options.Mergers, _ = k.Unwrap().(admission.Mergers)
	}
	if p.GetKind() == "MutatingAdmissionPolicy" {
		m, err := admission.NewMutating(objects, options)
		return whereRules(&mutatingTest{p.GetName(), m}, len(m.Rules()), err)
	}
	e, err := admission.New(objects, options)
	return whereRules(&validatingTest{p.GetName(), e}, len(e.Rules()), err)
}

// whereRules returns the policy, or err if none of its rules can be evaluated.
func whereRules(p policytest.KyvernoPolicy, rules int, err error) (policytest.KyvernoPolicy, error) {
	if err != nil && rules == 0 {
		return nil, err
	}
	return p, err
}

// testNamespaces returns the namespaces of a test: those that its values describe,
// and those that its resources name.
func testNamespaces(s *policytest.KyvernoSetup) []*render.Object {
	all := slices.Clone(s.Namespaces)
	seen := make(map[string]bool)
	for _, o := range all {
		seen[o.GetName()] = true
	}
	for _, o := range s.Resources {
		if ns := o.GetNamespace(); ns != "" && !seen[ns] {
			seen[ns] = true
			all = append(all, &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns},
			}}})
		}
	}
	return all
}

// created returns the request as a CREATE of its object.
func created(req *policy.Request) *policy.Request {
	r := *req
	if r.Object == nil {
		r.Object, r.Admitted = r.OldObject, r.OldAdmitted
	}
	r.Operation, r.OldObject, r.OldAdmitted = policy.Create, nil, nil
	return &r
}

// validatingTest is a ValidatingAdmissionPolicy of a suite.
type validatingTest struct {
	name   string // used for its rules, too
	engine *admission.Engine
}

// Rules implements policytest.KyvernoPolicy: validations have no names.
func (*validatingTest) Rules() []string { return nil }

// Evaluate implements policytest.KyvernoPolicy. The first validation that does
// not hold is the verdict.
func (v *validatingTest) Evaluate(ctx context.Context, _ policytest.Phase, req *policytest.KyvernoRequest) (policytest.KyvernoVerdict, error) {
	if req.JSON {
		return policytest.KyvernoVerdict{Silent: true}, nil
	}
	results, err := v.engine.Validate(ctx, created(req.Request))
	if err != nil || len(results) == 0 {
		return policytest.KyvernoVerdict{}, err
	}
	return policytest.KyvernoVerdict{Rules: []policytest.KyvernoResponse{oneResponse(v.name, results)}}, nil
}

// oneResponse joins the results of one policy.
func oneResponse(name string, results []policy.Result) policytest.KyvernoResponse {
	decisive := results[0]
	for _, r := range results {
		if r.Outcome != policy.Pass {
			decisive = r
			break
		}
	}
	response := policytest.KyvernoResponse{Rule: name, Status: string(decisive.Outcome), Message: decisive.Message}
	for _, r := range results {
		response.Assumed = append(response.Assumed, r.Assumed...)
	}
	return response
}

// mutatingTest is a MutatingAdmissionPolicy of a suite.
type mutatingTest struct {
	name   string // used for its rules, too
	engine *admission.Mutating
}

// Rules implements policytest.KyvernoPolicy: mutations have no names.
func (*mutatingTest) Rules() []string { return nil }

// Evaluate implements policytest.KyvernoPolicy. A policy that changes nothing is a skip.
func (m *mutatingTest) Evaluate(ctx context.Context, _ policytest.Phase, req *policytest.KyvernoRequest) (policytest.KyvernoVerdict, error) {
	if req.JSON {
		return policytest.KyvernoVerdict{Silent: true}, nil
	}
	steps, err := m.engine.Mutate(ctx, created(req.Request))
	if err != nil || len(steps) == 0 {
		return policytest.KyvernoVerdict{Silent: true}, err
	}
	var v policytest.KyvernoVerdict
	var results []policy.Result
	for _, s := range steps {
		results = append(results, s.Result)
		if s.Admitted != nil {
			v.Object = s.Admitted
		}
	}
	r := oneResponse(m.name, results)
	if v.Object == nil && r.Status == string(policy.Pass) {
		r.Status, r.Message = string(policy.Skip), "changes nothing"
	}
	v.Rules = []policytest.KyvernoResponse{r}
	return v, nil
}
