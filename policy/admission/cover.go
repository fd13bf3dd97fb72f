package admission

import (
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// cover counts the branches of the policy's expressions.
func (c *compiled) cover(coverage *policy.Coverage) {
	if coverage == nil || c.object.Span("").File == "" { // a policy of a pack
		return
	}
	c.each(func(e *cel.Expression) {
		e.Cover(coverage, c.object, policy.Branch{Engine: c.engine(), Policy: c.policy.Name, Rule: e.Rule})
	})
}
