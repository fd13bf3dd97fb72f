package kyvernocel

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
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
	objects, err := render.Parse("p.yaml", []byte(repeatedPolicies))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../../shared/corpora/kyverno-policies/pod-security-vpol__*/*/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		more, err := render.Parse(f, data)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, more...)
	}
	kinds, err := schema.New(nil, schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	engine := func() *Engine {
		e, err := New(objects, Options{Cluster: policy.NewCluster(), Kinds: kinds})
		if err != nil {
			t.Fatal(err)
		}
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
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 1500 {
		tree := runtime.DeepCopyJSON(pods[i%len(pods)].Object)
		for range random.IntN(3) {
			perturb(random, tree["spec"])
		}
		o := &render.Object{Unstructured: &unstructured.Unstructured{Object: tree}, Unit: pods[i%len(pods)].Unit}
		req := policy.Request{Operation: policy.Create, Object: o, Admitted: tree, Kind: o.GroupVersionKind(), Name: "x", Namespace: "default"}
		req.Resource = kinds.Resource(req.Kind)
		got, err := with.Validator().Validate(t.Context(), &req)
		if err != nil {
			t.Fatal(err)
		}
		want, err := without.Validator().Validate(t.Context(), &req)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%v: evaluated -, repeated +\n%s", tree, diff)
		}
	}
	if with.policies[0].main.repeats.Found() == 0 {
		t.Error("no repeats")
	}
}

// perturb changes something below a map or list.
func perturb(random *rand.Rand, tree any) {
	values := []any{"a", "", int64(1), true, false, nil, map[string]any{}, []any{}, []any{map[string]any{"name": "a"}}}
	switch tree := tree.(type) {
	case map[string]any:
		keys := append(slices.Sorted(maps.Keys(tree)), "securityContext")
		key := keys[random.IntN(len(keys))]
		switch random.IntN(4) {
		case 0:
			delete(tree, key)
		case 1:
			tree[key] = values[random.IntN(len(values))]
		default:
			perturb(random, tree[key])
		}
	case []any:
		if len(tree) > 0 {
			perturb(random, tree[random.IntN(len(tree))])
		}
	}
}
