package admission

import (
	celgo "github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// verdictsOf evaluates a policy with a parameter, or returns the verdicts on an object
// that is equal in all that the policy reads.
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

// repeatable reports whether verdicts depend on nothing but the object as it is.
func (r *review) repeatable(p *param, as policy.Version) bool {
	o := &r.engine.options
	return !o.Cost && o.Coverage == nil && p.object == nil && p.assumed == "" &&
		r.req.Operation != policy.Delete && as.Kind == r.req.Kind && as.Kind.Kind != "Secret"
}

// repeating determines which expressions the policy's verdicts depend on.
func (c *compiled) repeating() {
	of := func(lists ...[]*expression) func() []*celgo.Ast {
		return func() []*celgo.Ast {
			return cel.Each(func(e *expression) *celgo.Ast { return e.ast }, lists...)
		}
	}
	c.repeats.Reading(&c.names, func(i int) *celgo.Ast { return c.variables[i].ast }, of(c.conditions, c.validations, c.annotations), of(c.messages))
}
