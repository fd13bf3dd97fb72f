package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestCostlyMessages holds that messageExpressions whose cost can't be bounded count
// towards the budget of a policy whose validations all pass, as in the API server.
func TestCostlyMessages(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: costly}\nspec:\n" +
		"  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [configmaps]}]}\n  validations:\n")
	for range 18 {
		text.WriteString("  - expression: 'true'\n    messageExpression: string(object.data.map(a, object.data.map(b, object.data.map(c, a + b + c).size()).size()).size())\n")
	}
	var data strings.Builder
	data.WriteString("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: default}\ndata:\n")
	for i := range 40 {
		fmt.Fprintf(&data, "  k%d: v\n", i)
	}
	policies, objects := rendertest.Parse(t, "p.yaml", text.String()), rendertest.Parse(t, "o.yaml", data.String())
	compareWithOracle(t, policies, objects, nil)
	e, err := New(append(policies, rendertest.Parse(t, "b.yaml", "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: costly}\nspec: {policyName: costly, validationActions: [Deny]}\n")...), Options{Kinds: testKinds{}})
	rendertest.OK(t, err)
	req := requestsAbout(t, e.options.Kinds, objects[0])[0]
	results, err := e.Validate(t.Context(), &req)
	if err != nil || len(results) == 0 || !strings.Contains(results[0].Message, "running out of cost budget") {
		t.Errorf("got %v, %v", results, err)
	}
}
