package report

import (
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
)

// TestCosts says that what rules cost is told with -v alone: of each the most.
func TestCosts(t *testing.T) {
	t.Parallel()
	result := func(rule string, expression, all int64) policy.Result {
		return policy.Result{
			Engine: policy.EngineAdmission, Policy: "p", Rule: rule, Outcome: policy.Pass, Action: policy.Deny,
			Cost: &policy.RuleCost{Expression: expression, ExpressionLimit: 1000000, Policy: all, PolicyLimit: 10000000},
		}
	}
	none := result("validations[2]", 0, 0)
	none.Cost = nil
	r := New(Tool{Name: "preadmit"}, nil, nil, []policy.Result{result("validations[1]", 7, 30), result("validations[0]", 3, 10), result("validations[0]", 2, 50), none})
	const want = `ValidatingAdmissionPolicy p/validations[0]: cost at most 3 of 1000000, of its policy 50 of 10000000
ValidatingAdmissionPolicy p/validations[1]: cost at most 7 of 1000000, of its policy 30 of 10000000
`
	if out := string(write(t, "text", r, Options{Verbose: true})); !strings.Contains(out, want) || strings.Contains(out, "validations[2]: cost") {
		t.Errorf("%s", out)
	}
	if out := string(write(t, "text", r, Options{})); strings.Contains(out, "cost") {
		t.Errorf("%s", out)
	}
}
