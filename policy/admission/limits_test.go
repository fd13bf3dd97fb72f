package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestOutOfBudget spends more than there is.
func TestOutOfBudget(t *testing.T) {
	t.Parallel()
	object := map[string]any{"apiVersion": "v1", "kind": "Endpoints", "metadata": map[string]any{"name": "a"}}
	for budget, want := range map[int64]error{3: cel.ErrBudget, 4: nil, 6: cel.ErrBudget, 7: nil} {
		expressions := []string{"object.metadata.name == 'a'", "object.kind == 'Endpoints'"}[:1+budget/5]
		if _, err := spend(t, object, expressions, false, budget); !errors.Is(err, want) {
			t.Errorf("%d for %q: %v, want %v", budget, expressions, err, want)
		}
	}
}

const costlyPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: costly}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]
  variables:
  - {name: ten, expression: "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"}
  - {name: text, expression: "object.data.text + object.data.text"}
  validations:
  - expression: variables.ten.all(a, variables.ten.all(b, variables.ten.all(c, variables.ten.all(d, variables.ten.all(e, variables.ten.all(f, a + b + c + d + e + f > 0))))))
  - expression: quantity(object.data.quantity).isInteger()
  - expression: "!variables.text.matches('(x*){30}y')"
  - expression: variables.text.replace('x', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx').size() > 1
  - expression: object.data.text.contains('yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy')
  - expression: "true"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: costly}
spec: {policyName: costly, validationActions: [Deny]}
`

// TestHostileObject says that an object can't stall the engine, nor a policy,
// and that errors stay short.
func TestHostileObject(t *testing.T) {
	t.Parallel()
	e, err := New(rendertest.Parse(t, "p.yaml", costlyPolicy), Options{Kinds: testKinds{}})
	rendertest.OK(t, err)
	object := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {quantity: 1e2147483647x, text: %q}\n", strings.Repeat("x", 1<<20))
	object = strings.Replace(object, "1e2147483647x", `"1e2147483647"`, 1)
	chain := policy.Chain{Kinds: testKinds{}, Validators: []policy.Validator{e}}
	results, err := chain.Review(context.Background(), policy.Requests(nil, rendertest.Parse(t, "o.yaml", object)))
	if err != nil || len(results) == 0 {
		t.Fatal(results, err)
	}
	for _, r := range results {
		if r.Outcome != policy.Error && r.Rule != "validations[5]" {
			t.Errorf("%s: %s %.100s", r.Rule, r.Outcome, r.Message)
		}
		if strings.Contains(r.Message, "cost limit exceeded") && len(r.Fields) > 0 {
			t.Errorf("%s blames %q for what the expression costs", r.Rule, r.Fields)
		}
		if len(r.Message) > policy.MaxMessage {
			t.Errorf("%s: message of %d bytes", r.Rule, len(r.Message))
		}
	}
}

// TestConcurrentUse evaluates the same requests from several sides at once.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	objects, cluster := rendertest.Parse(t, "objects.yaml", expressionObjects), rendertest.Parse(t, "cluster.yaml", expressionCluster)
	text := fmt.Sprintf(expressionPolicy, 1, "Fail", "[]", "object.metadata.name == 'x'", "object.metadata.name == 'x'", "true")
	options := Options{Kinds: testKinds{}, Cluster: policy.NewCluster(cluster...), AssumeBound: always, Authorizer: lawyer{}}
	e, err := New(rendertest.Parse(t, "p.yaml", text), options)
	rendertest.OK(t, err)
	chain := policy.Chain{Kinds: options.Kinds, Validators: []policy.Validator{e}}
	all := make([][]policy.Result, 8)
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			all[i], _ = chain.Review(context.Background(), policy.Requests(nil, objects))
		})
	}
	group.Wait()
	for _, results := range all {
		if diff := cmp.Diff(all[0], results); diff != "" || len(results) < len(objects) {
			t.Errorf("results differ: %s", diff)
		}
	}
}

// TestCancelled stops between policies.
func TestCancelled(t *testing.T) {
	t.Parallel()
	e, err := New(rendertest.Parse(t, "p.yaml", costlyPolicy), Options{Kinds: testKinds{}})
	rendertest.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Validate(ctx, &policy.Request{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestRules documents every validation.
func TestRules(t *testing.T) {
	t.Parallel()
	e, err := New(rendertest.Parse(t, "p.yaml", costlyPolicy), Options{Kinds: testKinds{}})
	rendertest.OK(t, err)
	rules := e.Rules()
	if len(rules) != 6 {
		t.Fatal(rules)
	}
	want := policy.Rule{
		Engine: policy.EngineAdmission, Policy: "costly", Name: "validations[5]", Action: policy.Deny,
		Title: "true", Expression: "true", Origin: rules[5].Origin,
	}
	if diff := cmp.Diff(want, rules[5]); diff != "" || rules[5].Origin.Line != 17 {
		t.Error(diff, rules[5].Origin)
	}
}
