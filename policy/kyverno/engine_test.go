package kyverno

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// onPods is a policy about Pods with one rule.
func onPods(rule string) string {
	return `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p, annotations: {pod-policies.kyverno.io/autogen-controllers: none}}
spec:
  background: false
  rules:
  - name: r
    match: {any: [{resources: {kinds: [Pod]}}]}
` + "    " + strings.ReplaceAll(strings.TrimSpace(rule), "\n", "\n    ") + "\n"
}

func engineOf(t testing.TB, text string, o Options) *Engine {
	t.Helper()
	e, err := New(rendertest.Parse(t, "policy.yaml", text), o)
	rendertest.OK(t, err)
	return e
}

func podWith(metadata, spec map[string]any) *render.Object {
	metadata["name"], metadata["namespace"] = "p", "default"
	return &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec,
	}}}
}

// TestHostile holds that policies and objects made to last or to grow end in
// an error that says why.
func TestHostile(t *testing.T) {
	t.Parallel()
	many := make([]any, 2000)
	for i := range many {
		many[i] = map[string]any{"name": fmt.Sprint(i)}
	}
	wild := make([]any, 5000)
	for i := range wild {
		wild[i] = fmt.Sprint("*a*", i)
	}
	annotation := func(text string) map[string]any { return map[string]any{"annotations": map[string]any{"a": text}} }
	read := "{{ request.object.metadata.annotations.a }}"
	for _, c := range []struct {
		name, rule string
		object     *render.Object
		want       string
	}{
		{
			"a variable that holds itself", `validate: {deny: {conditions: {any: [{key: "x` + read + `", operator: Equals, value: x}]}}}`,
			podWith(annotation("y"+read), nil), "keep expanding to variables",
		},
		{
			"a map that holds itself", `validate: {deny: {conditions: {any: [{key: "{{ request.object.metadata }}", operator: Equals, value: x}]}}}`,
			podWith(annotation("{{ request.object.metadata }}"), nil), "nests deeper",
		},
		{
			"a variable that doubles itself", `validate: {deny: {conditions: {any: [{key: "x` + read + `", operator: Equals, value: x}]}}}`,
			podWith(annotation(strings.Repeat("y"+read, 64)), nil), "",
		},
		{
			"foreach in foreach in foreach", `
validate:
  foreach:
  - list: request.object.spec.containers
    foreach:
    - list: request.object.spec.containers
      deny: {conditions: {any: [{key: a, operator: Equals, value: b}]}}`,
			podWith(map[string]any{}, map[string]any{"containers": many}), "more than 100000 elements",
		},
		{
			"each element among all", `
validate:
  foreach:
  - list: request.object.spec.containers
    deny: {conditions: {any: [{key: "{{ element.name }}", operator: AnyIn, value: "{{ request.object.spec.containers[].name }}x"}]}}`,
			podWith(map[string]any{}, map[string]any{"containers": many}), "takes too many steps",
		},
		{
			"preconditions that ask for all", `
validate:
  foreach:
  - list: request.object.spec.containers
    preconditions: {all: [{key: "{{ request.object.spec.containers[].[name, name, name, name, name, name] }}", operator: AnyIn, value: [x]}]}
    deny: {}`,
			podWith(map[string]any{}, map[string]any{"containers": many}), "takes too many steps",
		},
		{
			"wildcards among wildcards", `
validate:
  deny: {conditions: {any: [{key: "{{ request.object.spec.wild }}", operator: AnyIn, value: "{{ request.object.spec.others }}"}]}}`,
			podWith(map[string]any{}, map[string]any{"wild": wild, "others": wild}), "takes too many steps",
		},
		{
			"an entry that reads itself", `
context:
- {name: a, variable: {jmesPath: "a", default: b}}
validate: {deny: {conditions: {any: [{key: "{{ a }}", operator: Equals, value: x}]}}}`,
			podWith(map[string]any{}, nil), "",
		},
		{
			"mutation of many elements", `
mutate:
  foreach:
  - list: request.object.spec.containers
    foreach:
    - list: request.object.spec.containers
      preconditions: {all: [{key: a, operator: Equals, value: b}]}
      patchStrategicMerge: {metadata: {labels: {a: b}}}`,
			podWith(map[string]any{}, map[string]any{"containers": many}), "more than 100000 elements",
		},
		{
			"an image that is none", `validate: {deny: {conditions: {any: [{key: "{{ images.containers.a.tag }}", operator: Equals, value: x}]}}}`,
			podWith(map[string]any{}, map[string]any{"containers": []any{map[string]any{"name": "a", "image": "A B:::"}}}), "invalid reference format",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			objects := rendertest.Parse(t, "policy.yaml", onPods(c.rule))
			e, err := New(objects, Options{CLI: true})
			if err != nil {
				t.Skip("Kyverno refuses the policy:", err)
			}
			rs, err := e.Respond(context.Background(), requestFor(c.object, policy.Create), nil)
			if err != nil || len(rs) != 1 {
				t.Fatal(rs, err)
			}
			if c.want != "" && (rs[0].Status != StatusError || !strings.Contains(rs[0].Message, c.want)) {
				t.Errorf("%s: %.300s\nwant %s", rs[0].Status, rs[0].Message, c.want)
			}
		})
	}
}

