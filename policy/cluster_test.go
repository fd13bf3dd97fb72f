package policy

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestClusterByName holds that objects found by their names are those, in order, that
// a walk through all of the kind finds, and that asking for none is noted, too.
func TestClusterByName(t *testing.T) {
	t.Parallel()
	var text string
	for i := range 40 {
		text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, namespace: n%d}\n", i%4, i%3)
	}
	objects := rendertest.Parse(t, "o.yaml", text)
	kind := schema.GroupKind{Kind: "ConfigMap"}
	c := NewCluster(objects...)
	for _, name := range []string{"c0", "c1", "c2", "c3", "none"} {
		want := slices.DeleteFunc(slices.Clone(objects), func(o *render.Object) bool { return o.GetName() != name })
		if got := c.Named(kind, name); !slices.Equal(got, want) {
			t.Errorf("%s: %d objects, want %d", name, len(got), len(want))
		}
		for _, namespace := range []string{"", "n0", "n2", "other"} {
			i := slices.IndexFunc(want, func(o *render.Object) bool { return namespace == "" || o.GetNamespace() == namespace })
			if got := c.Get(nil, kind, namespace, name); i < 0 && got != nil || i >= 0 && got != want[i] {
				t.Errorf("%s/%s: %v", namespace, name, got)
			}
		}
	}
	c.Named(schema.GroupKind{Kind: "Secret"}, "absent")
	if kinds, _ := c.Asked(); !slices.Equal(kinds, []schema.GroupKind{kind, {Kind: "Secret"}}) {
		t.Errorf("asked for %v", kinds)
	}
	if (*Cluster)(nil).Named(kind, "c0") != nil {
		t.Error("no cluster has objects")
	}
}
