package kyvernocel

import (
	"fmt"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/enginetest"
	"github.com/preadmit/preadmit/render"
)

// equalPolicies change and check Pods, by the object, its namespace and a ConfigMap, of which
// several units have one each.
const equalPolicies = `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: mutate}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: Object.metadata.labels{added: object.metadata.name}}}"}
---
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: mutate-own}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  matchConditions: [{name: some, expression: "object.metadata.name == 'b'"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: Object.metadata.labels{own: resource.Get('v1', 'configmaps', 'one', 'params').data.allow}}}"}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: same}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations:
  - {expression: "object.metadata.labels.added != 'a'", messageExpression: "'added to ' + object.metadata.name"}
  - {expression: "object.metadata.?labels.own.orValue('yes') == 'yes'", message: own}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: own}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations:
  - {expression: "namespaceObject.metadata.?labels.strict.orValue('no') == 'no'", message: strict}
  - {expression: "resource.Get('v1', 'configmaps', 'one', 'params').data.allow == 'yes'", message: not allowed}
`

// TestEqualObjects holds that requests about equal objects, which are reviewed together,
// have the results of requests that are reviewed alone.
func TestEqualObjects(t *testing.T) {
	t.Parallel()
	var objects []*render.Object
	for i := range 4 {
		text := ""
		for _, p := range [][2]string{{"a", "one"}, {"a", "several"}, {"b", "one"}, {"c", "one"}} {
			text += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s}\nspec: {containers: [{name: c, image: 'c:latest'}]}\n", p[0], p[1])
		}
		if i == 0 {
			text += "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n"
		}
		text += fmt.Sprintf("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: several, labels: {strict: '%s'}}\n", []string{"no", "yes"}[i%2])
		text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: params, namespace: one}\ndata: {allow: '%s'}\n", []string{"no", "yes"}[i%2])
		parsed := parsed(t, text)
		file := fmt.Sprintf("%d.yaml", i)
		u := &render.Unit{Source: render.Source{Path: file, Kind: "manifest"}, Objects: parsed}
		for _, o := range parsed {
			o.Unit = u
		}
		objects = append(objects, parsed...)
	}
	chain := chainOf(t, Options{Cluster: policy.NewCluster(objects...)}, parsed(t, equalPolicies)...)
	reqs := policy.Requests(nil, objects)
	want := enginetest.Together(t, chain, reqs)
	seen := map[string]bool{}
	for i := range want {
		seen[fmt.Sprintf("%s %s %s", want[i].Policy, want[i].Rule, want[i].Outcome)] = true
	}
	for _, one := range []string{
		"mutate mutations[0] pass", "mutate-own mutations[0] pass", "mutate-own mutations[0] skip", "same validations[0] fail", "same validations[0] pass",
		"same validations[1] fail", "own validations[0] fail", "own validations[0] pass", "own validations[1] fail", "own validations[1] pass",
	} {
		if !seen[one] {
			t.Errorf("no result %q among %v", one, seen)
		}
	}
}
