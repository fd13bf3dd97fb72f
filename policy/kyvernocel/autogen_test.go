package kyvernocel

import "testing"

// TestRewritten compares with what pkg/cel/autogen and pkg/cel/policies/mpol/autogen of Kyverno 1.19.1 make
// of an expression about pods.
func TestRewritten(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ given, validation, mutation string }{
		{"object.spec.x", "object.spec.template.spec.x", "object.spec.template.spec.x"},
		{"oldObject.metadata.name", "oldObject.spec.template.metadata.name", "oldObject.metadata.name"},
		{"object.metadata.namespace", "object.metadata.namespace", "object.metadata.namespace"},
		{"object.metadata.namespace+''", "object.metadata.namespace+''", "object.metadata.namespace+''"},
		{"object.metadata.namespaces", "object.spec.template.metadata.namespaces", "object.metadata.namespaces"},
		{"Object{spec: Object.spec{}}", "Object{spec: Object.spec{}}", "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{}}}}"},
		{"Object {spec: Object.spec{}}", "Object {spec: Object.spec{}}", "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{}}}}"},
		{" Object\n\t{}", " Object\n\t{}", " Object\n\t{}"},
	} {
		if got := string(rewriteText([]byte(x.given), shapes[0])); got != x.validation {
			t.Errorf("the validation %q becomes %q, not %q", x.given, got, x.validation)
		}
		if got := rewriteExpression(x.given, shapes[0]); got != x.mutation {
			t.Errorf("the mutation %q becomes %q, not %q", x.given, got, x.mutation)
		}
	}
}