// TestOddObjects holds that objects of any shape get a verdict of every rule.
func TestOddObjects(t *testing.T) {
	t.Parallel()
	var rules []string
	for _, r := range []string{
		`validate: {pattern: {spec: {containers: [{image: "?*"}]}}}`,
		`validate: {podSecurity: {level: restricted}}`,
		`validate: {cel: {expressions: [{expression: "object.spec.containers.all(c, has(c.image))"}]}}`,
		`validate: {foreach: [{list: "request.object.spec.containers", pattern: {image: x}}]}`,
		`validate: {deny: {conditions: {any: [{key: "{{ images.containers.*.tag }}", operator: AnyIn, value: [latest]}]}}}`,
		`mutate: {patchStrategicMerge: {spec: {containers: [{(name): "*", image: x}]}}}`,
		`mutate: {foreach: [{list: "request.object.spec.containers", patchStrategicMerge: {spec: {containers: [{name: "{{ element.name }}"}]}}}]}`,
	} {
		rules = append(rules, onPods(r))
	}
	e := engineOf(t, strings.Join(rules, "---"), Options{Kinds: plainKinds{}})
	for _, spec := range []any{
		nil, "x", int64(1),
		[]any{},
		map[string]any{},
		map[string]any{"containers": nil},
		map[string]any{"containers": "x"},
		map[string]any{"containers": map[string]any{"a": "b"}},
		map[string]any{"containers": []any{nil, "x", int64(1), []any{}}},
		map[string]any{"containers": []any{map[string]any{"name": int64(1), "image": true}}},
	} {
		o := podWith(map[string]any{}, nil)
		o.Object["spec"] = spec
		for _, op := range []policy.Operation{policy.Create, policy.Update, policy.Delete} {
			req := requestFor(o, op)
			if _, err := e.Mutator().Mutate(context.Background(), req); err != nil {
				t.Error(err)
			}
			if _, err := e.Validator().Validate(context.Background(), req); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestParallel has many requests evaluated at once give what each alone gives.
func TestParallel(t *testing.T) {
	t.Parallel()
	e := engineOf(t, benchPolicy, Options{})
	objects := deployments(20)
	one := func(o *render.Object) string {
		rs, err := e.Validator().Validate(context.Background(), requestFor(o, policy.Create))
		return fmt.Sprint(rs, err)
	}
	var wg sync.WaitGroup
	for _, o := range objects {
		want := one(o)
		for range 4 {
			wg.Go(func() {
				if got := one(o); got != want {
					t.Errorf("%s\nwant %s", got, want)
				}
			})
		}
	}
	wg.Wait()
}

// TestCancelled holds that a review ends with its context.
func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e := engineOf(t, benchPolicy, Options{})
	if _, err := e.Validator().Validate(ctx, requestFor(deployments(1)[0], policy.Create)); err == nil {
		t.Error("no error of a cancelled context")
	}
}

// TestDocumented holds that every result is of a rule that is documented.
func TestDocumented(t *testing.T) {
	t.Parallel()
	e := engineOf(t, benchPolicy, Options{})
	known := map[string]bool{}
	for _, r := range e.Validator().Rules() {
		known[r.Policy+"/"+r.Name] = true
	}
	results, err := e.Validator().Validate(context.Background(), requestFor(deployments(1)[0], policy.Create))
	if err != nil || len(results) != 3 {
		t.Fatal(results, err)
	}
	for _, r := range results {
		if !known[r.Policy+"/"+r.Rule] {
			t.Errorf("%s/%s is not documented", r.Policy, r.Rule)
		}
	}
}
