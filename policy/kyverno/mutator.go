package kyverno

import (
	"context"

	"github.com/preadmit/preadmit/policy"
)

// Mutator returns the mutator that applies the mutate rules to requests'
// objects, as Kyverno's mutating webhook does. Each rule sees the object as the
// rule before left it. A rule with targets changes nothing in the request.
func (e *Engine) Mutator() policy.Mutator { return &mutator{e} }

type mutator struct{ engine *Engine }

// Rules implements policy.Mutator.
func (m *mutator) Rules() []policy.Rule {
	return m.engine.rules(func(r *Rule) bool { return r.Mutate != nil })
}

// Mutate implements policy.Mutator.
func (m *mutator) Mutate(ctx context.Context, req *policy.Request) ([]policy.Step, error) {
	if len(m.engine.policies) == 0 || req.Admitted == nil {
		return nil, nil
	}
	if _, ignored := m.engine.filters.Ignores(req); ignored {
		return nil, ctx.Err()
	}
	r := m.engine.newReview(ctx, req, nil)
	var steps []policy.Step
	err := r.each(&mutates, func(resp Response) {
		s := policy.Step{Result: r.result(&resp)}
		s.Result.Action = mutationAction(&resp)
		if resp.Target == nil {
			s.Admitted = resp.Patched
		}
		steps = append(steps, s)
	})
	return steps, err
}

// mutationAction returns the action when a mutate rule breaks: the webhook
// denies the request, unless the policy ignores failures.
func mutationAction(resp *Response) policy.Action {
	if resp.Policy.FailurePolicy == "Ignore" {
		return policy.Warn
	}
	return policy.Deny
}
