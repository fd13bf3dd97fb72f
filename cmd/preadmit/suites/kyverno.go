package suites

import (
	"context"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/kyverno"
	"github.com/preadmit/preadmit/policy/kyvernocel"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/render"
)

// newKyvernoTest compiles a policy of a suite for Kyverno.
func newKyvernoTest(o Options) func(*render.Object, *policytest.KyvernoSetup) (policytest.KyvernoPolicy, error) {
	return func(p *render.Object, s *policytest.KyvernoSetup) (policytest.KyvernoPolicy, error) {
		switch group := p.GroupVersionKind().Group; group {
		case "admissionregistration.k8s.io":
			return newAdmissionTest(p, s, o)
		case "policies.kyverno.io":
			return newCELTest(p, s, o)
		default:
			return newRulesTest(p, s, o)
		}
	}
}

// rulesTest is a ClusterPolicy or Policy of a suite.
type rulesTest struct {
	setup  *policytest.KyvernoSetup
	engine *kyverno.Engine
	policy *kyverno.Policy
	phases map[policytest.Phase]bool
}

func newRulesTest(p *render.Object, s *policytest.KyvernoSetup, o Options) (policytest.KyvernoPolicy, error) {
	engine, err := kyverno.New(append([]*render.Object{p}, s.Exceptions...), kyverno.Options{
		Cluster: policy.NewCluster(s.Cluster...), Kinds: s.Kinds, KubeVersion: o.KubeVersion, Coverage: o.Coverage, CLI: true,
	})
	if engine == nil || len(engine.Policies()) == 0 {
		return nil, err
	}
	t := &rulesTest{setup: s, engine: engine, policy: engine.Policies()[0], phases: map[policytest.Phase]bool{}}
	for _, r := range t.policy.Rules {
		t.phases[phaseOf(r)] = true
	}
	return t, err
}

// phaseOf returns the phase in which a rule runs.
func phaseOf(r *kyverno.Rule) policytest.Phase {
	switch {
	case r.Mutate != nil:
		return policytest.Mutating
	case r.Generate != nil:
		return policytest.Generating
	default:
		return policytest.Validating
	}
}

// Rules implements policytest.KyvernoPolicy.
func (t *rulesTest) Rules() []string {
	var names []string
	for _, r := range t.policy.Rules {
		names = append(names, r.Name)
	}
	return names
}

// Evaluate implements policytest.KyvernoPolicy. For a policy with rules of a phase, Kyverno's
// command line has a response even if none of the rules matches, except that it has one for
// generate rules only if one matches.
func (t *rulesTest) Evaluate(ctx context.Context, phase policytest.Phase, req *policytest.KyvernoRequest) (policytest.KyvernoVerdict, error) {
	if !t.phases[phase] || req.JSON {
		return policytest.KyvernoVerdict{Silent: true}, nil
	}
	responses, err := t.engine.Respond(ctx, req.Request, t.mocks(req))
	v := policytest.KyvernoVerdict{}
	for i := range responses {
		if r := &responses[i]; phaseOf(r.Rule) == phase {
			t.add(&v, r)
		}
	}
	v.Silent = phase == policytest.Generating && len(v.Rules) == 0
	return v, err
}

func (t *rulesTest) add(v *policytest.KyvernoVerdict, r *kyverno.Response) {
	said := policytest.KyvernoResponse{
		Rule: r.Name, Status: string(r.Status), Message: r.Message, Fields: r.Fields, Assumed: r.Assumed, Generated: r.Generated,
	}
	switch {
	case r.Rule.Mutate != nil && len(r.Rule.Mutate.Targets) > 0:
		said.Target = r.Patched
	case r.Patched != nil:
		v.Object = r.Patched
	}
	v.Rules = append(v.Rules, said)
}

// mocks returns the values that the test supplies for a request.
func (t *rulesTest) mocks(req *policytest.KyvernoRequest) *kyverno.Mocks {
	s := t.setup
	m := &kyverno.Mocks{
		Variables: req.Variables, Rules: req.Rules, Foreach: firstOfEach(req.Foreach),
		UserInfo: s.User, Roles: s.Roles, ClusterRoles: s.ClusterRoles,
		Namespaces: s.NamespaceLabels, Global: s.Global, Targets: s.Targets, Simulate: s.HasCluster,
		Resources: slices.Concat(req.Sources, s.Resources, s.Cluster),
	}
	for _, c := range s.APICalls {
		m.APICalls = append(m.APICalls, kyverno.APICall(c))
	}
	for _, r := range s.Subresources {
		m.Subresources = append(m.Subresources, kyverno.Subresource{Kind: r.Kind, Version: r.Version, Group: r.Group, Name: r.Name, ParentKind: r.ParentKind})
	}
	return m
}

