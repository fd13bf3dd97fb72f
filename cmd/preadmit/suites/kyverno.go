package suites

import (
	"context"
	"maps"
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/kyverno"
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
