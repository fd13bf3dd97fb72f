package kyverno

import (
	"fmt"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/enginetest"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// equalPolicies have rules whose responses are the same for equal objects, and rules for
// which it matters which object of the cluster is under review, or in which unit it is.
const equalPolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: same}
spec:
  rules:
  - name: label
    match: {any: [{resources: {kinds: [Pod]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {+(added): '{{ request.object.metadata.name }}'}}}}
  - name: image
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {message: 'not {{ request.object.spec.containers[0].image }}', pattern: {spec: {containers: [{image: '!*:latest'}]}}}
  - name: added
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {message: added, deny: {conditions: {any: [{key: '{{ request.object.metadata.labels.added }}', operator: Equals, value: a}]}}}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: own}
spec:
  rules:
  - name: others
    match: {any: [{resources: {kinds: [Pod]}}]}
    context: [{name: names, apiCall: {urlPath: /api/v1/pods, jmesPath: 'items[].metadata.labels.order'}}]
    validate: {message: 'others: {{ names }}', deny: {conditions: {any: [{key: '{{ names }}', operator: AnyNotIn, value: [x]}]}}}
  - name: namespace
    match: {any: [{resources: {kinds: [Pod], namespaceSelector: {matchLabels: {strict: 'yes'}}}}]}
    validate: {message: strict, pattern: {spec: {hostNetwork: true}}}
  - name: parameter
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate:
      cel:
        paramKind: {apiVersion: v1, kind: ConfigMap}
        paramRef: {name: params, namespace: one, parameterNotFoundAction: Deny}
        expressions: [{expression: "params.data.allow == 'yes'", message: not allowed}]
`

// TestEqualObjects holds that requests about equal objects, which are reviewed together,
// have the results of requests that are reviewed alone.
func TestEqualObjects(t *testing.T) {
	t.Parallel()
	var objects []*render.Object
	for i := range 4 {
		text := ""
		for _, p := range [][3]string{{"a", "one", "x"}, {"a", "several", "x"}, {"b", "one", "x"}, {"c", "none", fmt.Sprint(i)}} {
			text += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s, labels: {order: '%s'}}\nspec: {containers: [{name: c, image: 'c:latest'}]}\n", p[0], p[1], p[2])
		}
		if i == 0 {
			text += "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: one, labels: {strict: 'yes'}}\n"
		}
		text += fmt.Sprintf("---\napiVersion: v1\nkind: Namespace\nmetadata: {name: several, labels: {strict: '%s'}}\n", []string{"no", "yes"}[i%2])
		text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: params, namespace: one}\ndata: {allow: '%s'}\n", []string{"no", "yes"}[i%2])
		file := fmt.Sprintf("%d.yaml", i)
		parsed := rendertest.Parse(t, file, text)
		u := &render.Unit{Source: render.Source{Path: file, Kind: "manifest"}, Objects: parsed}
		for _, o := range parsed {
			o.Unit = u
		}
		objects = append(objects, parsed...)
	}
	kinds, err := schema.New(nil, schema.Options{})
	rendertest.OK(t, err)
	e, err := New(rendertest.Parse(t, "p.yaml", equalPolicies), Options{Kinds: kinds, Cluster: policy.NewCluster(objects...)})
	rendertest.OK(t, err)
	chain := policy.Chain{Kinds: kinds, Mutators: []policy.Mutator{e.Mutator()}, Validators: []policy.Validator{e.Validator()}}
	reqs := policy.Requests(nil, objects)
	want := enginetest.Together(t, chain, reqs)
	outcomes := map[string]map[policy.Outcome]int{}
	for i := range want {
		if r := &want[i]; outcomes[r.Rule] == nil {
			outcomes[r.Rule] = map[policy.Outcome]int{r.Outcome: 1}
		} else {
			outcomes[r.Rule][r.Outcome]++
		}
	}
	for rule, n := range map[string]int{"label": 1, "image": 1, "added": 2, "others": 1, "namespace": 1, "parameter": 2} {
		if len(outcomes[rule]) < n {
			t.Errorf("rule %s has the outcomes %v", rule, outcomes[rule])
		}
	}
}
