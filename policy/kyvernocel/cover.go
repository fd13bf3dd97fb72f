package kyvernocel

import (
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// cover counts the branches of the policy's expressions.
func (p *Policy) cover(coverage *policy.Coverage) {
	if coverage == nil || p.main == nil {
		return
	}
	for _, e := range p.main.ready().expressions {
		e.program.Cover(coverage, cel.CoveredExpression{
			Engine: p.engine(), Policy: p.Name, Rule: e.rule, Object: p.Object, Pointer: e.pointer, Source: e.source,
		})
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
		if main.expressions[i].pointer == e.pointer {
			e.program.CoverAs(main.expressions[i].program)
		}
	}
}
