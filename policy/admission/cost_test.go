package admission

import (
	"context"
	"testing"

	upstream "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestCost holds the cost that results tell against what the API server
// counts for the same expressions, one at a time and all together.
func TestCost(t *testing.T) {
	t.Parallel()
	const text = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  validations:
  - expression: "true"
  - expression: object.data.all(k, k.startsWith('a') || object.data[k].matches('^b+$'))
  - expression: object.metadata.name == 'other'
`
	object := rendertest.Parse(t, "o.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: prod}\ndata: {a: x, b: bbb, c: bb}\n")
	e, err := New(rendertest.Parse(t, "p.yaml", text), Options{Kinds: testKinds{}, AssumeBound: always, Cost: true})
	rendertest.OK(t, err)
	results, err := policy.Chain{Kinds: testKinds{}, Validators: []policy.Validator{e}}.Review(context.Background(), policy.Requests(nil, object))
	if err != nil || len(results) != 3 {
		t.Fatal(results, err)
	}
	var total int64
	for i, r := range results {
		want := upstreamCost(t, e.policies[0].validations[i].Source, object[0].Object)
		total += want
		if r.Cost == nil || r.Cost.Expression != want {
			t.Errorf("%s: %+v, want %d", r.Rule, r.Cost, want)
		}
	}
	for _, r := range results {
		if r.Cost.Policy != total || r.Cost.PolicyLimit != celconfig.RuntimeCELCostBudget || r.Cost.ExpressionLimit != celconfig.PerCallLimit {
			t.Errorf("%s: %+v, want %d in all", r.Rule, r.Cost, total)
		}
	}
}

func upstreamCost(t *testing.T, expression string, object map[string]any) int64 {
	t.Helper()
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	rendertest.OK(t, err)
	c := compiler.CompileCondition([]plugincel.ExpressionAccessor{&validating.ValidationCondition{Expression: expression}}, plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	attrs := &upstream.VersionedAttributes{}
	attrs.VersionedObject.Set(typed(t, object))
	_, remaining, err := c.ForInput(context.Background(), attrs, nil, plugincel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
	rendertest.OK(t, err)
	return celconfig.RuntimeCELCostBudget - remaining
}
