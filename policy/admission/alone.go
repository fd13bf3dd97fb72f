package admission

import (
	"context"
	"fmt"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Evaluate checks a request by the expressions of one policy alone, with the
// given parameter (nil is null), whatever the policy matches and however it is
// bound: what tests of expressions want. The request is one that a Chain has
// filled in, and tells everything about the user. The error is for
// cancellation, and a policy that is not there.
func (e *Engine) Evaluate(ctx context.Context, req *policy.Request, name string, params *render.Object) ([]policy.Result, error) {
	named := e.named(name, req.Subject().Unit)
	if len(named) == 0 {
		return nil, fmt.Errorf("there is no ValidatingAdmissionPolicy %s to check by", name)
	}
	b, p := named[0], nullParam
	if kind := b.policy.Spec.ParamKind; params != nil && kind != nil {
		p = e.param(params, policy.ParseGroupVersion(kind.APIVersion).WithKind(kind.Kind))
		if p.err != nil {
			return nil, p.err
		}
	}
	as := policy.Version{Resource: req.Resource.GroupVersionResource, Kind: req.Kind}
	all := results{expected: len(b.validations)}
	r := newReview(ctx, e, req)
	r.whole = true
	for _, v := range r.run.setUp(b.compiled, p, as).verdicts() {
		all.add(b, policy.Deny, v)
	}
	return all.list, ctx.Err()
}
