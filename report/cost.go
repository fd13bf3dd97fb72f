package report

import (
	"fmt"

	"github.com/preadmit/preadmit/policy"
)

// costs writes the highest cost of each rule whose cost is known, beside the
// API server's limits.
func (p *printer) costs(results *list) {
	type rule struct{ engine, policy, rule string }
	var order []rule
	most := make(map[rule]policy.RuleCost)
	for _, x := range results.outlines() {
		if x.Cost == nil || x.Baseline == policy.Absent {
			continue
		}
		k := rule{x.Engine, x.Policy, x.Rule}
		c, seen := most[k]
		if !seen {
			order = append(order, k)
		}
		c.Expression, c.Policy = max(c.Expression, x.Cost.Expression), max(c.Policy, x.Cost.Policy)
		c.ExpressionLimit, c.PolicyLimit = x.Cost.ExpressionLimit, x.Cost.PolicyLimit
		most[k] = c
	}
	for _, k := range sortedKeys(order, func(k rule) string { return k.engine + "\x00" + k.policy + "\x00" + k.rule }) {
		c := most[k]
		p.line(fmt.Sprintf("%s %s/%s: cost at most %d of %d, of its policy %d of %d",
			name(k.engine), name(k.policy), name(k.rule), c.Expression, c.ExpressionLimit, c.Policy, c.PolicyLimit))
	}
}
