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
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
)

// unsupported returns results about deployed objects that pass only because of an object that
// nothing deploys, such as an exempting label of its Namespace. It evaluates their requests without
// such objects. found and passes are the results with them, and read reports whether policies may have
// looked up an object for these. The old objects of requests are as written, and graphs know the
// units of their objects.
func (o *Options) unsupported(ctx context.Context, in, trusted *load.Input, s engines.Options, read func(*render.Object) bool, graphs []*cache.Graph, requests func() []policy.Request, passes *policy.Passes, found ...iter.Seq[*policy.Result]) ([]policy.Result, error) {
	side := in.Side()
	if !side.Deploys() {
		return nil, nil
	}
	exempting, is := change.ExemptingUnreached(side, s.Authorizer == "rbac")
	if len(exempting) == 0 {
		return nil, nil
	}
	reqs := change.Concerns(requests(), exempting, read, append(found, passes.Unprinted())...)
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
	if err := p.storeOld(ctx, chain, func(i int) bool { return !p.known[i] }); err != nil {
		return nil, err
	}
	results, err := p.hold(ctx, chain, nil)
	if err != nil {
		return nil, err
	}
	return change.Unsupported(p.held.Each(results...), exempting, found...), nil
}
