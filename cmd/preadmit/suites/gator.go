package suites

import (
	"context"
	"errors"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/render"
)

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
