package engines

import (
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// Clusters share the kinds that they serve only if they have the same definitions and version.
func TestServed(t *testing.T) {
	t.Parallel()
	parse := func(name string) []*render.Object {
		return rendertest.Parse(t, name+".yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: "+name+".example.com}\nspec: {group: example.com, scope: Namespaced, names: {plural: "+name+", kind: K}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n")
	}
	one, other := parse("ones"), parse("others")
	var s Served
	first, _, err := s.kinds(one, "1.37")
	rendertest.OK(t, err)
	for _, c := range []struct {
		defined []*render.Object
		version string
		same    bool
	}{{one, "1.37", true}, {other, "1.37", false}, {nil, "1.37", false}, {one, "1.36", false}, {one, "1.37", true}} {
		if got, _, _ := s.kinds(c.defined, c.version); (got == first) != c.same {
			t.Errorf("%d definitions, %s: the same is %v", len(c.defined), c.version, got == first)
		}
	}
}
