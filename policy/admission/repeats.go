package admission

import (
	"github.com/preadmit/preadmit/policy"
)

// verdictsOf evaluates a policy with a parameter, or reuses the verdicts on an
// object whose fields are equal, as far as the policy reads them.
func (r *review) verdictsOf(c *compiled, p *param, as policy.Version) []verdict {
	o := r.objects.In(as.Kind)
	if o.Err != nil || !r.repeatable(p, as) {
		return r.run.setUp(c, p, as).verdicts()
	}
	return c.repeats.Verdicts(&r.key, o.Object, (*verdict).decided, func() ([]verdict, bool) {
		return r.run.setUp(c, p, as).verdicts(), true
	})
}

func (v *verdict) decided() policy.Outcome { return v.outcome }

// repeatable reports whether verdicts depend on the object alone.
func (r *review) repeatable(p *param, as policy.Version) bool {
	o := &r.engine.options
	return !o.Cost && o.Coverage == nil && p.object == nil && p.assumed == "" &&
		r.req.Operation != policy.Delete && as.Kind == r.req.Kind && as.Kind.Kind != "Secret"
}
