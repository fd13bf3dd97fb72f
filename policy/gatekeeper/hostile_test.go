package gatekeeper

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/mutator"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// everything is one of each kind that the package reads, with all their fields.
var everything = templateOf(labelled) + `
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K
metadata: {name: c}
spec:
  enforcementAction: scoped
  scopedEnforcementActions: [{action: deny, enforcementPoints: [{name: validation.gatekeeper.sh}]}]
  match:
    source: All
    kinds: [{apiGroups: ["*"], kinds: ["*"]}]
    scope: "*"
    namespaces: [sh*]
    excludedNamespaces: [kube-*]
    labelSelector: {matchExpressions: [{key: a, operator: NotIn, values: [b]}]}
    namespaceSelector: {matchLabels: {team: a}}
    name: we*
  parameters: {labels: [a], limit: 2}
---` + strings.ReplaceAll(strings.ReplaceAll(nativeOf(`
          failurePolicy: Fail
          generateVAP: true
          variables: [{name: a, expression: variables.params.limit}]
          matchCondition: [{name: a, expression: "true"}]
          validations: [{expression: variables.a == 2, message: x, messageExpression: "'x'"}]`), "k}", "q}"), "K}", "Q}") + strings.ReplaceAll(plainConstraint, "K", "Q") + `
---
apiVersion: config.gatekeeper.sh/v1alpha1
kind: Config
metadata: {name: config}
spec:
  match: [{processes: [audit], excludedNamespaces: [shop]}]
  sync: {syncOnly: [{group: "", version: v1, kind: Service}]}
---
{apiVersion: syncset.gatekeeper.sh/v1alpha1, kind: SyncSet, metadata: {name: s}, spec: {gvks: [{group: "", version: v1, kind: Pod}]}}
---
apiVersion: expansion.gatekeeper.sh/v1beta1
kind: ExpansionTemplate
metadata: {name: e}
spec:
  applyTo: [{groups: [apps], kinds: [Deployment], versions: [v1]}]
  templateSource: spec.template
  enforcementAction: warn
  generatedGVK: {kind: Pod, group: "", version: v1}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: a}
spec:
  applyTo: [{groups: [""], kinds: [Pod], versions: [v1]}]
  match: {scope: Namespaced}
  location: "spec.containers[name: *].image"
  parameters: {assign: {value: x}, pathTests: [{subPath: "spec.containers[name: *]", condition: MustExist}]}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: ModifySet
metadata: {name: m}
spec:
  applyTo: [{groups: [""], kinds: [Pod], versions: [v1]}]
  location: "spec.containers[name: *].args"
  parameters: {operation: merge, values: {fromList: [a]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: gatekeeper-validating-webhook-configuration}
webhooks:
- name: validation.gatekeeper.sh
  rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: [CREATE]}]
  namespaceSelector: {matchLabels: {a: b}}
`

// oddities are what nobody expects at a place.
var oddities = []any{
	nil, true, "", "\x00\ufffd", int64(math.MaxInt64), int64(math.MinInt64), math.MaxFloat64, math.Inf(1), math.NaN(),
	[]any{},
	[]any{nil},
	map[string]any{},
	map[string]any{"": nil},
	[]any{[]any{map[string]any{"a": []any{}}}},
}

