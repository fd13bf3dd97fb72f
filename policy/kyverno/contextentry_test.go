package kyverno

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// listPolicy has queries of lists that are the same for all Pods, but not for the
// ConfigMaps in them.
const listPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: lists}
spec:
  rules:
  - name: all
    match: {any: [{resources: {kinds: [Pod, ConfigMap]}}]}
    context: [{name: names, apiCall: {urlPath: /api/v1/configmaps, jmesPath: 'items[].metadata.name'}}]
    validate: {message: 'all: {{ names }}', deny: {conditions: {any: [{key: '{{ length(names) }}', operator: GreaterThan, value: 0}]}}}
  - name: namespaced
    match: {any: [{resources: {kinds: [Pod, ConfigMap]}}]}
    context: [{name: names, apiCall: {urlPath: '/api/v1/namespaces/{{ request.namespace }}/configmaps', jmesPath: 'items[?metadata.name != ''{{ request.object.metadata.name }}''].metadata.name'}}]
    validate: {message: 'others: {{ names }}', deny: {conditions: {any: [{key: '{{ length(names) }}', operator: GreaterThan, value: 0}]}}}
  - name: time
    match: {any: [{resources: {kinds: [Pod, ConfigMap]}}]}
    context: [{name: new, apiCall: {urlPath: /api/v1/configmaps, jmesPath: 'items[?time_after(time_now_utc(), ''2020-01-01T00:00:00Z'')] | length(@)'}}]
    validate: {message: 'new: {{ new }}', deny: {conditions: {any: [{key: '{{ new }}', operator: GreaterThan, value: 0}]}}}
  - name: random
    match: {any: [{resources: {kinds: [Pod, ConfigMap]}}]}
    context: [{name: some, apiCall: {urlPath: /api/v1/configmaps, jmesPath: 'join(''-'', [random(''[a-z]{6}''), to_string(length(items))])'}}]
    validate: {message: 'some: {{ some }}', deny: {conditions: {any: [{key: '{{ some }}', operator: Equals, value: '*'}]}}}
  - name: broken
    match: {any: [{resources: {kinds: [Pod, ConfigMap]}}]}
    context: [{name: sum, apiCall: {urlPath: /api/v1/configmaps, jmesPath: 'sum(items[].metadata.name)'}}]
    validate: {message: 'sum: {{ sum }}', deny: {conditions: {any: [{key: '{{ sum }}', operator: GreaterThan, value: 0}]}}}
`

// TestQueriesOfLists holds that an engine that has queried a list for earlier requests
// gives the results of one that has not.
func TestQueriesOfLists(t *testing.T) {
	t.Parallel()
	text := ""
	for i := range 6 {
		text += fmt.Sprintf("---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d, namespace: n%d}\nspec: {containers: [{name: c, image: c}]}\n", i, i%2)
		text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: n%d}\n", i, i%2)
	}
	objects := rendertest.Parse(t, "objects.yaml", text)
	kinds, err := schema.New(nil, schema.Options{})
	rendertest.OK(t, err)
	chain := func() policy.Chain {
		e, err := New(rendertest.Parse(t, "p.yaml", listPolicy), Options{Kinds: kinds, Cluster: policy.NewCluster(objects...)})
		rendertest.OK(t, err)
		return policy.Chain{Kinds: kinds, Validators: []policy.Validator{e.Validator()}}
	}
	review := func(c policy.Chain, object *render.Object) []policy.Result {
		results, err := c.Review(t.Context(), policy.Requests(nil, []*render.Object{object}))
		rendertest.OK(t, err)
		return results
	}
	used := chain()
	texts := map[string]map[string]bool{}
	for range 2 {
		for _, o := range objects {
			got := review(used, o)
			if diff := cmp.Diff(review(chain(), o), got); diff != "" {
				t.Errorf("%s %s: new engine -, used engine +\n%s", o.GetKind(), o.GetName(), diff)
			}
			for i := range got {
				if r := &got[i]; texts[r.Rule] == nil {
					texts[r.Rule] = map[string]bool{r.Message + fmt.Sprint(r.Assumed): true}
				} else {
					texts[r.Rule][r.Message+fmt.Sprint(r.Assumed)] = true
				}
			}
		}
	}
	for text := range texts["random"] {
		if !strings.Contains(text, "another one each time") {
			t.Errorf("rule random does not say why it is undecided: %s", text)
		}
	}
	for rule, n := range map[string]int{"all": 7, "namespaced": 8, "time": 1, "random": 1, "broken": 1} {
		if len(texts[rule]) < n {
			t.Errorf("rule %s says %d things, want at least %d: %v", rule, len(texts[rule]), n, texts[rule])
		}
	}
}
