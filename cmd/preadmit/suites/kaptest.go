package suites

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/admission"
	"github.com/preadmit/preadmit/policy/authz"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/render"
)

// mutationTest is a MutatingAdmissionPolicy of a kaptest suite. It matches everything, and is bound
// with the parameter of each test case.
type mutationTest struct {
	policy  *render.Object
	options admission.Options
}

func newMutationTest(o Options) func(*render.Object, policy.Kinds, *policy.Cluster) (policytest.Mutator, error) {
	return func(p *render.Object, kinds policy.Kinds, cluster *policy.Cluster) (policytest.Mutator, error) {
		allow, err := authz.New("allow", authz.Options{})
		if err != nil {
			return nil, err
		}
		t := &mutationTest{policy: unconstrained(p), options: admission.Options{
			Kinds: kinds, Cluster: cluster, KubeVersion: o.KubeVersion, Coverage: o.Coverage, Authorizer: allow, AuthorizerAssumed: allow.Assumed,
			AssumeBound: func(*render.Object) bool { return true },
		}}
		if k, ok := kinds.(interface{ Unwrap() policy.Kinds }); ok {
			t.options.Mergers, _ = k.Unwrap().(admission.Mergers)
		}
		_, err = admission.NewMutating([]*render.Object{t.policy}, t.options)
		return t, err
	}
}

// unconstrained returns a copy of a policy that matches everything.
func unconstrained(p *render.Object) *render.Object {
	c := *p
	c.Unstructured = &unstructured.Unstructured{Object: runtime.DeepCopyJSON(p.Object)}
	rule := map[string]any{
		"apiGroups": []any{"*"}, "apiVersions": []any{"*"}, "resources": []any{"*"}, "operations": []any{"CREATE", "UPDATE"},
	}
	if spec, ok := c.Object["spec"].(map[string]any); ok {
		spec["matchConstraints"] = map[string]any{"resourceRules": []any{rule}}
	}
	return &c
}

// Mutate implements policytest.Mutator.
func (t *mutationTest) Mutate(ctx context.Context, req *policy.Request, params *render.Object) ([]policy.Step, error) {
	objects, options := []*render.Object{t.policy}, t.options
	if params != nil {
		objects = append(objects, bindingTo(t.policy, params))
		options.Cluster = with(t.options.Cluster, params)
	}
	m, err := admission.NewMutating(objects, options)
	if err != nil && len(m.Rules()) == 0 {
		return nil, errors.Join(errors.New("the policy can't be run"), err)
	}
	return m.Mutate(ctx, req)
}

// with returns a cluster with one more object.
func with(c *policy.Cluster, o *render.Object) *policy.Cluster {
	objects := []*render.Object{o}
	for _, kind := range c.Kinds() {
		objects = append(objects, c.List(kind)...)
	}
	return policy.NewCluster(objects...)
}

// bindingTo returns a binding of a policy with one parameter.
func bindingTo(p, params *render.Object) *render.Object {
	ref := map[string]any{"name": params.GetName(), "parameterNotFoundAction": "Deny"}
	if ns := params.GetNamespace(); ns != "" {
		ref["namespace"] = ns
	}
	return &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": p.GetAPIVersion(), "kind": p.GetKind() + "Binding", "metadata": map[string]any{"name": "test"},
		"spec": map[string]any{"policyName": p.GetName(), "paramRef": ref},
	}}}
}
