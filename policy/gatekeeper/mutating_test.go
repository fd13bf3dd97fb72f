package gatekeeper

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// bareKinds takes every object as it is, but for one whose spec.replicas is no
// integer. What is in v1, but for Namespaces, and in apps/v1 is namespaced.
type bareKinds struct{ policy.Kinds }

func (bareKinds) Resource(gvk schema.GroupVersionKind) policy.Resource {
	return policy.Resource{
		GroupVersionResource: gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"),
		Namespaced:           gvk.Kind != "Namespace" && gvk.Kind != "Node", Known: true,
	}
}

func (b bareKinds) Admit(o *render.Object, namespace string) (map[string]any, error) {
	admitted := &unstructured.Unstructured{Object: o.DeepCopy().Object}
	if v, found := render.Lookup(admitted.Object, "/spec/replicas"); found && reflect.TypeOf(v) != reflect.TypeFor[int64]() {
		return nil, &policy.FieldError{Fields: []string{"/spec/replicas"}, Err: errors.New("spec.replicas: must be an integer")}
	}
	if b.Resource(o.GroupVersionKind()).Namespaced && admitted.GetNamespace() == "" {
		admitted.SetNamespace(namespace)
	}
	return admitted.Object, nil
}

// TestMutating takes the objects of files through the chain: policies.yaml are
// mutators, Config and Namespaces, objects.yaml what is created, or updated
// where a comment above the file says so; want is what is said and stored.
func TestMutating(t *testing.T) {
	t.Parallel()
	rendertest.Archives(t, "testdata/mutate", rendertest.Twice(func(t *testing.T, a *txtar.Archive) string {
		policies, objects := parseAll(t, string(a.Files[0].Data)), rendertest.Parse(t, "objects.yaml", a.Files[1].Data)
		options := Options{Kinds: bareKinds{}, Cluster: policy.NewCluster(append(policies, objects...)...)}
		m, err := NewMutating(policies, options)
		var b strings.Builder
		for _, e := range render.Errors(err) {
			fmt.Fprintf(&b, "! %s [%s]\n", e, e.Rule)
		}
		reqs := policy.Requests(nil, objects)
		if strings.Contains(string(a.Comment), "UPDATE") {
			reqs = policy.Requests(objects, objects)
		}
		chain := policy.Chain{Kinds: bareKinds{}, Mutators: []policy.Mutator{m}}
		for _, req := range reqs {
			stored, results, err := chain.Stored(t.Context(), []policy.Request{req})
			rendertest.OK(t, err)
			writeStored(t, &b, stored[0], results)
		}
		return b.String()
	}))
}

func writeStored(t *testing.T, b *strings.Builder, o *render.Object, results []policy.Result) {
	fmt.Fprintf(b, "# %s %s\n", o.GetKind(), o.GetName())
	for _, r := range results {
		fmt.Fprintf(b, "%s %s/%s: %s %s\n", r.Outcome, r.Rule, r.Policy, r.Message, r.PolicyOrigin)
	}
	data, err := yaml.Marshal(o.Object)
	rendertest.OK(t, err)
	b.Write(data)
	for _, a := range o.Assumed {
		fmt.Fprintf(b, "# assumed: %s\n", a)
	}
}
