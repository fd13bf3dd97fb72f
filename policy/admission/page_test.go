package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestNeededVersions: an expression of each library that the documentation
// gives a first version is told of it at the version before, and of nothing at
// that version.
func TestNeededVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		since      int
		expression string
	}{
		{28, "authorizer.path('/healthz').check('get').allowed()"},
		{29, "quantity('50M').isLessThan(quantity('100M'))"},
		{29, "object.?spec.hasValue()"},
		{29, "1 < 1.5"},
		{30, "sets.contains([1, 2], [1])"},
		{30, "'%d'.format([1]) == '1'"},
		{31, "isIP('127.0.0.1')"},
		{31, "cidr('10.0.0.0/8').containsIP('10.1.1.1')"},
		{32, "!format.dns1123Label().validate('a').hasValue()"},
		{32, "authorizer.group('').resource('pods').labelSelector('a=b').check('list').allowed()"},
		{33, "{'a': 1}.all(k, v, v > 0)"},
		{34, "isSemver('1.0.0')"},
		{35, "[2, 1].sort() == [1, 2]"},
	} {
		for _, behind := range []int{1, 0} {
			text := compileErrors(t, c.expression, fmt.Sprintf("1.%d", c.since-behind))
			needed := fmt.Sprintf("needs Kubernetes 1.%d or newer: ", c.since)
			if behind == 1 && !strings.Contains(text, needed) || behind == 0 && text != "" {
				t.Errorf("1.%d: %s: %q", c.since-behind, c.expression, text)
			}
		}
	}
}

// compileErrors is what is wrong with a policy of the expression.
func compileErrors(t *testing.T, expression, version string) string {
	t.Helper()
	policies := rendertest.Parse(t, "policy.yaml", fmt.Appendf(nil, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: %q}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [Deny]}
`, expression))
	_, err := New(policies, Options{Kinds: testKinds{}, Cluster: policy.NewCluster(), KubeVersion: version})
	var text strings.Builder
	for _, e := range render.Errors(err) {
		fmt.Fprintln(&text, e.Err)
	}
	return text.String()
}
