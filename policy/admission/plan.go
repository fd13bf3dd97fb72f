package admission

import (
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// The groups of a policy's expressions that share a budget.
const (
	conditionsGroup = iota
	validationsGroup
	annotationsGroup
)

// plan returns the plans of the policy's expressions. Validations and their messages
// share a budget, but not the variables.
func (c *compiled) plan() *cel.Plans {
	return cel.NewPlans(&c.names, cel.Programs(c.variables),
		cel.Group{Budget: celconfig.RuntimeCELCostBudgetMatchConditions, Rounds: 1, Programs: cel.Programs(c.conditions)},
		cel.Group{Budget: celconfig.RuntimeCELCostBudget, Rounds: 2, Programs: cel.Programs(c.validations, c.messages)},
		cel.Group{Budget: celconfig.RuntimeCELCostBudget, Rounds: 1, Programs: cel.Programs(c.annotations)},
	)
}
