package suites

import (
	"context"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/kyvernocel"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/render"
)

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
