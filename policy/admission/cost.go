package admission

import (
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
)

// setCosts sets the cost of each validation if Options.Cost is set. The caller
// must have evaluated the validations within their budget.
func (r *run) setCosts(vs []verdict) {
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
