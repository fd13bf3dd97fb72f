package kyvernocel

import (
	"github.com/preadmit/preadmit/policy"
)

// cover counts the branches of the policy's expressions.
func (p *Policy) cover(coverage *policy.Coverage) {
	if coverage == nil || p.main == nil {
		return
	}
	for _, e := range p.main.ready().expressions {
		e.Cover(coverage, p.Object, policy.Branch{Engine: p.engine(), Policy: p.Name, Rule: e.Rule})
	}
}

// covered makes a copy for pod controllers add its counts to the branches of
// the written policy.
func (c *compiled) covered() {
	main := c.policy.main
	if main == nil || c == main || len(main.expressions) != len(c.expressions) {
		return
	}
	for i, e := range c.expressions {
		if main.expressions[i].Pointer == e.Pointer {
			e.Program.CoverAs(main.expressions[i].Program)
		}
	}
}
