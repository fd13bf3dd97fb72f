package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

const documented = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: p
  annotations: {%s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
  - expression: "true"
  - {expression: "1 == 1", message: "one is one"}
`

// TestDocuments: what annotations say about a policy is what its rules say.
func TestDocuments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, annotations string
		want              policy.Rule
	}{
		{"nothing", ``, policy.Rule{Title: "true"}},
		{
			"ours first",
			`preadmit.dev/title: ours, preadmit.dev/severity: high, preadmit.dev/description: why, preadmit.dev/help: how, preadmit.dev/url: "https://example.com",
			policies.kyverno.io/title: theirs, policies.kyverno.io/severity: low, policies.kyverno.io/description: theirs`,
			policy.Rule{Title: "ours", Severity: policy.High, Description: "why", Help: "how", URL: "https://example.com"},
		},
		{
			"others", `policies.kyverno.io/title: theirs, policies.kyverno.io/severity: low, kubernetes.io/description: " why "`,
			policy.Rule{Title: "theirs", Severity: policy.Low, Description: "why"},
		},
		{"empty and odd", `preadmit.dev/title: " ", preadmit.dev/severity: dire, policies.kyverno.io/title: t`, policy.Rule{Title: "t"}},
		{"long", `preadmit.dev/help: ` + strings.Repeat("x", 20<<10), policy.Rule{Title: "true", Help: strings.Repeat("x", 16<<10-len(" … (shortened)")) + " … (shortened)"}},
	} {
		e, err := New(rendertest.Parse(t, "p.yaml", fmt.Appendf(nil, documented, c.annotations)), Options{Kinds: testKinds{}})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		rules := e.Rules()
		if len(rules) != 2 || rules[1].Title != "one is one" {
			t.Fatalf("%s: a message is its rule's title: %+v", c.name, rules)
		}
		got := rules[0]
		got.Engine, got.Policy, got.Name, got.Expression, got.Origin = "", "", "", "", c.want.Origin
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}
