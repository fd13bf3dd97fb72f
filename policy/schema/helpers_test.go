package schema

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render/rendertest"
)

// normal is a value as it comes back from JSON, with nothing but its numbers.
func normal(t *testing.T, value map[string]any) map[string]any {
	t.Helper()
	data, err := json.Marshal(value)
	rendertest.OK(t, err)
	var back map[string]any
	rendertest.OK(t, json.Unmarshal(data, &back))
	return back
}

// expected is the oracle's answer with what the API server's create handler
// and the strategy of namespaces add to it.
func expected(t *testing.T, kinds *Kinds, answer map[string]any) map[string]any {
	t.Helper()
	u := unstructured.Unstructured{Object: answer}
	if b := kinds.builtins[u.GroupVersionKind()]; b != nil && !b.namespaced {
		u.SetNamespace("")
	}
	if u.GroupVersionKind().GroupKind().String() == "Namespace" {
		var finalizers []any
		if old, ok, _ := unstructured.NestedSlice(answer, "spec", "finalizers"); ok {
			finalizers = old
		}
		has := false
		for _, f := range finalizers {
			has = has || f == "kubernetes"
		}
		if !has {
			finalizers = append(finalizers, "kubernetes")
		}
		rendertest.OK(t, unstructured.SetNestedSlice(answer, finalizers, "spec", "finalizers"))
	}
	return normal(t, answer)
}

func anys(path []string) []any {
	var all []any
	for _, p := range path {
		all = append(all, p)
	}
	return all
}
