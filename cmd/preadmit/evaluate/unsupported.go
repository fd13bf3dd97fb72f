package evaluate

import (
	"context"
	"iter"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/render/cache"
)

// unsupported returns results about deployed objects that pass only because of an object that
// nothing deploys, such as an exempting label of a Namespace. It evaluates their requests without
// such objects. found are the results with them. The old objects of requests are as written, and
// graphs know the units of their objects.
func (o *Options) unsupported(ctx context.Context, in, trusted *load.Input, s engines.Options, graphs []*cache.Graph, requests func() []policy.Request, found ...iter.Seq[*policy.Result]) ([]policy.Result, error) {
	exempting, is := change.ExemptingUnreached(in.Side(), s.Authorizer == "rbac")
	if len(exempting) == 0 {
		return nil, nil
	}
	reqs := change.Deployed(requests(), exempting)
	if len(reqs) == 0 {
		return nil, nil
	}
	less := in.Without(is)
	lessTrusted := less
	if trusted != in {
		lessTrusted = trusted.Without(is)
	}
	cached := newResultCache(o.Memory, less, lessTrusted, s)
	cached.graphs = graphs
	p := cached.part("unsupported", new(policy.Compact), reqs)
	p.stores = true
	cached.changes = []*part{p}
	var chain policy.Chain
	if left := p.left(); left > 0 {
		start := time.Now()
		set, err := engines.New(less, lessTrusted, s)
		if err != nil {
			return nil, err
		}
		cached.compiled(set, time.Since(start))
		defer cached.keep(set)
		o.Watch.Expect(supervise.EvaluateTask, left)
		chain = set.Chain
	}
	results, err := p.review(ctx, chain)
	if err != nil {
		return nil, err
	}
	return change.Unsupported(policy.WithoutRepeats(results), exempting, found...), nil
}
