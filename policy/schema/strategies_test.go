package schema

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy/schema/internal/apiserver"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// notStored are the built-in kinds without a strategy.
var notStored = []string{
	"Binding", "CustomResourceDefinition", "Eviction", "EvictionRequest", "LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectReview",
	"SelfSubjectRulesReview", "SubjectAccessReview", "TokenReview",
}

// TestEveryKindHasAStrategy holds that objects of every kind that is stored are prepared and
// validated. Most others are answered without being stored; Eviction and EvictionRequest, which
// are alpha, are not validated yet, and policy/crd validates CustomResourceDefinitions.
func TestEveryKindHasAStrategy(t *testing.T) {
	t.Parallel()
	kinds := newKinds(t, "")
	without := map[string]bool{}
	for _, b := range kinds.sortedKinds(func(*builtin) bool { return true }) {
		if b.goType() == nil {
			t.Errorf("%v has no type", b.gvk)
			continue
		}
		object, err := b.goType().complete(newest, b.goType().new(), "", nil)
		rendertest.OK(t, err)
		answer, err := apiserver.Store(int(newest), apiserver.Request{Kind: b.gvk, Namespace: "default", Object: object})
		rendertest.OK(t, err)
		if !answer.Known {
			without[b.gvk.Kind] = true
		}
	}
	rendertest.Equal(t, notStored, slices.Sorted(maps.Keys(without)))
}

// TestEmulation holds that objects are completed by the feature gates of their release, however
// many releases are asked at once.
func TestEmulation(t *testing.T) {
	t.Parallel()
	o := parse(t, `
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  containers: [{name: a, image: b}]
  volumes: [{name: a, image: {reference: c}}]
`)
	old, now := newKinds(t, "1.30"), newKinds(t, "1.37")
	for range 50 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			for kinds, want := range map[*Kinds]any{old: nil, now: "Always"} {
				held, err := kinds.Admit(&render.Object{Unstructured: &unstructured.Unstructured{Object: o.Object}}, "")
				rendertest.OK(t, err)
				if got, _ := render.Lookup(held, "/spec/volumes/0/image/pullPolicy"); got != want {
					t.Errorf("%s: %v, want %v", kinds.release, got, want)
				}
			}
		})
	}
}