// firstOfEach replaces each list by its first value, because Kyverno uses no other.
func firstOfEach(foreach map[string]map[string]any) map[string]map[string]any {
	all := make(map[string]map[string]any, len(foreach))
	for rule, values := range foreach {
		firsts := maps.Clone(values)
		for name, v := range firsts {
			if list, ok := v.([]any); ok && len(list) > 0 {
				firsts[name] = list[0]
			}
		}
		all[rule] = firsts
	}
	return all
}

// celTest is a policy of policies.kyverno.io of a suite.
type celTest struct {
	setup  *policytest.KyvernoSetup
	engine *kyvernocel.Engine
	name   string
	kind   string // without "Namespaced"
}

// newCELTest compiles a policy of policies.kyverno.io of a suite.
func newCELTest(p *render.Object, s *policytest.KyvernoSetup, o Options) (policytest.KyvernoPolicy, error) {
	options := kyvernocel.Options{Cluster: policy.NewCluster(), Kinds: s.Kinds, CLI: true, Coverage: o.Coverage}
	if k, ok := s.Kinds.(interface{ Unwrap() policy.Kinds }); ok {
		if m, ok := k.Unwrap().(admission.Mergers); ok {
			options.Mergers = m
		}
	}
	engine, err := kyvernocel.New(append([]*render.Object{p}, s.Exceptions...), options)
	if len(render.Failures(err)) > 0 {
		return nil, err
	}
	return &celTest{setup: s, engine: engine, name: p.GetName(), kind: strings.TrimPrefix(p.GetKind(), "Namespaced")}, err
}

// Rules implements policytest.KyvernoPolicy: the rules of these policies have no names.
func (*celTest) Rules() []string { return nil }

// Evaluate implements policytest.KyvernoPolicy.
func (t *celTest) Evaluate(ctx context.Context, _ policytest.Phase, req *policytest.KyvernoRequest) (policytest.KyvernoVerdict, error) {
	responses, err := t.engine.Respond(ctx, req.Request, t.mocks(req))
	v := policytest.KyvernoVerdict{Silent: true}
	for i := range responses {
		r := &responses[i]
		if v.Silent = v.Silent && t.silent(r); !r.Matched {
			continue
		}
		said := policytest.KyvernoResponse{Status: string(r.Status), Message: r.Message, Fields: r.Fields, Assumed: r.Assumed, Generated: r.Generated}
		if t.kind == kyvernocel.Generating || t.kind == kyvernocel.Deleting {
			said.Rule = t.name
		}
		switch {
		case r.Target != nil:
			said.Target = r.Patched
		case r.Patched != nil:
			v.Object = r.Patched
		}
		v.Rules = append(v.Rules, said)
	}
	return v, err
}

// silent reports whether Kyverno's command line has no response at all.
func (t *celTest) silent(r *kyvernocel.Response) bool {
	switch {
	case r.Matched:
		return false
	case t.kind == kyvernocel.Generating || t.kind == kyvernocel.ImageValidating:
		return true
	default:
		return r.Policy.Plain
	}
}

func (t *celTest) mocks(req *policytest.KyvernoRequest) *kyvernocel.Mocks {
	s := t.setup
	m := &kyvernocel.Mocks{
		Resources: s.Context, Images: s.Images, HasCluster: s.HasCluster, UserInfo: s.User, Global: s.Global, Targets: s.Targets,
		Labels: s.NamespaceLabels, Namespaces: make(map[string]*render.Object, len(s.Namespaces)), JSON: req.JSON,
	}
	if s.HasCluster {
		m.Cluster = slices.Concat(s.Resources, s.Targets, s.Params, s.Cluster)
	}
	for _, o := range s.Namespaces {
		if m.Namespaces[o.GetName()] == nil {
			m.Namespaces[o.GetName()] = o
		}
	}
	for _, c := range s.APICalls {
		m.HTTP = append(m.HTTP, kyvernocel.HTTPCall(c))
	}
	return m
}

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
