package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
)

// TestShare holds which variables policies share: those that are equal, with all that
// they read, and read nothing but the object.
func TestShare(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for name, variables := range map[string][]string{
		"a": {"object.spec", "variables.v0.containers", "request", "variables.v2.operation", "[1].map(c, object.kind + string(c))"},
		"b": {"object.kind", "variables.v0.containers", "authorizer.path('/').check('get').allowed()", "[1].map(c, object.kind + string(c))", "object.spec"},
		"c": {"object.spec", "variables.v0.containers", "namespaceObject.metadata", "variables", "params"},
	} {
		fmt.Fprintf(&text, "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: %s}\nspec:\n  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n  paramKind: {apiVersion: v1, kind: ConfigMap}\n  validations: [{expression: 'true'}]\n  variables:\n", name)
		for i, e := range variables {
			fmt.Fprintf(&text, "  - {name: v%d, expression: %q}\n", i, e)
		}
	}
	objects, err := render.Parse("a.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := schema.New(nil, schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(objects, Options{Cluster: policy.NewCluster(), Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	shared := make(map[string]int)
	for _, b := range e.policies {
		for _, v := range b.variables {
			shared[b.policy.Name+"."+v.rule] = v.definition
		}
	}
	for _, equal := range [][]string{{"a0", "b4", "c0"}, {"a1", "c1"}, {"b1"}, {"b0"}, {"a4", "b3"}} {
		n := 0
		for name, definition := range shared {
			short := name[:1] + strings.TrimSuffix(strings.TrimPrefix(name[2:], "variables[v"), "]")
			if definition != shared[equal[0][:1]+".variables[v"+equal[0][1:]+"]"] {
				continue
			}
			if n++; definition == 0 || !slices.Contains(equal, short) {
				t.Errorf("%s is shared like %v: %d", short, equal, definition)
			}
		}
		if n != len(equal) {
			t.Errorf("%v: %d variables are shared", equal, n)
		}
	}
	for _, name := range []string{"a2", "a3", "b2", "c2", "c3", "c4"} {
		if n := shared[name[:1]+".variables[v"+name[1:]+"]"]; n != 0 {
			t.Errorf("%s is shared: %d", name, n)
		}
	}
}
