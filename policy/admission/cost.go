package admission

import (
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
)

// tellCosts tells what the validations cost, once they have been evaluated
// within their budget, where that is asked for.
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