// TestOddPolicies holds that whatever stands at whatever place of a policy, or of an
// object, it is evaluated or refused.
func TestOddPolicies(t *testing.T) {
	t.Parallel()
	objects := []string{
		pod, `{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {a: b}}}`,
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, labels: {a: b}}, spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b, args: [a]}]}}}}`,
	}
	policies := parseAll(t, everything)
	if e, err := New(policies, Options{}); err != nil || len(e.constraints) != 2 || e.expansions.none() {
		t.Fatal(err)
	}
	if _, err := NewMutating(policies, Options{}); err != nil {
		t.Fatal(err)
	}
	evaluate := func(t *testing.T, policies []*render.Object, object map[string]any) {
		req := requestOf(t, objects[0])
		req.Object = &render.Object{Unstructured: req.Object.DeepCopy()}
		req.Object.Object, req.Admitted, req.Kind = object, object, kindOf(object)
		o := Options{Cluster: policy.NewCluster(slices.Concat(policies, []*render.Object{req.Object})...)}
		mutating, _ := NewMutating(policies, o)
		if _, err := mutating.Mutate(t.Context(), req); err != nil {
			t.Error(err)
		}
		e, err := New(policies, o)
		if err == nil && len(e.constraints) != 2 {
			t.Errorf("%d constraints, and no error", len(e.constraints))
		}
		if _, wrong := e.Validate(t.Context(), req); wrong != nil {
			t.Error(wrong)
		}
	}
	for i, o := range policies {
		t.Run(fmt.Sprint("policy ", i), func(t *testing.T) {
			t.Parallel()
			for place, odd := range oddly(o.Object) {
				changed := slices.Clone(policies)
				changed[i] = &render.Object{Unstructured: o.DeepCopy()}
				changed[i].Object = odd
				func() {
					defer func() {
						if p := recover(); p != nil {
							t.Errorf("%s: panic: %v", place, p)
						}
					}()
					evaluate(t, changed, parseOne(t, objects[2]).Object)
					if t.Failed() {
						t.Fatal(place)
					}
				}()
			}
		})
	}
	for _, text := range objects {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			for _, odd := range oddly(parseOne(t, text).Object) {
				evaluate(t, policies, odd)
			}
		})
	}
}

// oddly are copies of a tree with an oddity at each place.
func oddly(tree map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	var walk func(v any, pointer string)
	walk = func(v any, pointer string) {
		for i := range 3 {
			odd := oddities[(len(all)+5*i)%len(oddities)]
			copied, _ := render.Copy(tree).(map[string]any)
			replaceAt(copied, render.Path(pointer), odd)
			all[fmt.Sprint(pointer, " ", i)] = copied
		}
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				walk(v[k], pointer+render.Pointer(k))
			}
		case []any:
			for i, e := range v {
				walk(e, pointer+render.Pointer(i))
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(tree)) {
		if k != "apiVersion" { // without which it is no policy
			walk(tree[k], render.Pointer(k))
		}
	}
	return all
}

func replaceAt(v any, path []string, with any) {
	switch v := v.(type) {
	case map[string]any:
		if len(path) == 1 {
			v[path[0]] = with
			return
		}
		replaceAt(v[path[0]], path[1:], with)
	case []any:
		for i := range v {
			if fmt.Sprint(i) != path[0] {
				continue
			}
			if len(path) == 1 {
				v[i] = with
				return
			}
			replaceAt(v[i], path[1:], with)
		}
	}
}

// TestHostileExpansion bounds what is made of one object.
func TestHostileExpansion(t *testing.T) {
	t.Parallel()
	template := func(name, from, to string) string {
		return fmt.Sprintf(`{"apiVersion": "expansion.gatekeeper.sh/v1beta1", "kind": "ExpansionTemplate", "metadata": {"name": %q}, "spec": {"applyTo": [{"groups": ["x"], "versions": ["v1"], "kinds": [%q]}], "templateSource": "s", "generatedGVK": {"group": "x", "version": "v1", "kind": %q}}}
`, name, from, to)
	}
	for wide, want := range map[int]string{1: "maximum recursion depth of 30 reached", 2: "it would create too many objects", 3: "could not find source field"} {
		depth := map[int]int{1: 35, 2: 12, 3: 5}[wide]
		spec := map[string]any{}
		for range depth {
			spec = map[string]any{"s": spec}
		}
		spec["apiVersion"], spec["kind"], spec["metadata"] = "x/v1", "K0", map[string]any{"name": "a"}
		var texts []string
		for i := range depth + wide/3 {
			for j := range wide {
				texts = append(texts, template(fmt.Sprintf("t%d-%d", i, j), fmt.Sprintf("K%d", i), fmt.Sprintf("K%d", i+1)))
			}
		}
		e, err := newExpansions(parseAll(t, strings.Join(texts, "---\n")), &mutator.Set{})
		rendertest.OK(t, err)
		inTwoMinutes(t, func() {
			made, results, err := e.expand(t.Context(), document.Matchable{Object: spec, Source: document.SourceOriginal})
			if err != nil || len(made) > maxExpanded || len(results) == 0 || len(results) > maxExpandErrors || !strings.Contains(results[0].Message, want) {
				t.Errorf("%d made, %d results, %v", len(made), len(results), err)
			}
		})
	}
	var circle []string
	for i := range 2000 {
		circle = append(circle, template(fmt.Sprintf("t%d", i), fmt.Sprintf("K%d", i), fmt.Sprintf("K%d", (i+1)%2000)))
	}
	inTwoMinutes(t, func() {
		e, err := newExpansions(parseAll(t, strings.Join(circle, "---\n")), &mutator.Set{})
		errs := render.Errors(err)
		if !e.none() || len(errs) != 2000 || len(errs[0].Error()) > 2*policy.MaxMessage {
			t.Errorf("%d errors", len(errs))
		}
	})
}

// inTwoMinutes fails a test that takes much longer than it should: bounds are what
// is tested here, and not speed.
func inTwoMinutes(t *testing.T, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > 2*time.Minute {
		t.Errorf("took %s", took)
	}
}
