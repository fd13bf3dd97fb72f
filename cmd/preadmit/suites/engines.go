// Package suites connects the engines to test suites: package policytest reads the suites of
// Kyverno, gator and kaptest and compares the results.
//
// [Engines] returns an adapter for each kind of suite, in a file of its name. An adapter sets up an
// engine as the suite's own tool does: without a cluster, with the values and mocks of the test,
// and with every authorizer check allowed.
package suites

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/policy/gatekeeper"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
)

// Options configure how policies of suites are evaluated.
type Options struct {
	KubeVersion string           // "" is the newest
	Coverage    *policy.Coverage // counts the branches taken; nil counts nothing

	// Templates keeps compiled templates of Gatekeeper for further engines that
	// count nothing; nil keeps none.
	Templates *gatekeeper.Compiled
}

// Engines returns the engines that evaluate the policies of suites.
func Engines(o Options) policytest.Engines {
	return policytest.Engines{
		Kinds: func(crds []*render.Object) (policy.Kinds, error) {
			return schema.New(crds, schema.Options{KubeVersion: o.KubeVersion})
		},
		Admission: func(p *render.Object, kinds policy.Kinds, cluster *policy.Cluster) (policytest.Evaluator, error) {
			allow, err := authz.New("allow", authz.Options{})
			if err != nil {
				return nil, err
			}
			return admission.New([]*render.Object{p}, admission.Options{
				Cluster: cluster, Kinds: kinds, KubeVersion: o.KubeVersion, Coverage: o.Coverage,
				Authorizer: allow, AuthorizerAssumed: allow.Assumed,
			})
		},
		Mutation: newMutationTest(o),
		Kyverno:  newKyvernoTest(o),
		Gator:    newGatorTest(o),
	}
}

// gatorTest is the constraint of a gator test.
type gatorTest struct {
	engine *gatekeeper.Engine
}

// newGatorTest compiles the template and the constraint of a test, with its
// expansion templates.
func newGatorTest(o Options) func(*policytest.GatorSetup) (policytest.GatorPolicy, error) {
	if o.Coverage != nil {
		o.Templates = nil
	}
	return func(s *policytest.GatorSetup) (policytest.GatorPolicy, error) {
		engine, err := gatekeeper.New(append([]*render.Object{s.Template, s.Constraint}, s.Expansions...), gatekeeper.Options{
			Kinds: s.Kinds, EnforcementPoint: gatekeeper.PointGator, Written: true, Coverage: o.Coverage, Compiled: o.Templates,
		})
		return gatorTest{engine: engine}, withSchemaRule(err)
	}
}

// withSchemaRule sets RuleConstraintSchema in the errors about constraints that violate their
// template's schema.
func withSchemaRule(err error) error {
	var all []error
	for _, e := range render.Errors(err) {
		if errors.Is(e, gatekeeper.ErrSchema) {
			marked := *e
			marked.Rule = policytest.RuleConstraintSchema
			e = &marked
		}
		all = append(all, e)
	}
	return errors.Join(all...)
}

// Among implements policytest.GatorPolicy.
func (g gatorTest) Among(inventory []*render.Object) policytest.GatorPolicy {
	return gatorTest{engine: g.engine.With(policy.NewCluster(inventory...))}
}

// Evaluate implements policytest.GatorPolicy.
func (g gatorTest) Evaluate(ctx context.Context, o *render.Object) ([]policy.Result, error) {
	responses, err := g.engine.Review(ctx, gatekeeper.Review{Object: o, Passes: true})
	if err != nil {
		return nil, err
	}
	results := make([]policy.Result, len(responses))
	for i := range responses {
		results[i] = GatorResult(&responses[i])
	}
	return results, nil
}

// GatorResult converts a response to a result as gator counts it.
func GatorResult(r *gatekeeper.Response) policy.Result {
	outcome := r.Outcome
	if r.Violation() {
		outcome = policy.Fail
	}
	return policy.Result{
		Engine: policy.EngineGatekeeper, Policy: r.Constraint.GetName(), Rule: r.Constraint.GetKind(),
		Outcome: outcome, Action: actionAmong(r.Actions), Message: r.Message, Fields: r.Fields, Assumed: r.Assumed,
	}
}

// actionAmong returns the strongest of Gatekeeper's enforcement actions.
func actionAmong(actions []string) policy.Action {
	strongest := policy.Audit
	for _, a := range actions {
		if x := policy.Action(a); x.AtLeast(strongest) {
			strongest = x
		}
	}
	return strongest
}

// mutationTest is a MutatingAdmissionPolicy of a kaptest suite. It matches everything, and is bound
// with the parameter of each test case.
type mutationTest struct {
	policy  *render.Object
	options admission.Options
}

func newMutationTest(o Options) func(*render.Object, policy.Kinds, *policy.Cluster) (policytest.Mutator, error) {
	return func(p *render.Object, kinds policy.Kinds, cluster *policy.Cluster) (policytest.Mutator, error) {
		allow, err := authz.New("allow", authz.Options{})
		if err != nil {
			return nil, err
		}
		t := &mutationTest{policy: unconstrained(p), options: admission.Options{
			Kinds: kinds, Cluster: cluster, KubeVersion: o.KubeVersion, Coverage: o.Coverage, Authorizer: allow, AuthorizerAssumed: allow.Assumed,
			AssumeBound: func(*render.Object) bool { return true },
		}}
		if k, ok := kinds.(interface{ Unwrap() policy.Kinds }); ok {
			t.options.Mergers, _ = k.Unwrap().(admission.Mergers)
		}
		_, err = admission.NewMutating([]*render.Object{t.policy}, t.options)
		return t, err
	}
}

