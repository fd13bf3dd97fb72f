package admission

import (
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// cover counts the branches of the policy's expressions.
func (c *compiled) cover(coverage *policy.Coverage) {
	if coverage == nil || c.object.Span("").File == "" { // of a pack
		return
	}
	c.each(func(e *expression) {
		e.program.Cover(coverage, cel.CoveredExpression{
			Engine: c.engine(), Policy: c.policy.Name, Rule: e.rule, Object: c.object, Pointer: e.pointer, Source: e.source,
		})
	})
}
