package admission

import (
	"context"
	"fmt"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Evaluate evaluates the expressions of one policy for a request, for tests of
// expressions. It ignores the policy's match constraints and bindings. params
// is the parameter; nil is null. The request must be one that a Chain has
// completed, with a user. It fails if ctx ends or if there is no such policy.
func (e *Engine) Evaluate(ctx context.Context, req *policy.Request, name string, params *render.Object) ([]policy.Result, error) {
	named := e.named(name, req.Subject().Unit)
	if len(named) == 0 {
		return nil, fmt.Errorf("there is no ValidatingAdmissionPolicy %s", name)
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
	r.userKnown = true
	for _, v := range r.run.setUp(b.compiled, p, as).verdicts() {
		all.add(b, policy.Deny, v)
	}
	return all.list, ctx.Err()
}