// unconstrained returns a copy of a policy that matches everything.
func unconstrained(p *render.Object) *render.Object {
	c := *p
	c.Unstructured = &unstructured.Unstructured{Object: runtime.DeepCopyJSON(p.Object)}
	rule := map[string]any{
		"apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "resources": []any{"*"}, "operations": []any{"CREATE", "UPDATE"},
	}
	if spec, ok := c.Object["spec"].(map[string]any); ok {
		spec["matchConstraints"] = map[string]any{"resourceRules": []any{rule}}
	}
	return &c
}

// Mutate implements policytest.Mutator.
func (t *mutationTest) Mutate(ctx context.Context, req *policy.Request, params *render.Object) ([]policy.Step, error) {
	objects, options := []*render.Object{t.policy}, t.options
	if params != nil {
		objects = append(objects, bindingTo(t.policy, params))
		options.Cluster = with(t.options.Cluster, params)
	}
	m, err := admission.NewMutating(objects, options)
	if err != nil && len(m.Rules()) == 0 {
		return nil, errors.Join(errors.New("the policy can't be run"), err)
	}
	return m.Mutate(ctx, req)
}

// with returns a cluster with one more object.
func with(c *policy.Cluster, o *render.Object) *policy.Cluster {
	objects := []*render.Object{o}
	for _, kind := range c.Kinds() {
		objects = append(objects, c.List(kind)...)
	}
	return policy.NewCluster(objects...)
}

// bindingTo returns a binding of a policy with one parameter.
func bindingTo(p, params *render.Object) *render.Object {
	ref := map[string]any{"name": params.GetName(), "parameterNotFoundAction": "Deny"}
	if ns := params.GetNamespace(); ns != "" {
		ref["namespace"] = ns
	}
	return &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": p.GetAPIVersion(), "kind": p.GetKind() + "Binding", "metadata": map[string]any{"name": "test"},
		"spec": map[string]any{"policyName": p.GetName(), "paramRef": ref},
	}}}
}

// RegoTests are the unit tests of Rego modules, which run together, as conftest verify
// runs them.
type RegoTests struct {
	Modules []rego.Module
	Data    []rego.Document
	Broken  error               // errors about the data
	Now     time.Time           // current time for policies
	Display func(string) string // names files in reports
}

// Mutable returns the tests in the form that mutation runs.
func (r *RegoTests) Mutable() *policytest.ModuleTests {
	m := &policytest.ModuleTests{Run: func(ctx context.Context, file string, text []byte, coverage *policy.Coverage) ([]policytest.Suite, error) {
		changed := *r
		changed.Modules = slices.Clone(r.Modules)
		for i := range changed.Modules {
			if changed.Modules[i].File == file {
				changed.Modules[i].Text = string(text)
			}
		}
		return changed.Run(ctx, coverage)
	}}
	for _, x := range r.Modules {
		m.Files = append(m.Files, x.File)
	}
	return m
}

// Run runs the tests and returns a suite for each file.
func (r *RegoTests) Run(ctx context.Context, coverage *policy.Coverage) ([]policytest.Suite, error) {
	tests, err := rego.RunTests(ctx, r.Modules, rego.Options{Data: r.Data, Now: r.Now, Coverage: coverage})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	suites := make(map[string]*policytest.Suite)
	suite := func(file string) *policytest.Suite {
		if suites[file] == nil {
			suites[file] = &policytest.Suite{File: r.Display(file), Kind: "rego", Cases: []policytest.Case{}, Notes: []string{}}
		}
		return suites[file]
	}
	for i := range tests {
		s := suite(tests[i].Origin.File)
		s.Cases = append(s.Cases, regoCase(&tests[i]))
	}
	for _, e := range append(render.Errors(r.Broken), render.Errors(err)...) {
		s := suite(e.Span.File)
		s.Error = strings.TrimPrefix(s.Error+"\n"+moduleError(e), "\n")
	}
	var all []policytest.Suite
	for _, s := range suites {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b policytest.Suite) int { return strings.Compare(a.File, b.File) })
	return all, nil
}

// moduleError describes an error in a module with its line and hint.
func moduleError(e *render.Error) string {
	text := strings.TrimPrefix(e.Span.String(), e.Span.File+":") + ": " + e.Err.Error()
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// regoCase returns the case of a unit test, which should pass. A test that its author
// disabled counts as passed.
func regoCase(t *rego.Test) policytest.Case {
	c := policytest.Case{
		Policy: t.Package, Rule: t.Name, Want: string(policy.Pass), Got: string(t.Outcome),
		Reason: t.Message, Line: t.Origin.Line, Notes: []string{},
	}
	switch t.Outcome {
	case policy.Skip:
		c.OK, c.Vacuous, c.Got, c.Reason = true, true, c.Want, "skipped: its name begins with todo_"
	case policy.Error, policy.Unknown:
		c.Got = ""
	default:
		c.OK = t.Outcome == policy.Pass
	}
	return c
}
