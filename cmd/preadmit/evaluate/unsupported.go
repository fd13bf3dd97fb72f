package evaluate

import (
	"context"
	"iter"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
)

// unsupported returns results about deployed objects that pass only because of an object that
// nothing deploys, such as an exempting label of a Namespace. It evaluates their requests without
// such objects; found are the results with them.
func unsupported(ctx context.Context, in, trusted *load.Input, s engines.Options, requests func() ([]policy.Request, error), found ...iter.Seq[*policy.Result]) ([]policy.Result, error) {
	exempting, is := change.ExemptingUnreached(in.Side(), s.Authorizer == "rbac")
	if len(exempting) == 0 {
		return nil, nil
	}
	reqs, err := requests()
	if reqs = change.Deployed(reqs, exempting); err != nil || len(reqs) == 0 {
		return nil, err
	}
	less := in.Without(is)
	lessTrusted := less
	if trusted != in {
		lessTrusted = trusted.Without(is)
	}
	set, err := engines.New(less, lessTrusted, s)
	if err != nil {
		return nil, err
	}
	s.Watch.Expect(supervise.EvaluateTask, len(reqs))
	results, err := set.Chain.Review(ctx, reqs)
	if err != nil {
		return nil, err
	}
	return change.Unsupported(policy.WithoutRepeats(results), exempting, found...), nil
}
