package admission

import (
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
)

// tellCosts sets the cost of each validation if Options.Cost is set. It must be
// called after the validations have been evaluated within their budget.
func (r *run) tellCosts(vs []verdict) {
	if !r.review.engine.options.Cost {
		return
	}
	for i := range vs {
		vs[i].cost = &policy.RuleCost{
			Expression: vs[i].spent, ExpressionLimit: celconfig.PerCallLimit,
			Policy: celconfig.RuntimeCELCostBudget - r.meter.Remaining(), PolicyLimit: celconfig.RuntimeCELCostBudget,
		}
	}
}
