package admission

import (
	"slices"

	celgo "github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/policy"
)

// verdictsOf evaluates a policy with a parameter, or returns the verdicts on an object
// that is equal in all that the policy reads.
func (r *review) verdictsOf(c *compiled, p *param, as policy.Version) []verdict {
	if !r.repeatable(p, as) || !c.repeats.Worthwhile() || r.objects.In(as.Kind).Err != nil {
		return r.run.setUp(c, p, as).verdicts()
	}
	vs, found, key := c.repeats.LookUp(r.key, r.objects.In(as.Kind).Object)
	r.key = key.Room()
	if found {
		return vs
	}
	vs = r.run.setUp(c, p, as).verdicts()
	if !slices.ContainsFunc(vs, func(v verdict) bool { return v.outcome == policy.Error || v.outcome == policy.Unknown }) {
		c.repeats.Learn(key, slices.Clone(vs), slices.ContainsFunc(vs, func(v verdict) bool { return v.outcome == policy.Fail }))
	}
	return vs
}

// repeatable reports whether verdicts depend on nothing but the object as it is.
func (r *review) repeatable(p *param, as policy.Version) bool {
	o := &r.engine.options
	return !o.Cost && o.Coverage == nil && p.object == nil && p.assumed == "" &&
		r.req.Operation != policy.Delete && as.Kind == r.req.Kind && as.Kind.Kind != "Secret"
}

// repeating determines which expressions the policy's verdicts depend on.
func (c *compiled) repeating() {
	of := func(lists ...[]*expression) func() []*celgo.Ast {
		return func() (all []*celgo.Ast) {
			for _, e := range slices.Concat(lists...) {
				if e != nil {
					all = append(all, e.ast)
				}
			}
			return all
		}
	}
	c.repeats.Reading(&c.names, func(i int) *celgo.Ast { return c.variables[i].ast }, of(c.conditions, c.validations, c.annotations), of(c.messages))
}
