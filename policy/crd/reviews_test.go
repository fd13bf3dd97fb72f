package crd_test

import (
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/crd"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestReviewsKnowTheirDefinition holds that known results are those of a definition with other labels
// or in another unit, and never those of one that differs in what matters.
func TestReviewsKnowTheirDefinition(t *testing.T) {
	t.Parallel()
	const definition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org, labels: {LABEL: LABEL}}
spec:
  group: example.org
  scope: SCOPE
  names: {kind: Thing, plural: things}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`
	known := new(crd.Reviews)
	fails := func(old, now []*render.Object) (n int) {
		t.Helper()
		results := evaluateBy(t, "", known, now, old, now)
		rendertest.Equal(t, results, evaluateBy(t, "", nil, now, old, now))
		for i := range results {
			if results[i].Outcome == policy.Fail {
				n++
			}
		}
		return n
	}
	of := func(label, scope string) []*render.Object {
		return rendertest.Parse(t, "crd.yaml", []byte(strings.NewReplacer("LABEL", label, "SCOPE", scope).Replace(definition)))
	}
	good, bad := of("a", "Cluster"), of("a", "Planet")
	for _, c := range []struct {
		name     string
		old, now []*render.Object
		fails    bool
	}{
		{"a sound one", nil, good, false},
		{"an invalid scope", nil, bad, true},
		{"another label", nil, of("b", "Cluster"), false},
		{"an invalid label", nil, of("-b", "Cluster"), true},
		{"an unchanged sound one", good, good, false},
		{"an unchanged invalid one", bad, bad, true},
		{"a changed scope", of("a", "Namespaced"), good, true},
	} {
		if n := fails(c.old, c.now); n > 0 != c.fails {
			t.Errorf("%s: %d failures", c.name, n)
		}
	}
}
