package kyvernocel

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/enginetest"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

const repeatedPolicies = `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: a}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  variables: [{name: all, expression: "object.spec.containers + object.spec.?initContainers.orValue([])"}]
  matchConditions: [{name: c, expression: "object.metadata.name != 'k'"}]
  validations:
  - {expression: "variables.all.all(c, c.?securityContext.?privileged.orValue(false) == false)", messageExpression: "'privileged in ' + object.metadata.name"}
  - {expression: "object.spec.?hostPID.orValue(false) == false", message: "no"}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: b}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations:
  - {expression: "has(object.spec.hostPID).orValue(true) && object.spec.containers.orValue([]).exists(c, c.name == 'a')"}
  - {expression: "request.operation == 'CREATE' && !has(object.spec.hostPID)"}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: a, image: b, securityContext: {privileged: true}}], hostPID: true}
`

// TestRepeats holds that verdicts on objects that are equal in what a policy reads are
// those that evaluating each gives, for published policies, too, where they are present.
func TestRepeats(t *testing.T) {
	t.Parallel()
	objects := rendertest.Parse(t, "p.yaml", repeatedPolicies)
	files, err := filepath.Glob("../../../shared/corpora/kyverno-policies/pod-security-vpol__*/*/*.yaml")
	rendertest.OK(t, err)
	for _, f := range files {
		data := rendertest.ReadFile(t, f)
		more := rendertest.Parse(t, f, data)
		objects = append(objects, more...)
	}
	kinds, err := schema.New(nil, schema.Options{})
	rendertest.OK(t, err)
	engine := func() *Engine {
		e, err := New(objects, Options{Cluster: policy.NewCluster(), Kinds: kinds})
		rendertest.OK(t, err)
		return e
	}
	with, without := engine(), engine()
	for _, p := range without.policies {
		for _, c := range append(p.copies, p.main) {
			c.repeats = cel.Repeats[verdict]{}
		}
	}
	pods := slices.DeleteFunc(slices.Clone(objects), func(o *render.Object) bool {
		return kindOf(o) != "" || o.GetKind() != "Pod" && o.GetKind() != "Deployment"
	})
	enginetest.Repeats(t, kinds, with.Validator(), without.Validator(), pods, 1500, enginetest.Changes{Fields: []string{"spec"}, Key: "securityContext", Values: []any{
		"a", "", int64(1), true, false, nil, map[string]any{}, []any{}, []any{map[string]any{"name": "a"}},
	}})
	if with.policies[0].main.repeats.Found() == 0 {
		t.Error("no repeats")
	}
}
