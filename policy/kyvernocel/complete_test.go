package kyvernocel

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestComplete has names offered in each kind of policy, and in each kind of its expressions.
func TestComplete(t *testing.T) {
	t.Parallel()
	kinds, err := schema.New(nil, schema.Options{})
	rendertest.OK(t, err)
	const head = "apiVersion: policies.kyverno.io/v1\nmetadata: {name: a}\n"
	const pods = "  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}\n"
	const variables = "  variables: [{name: all, expression: object.spec.containers}, {name: first, expression: 'variables.all[0]'}]\n"
	validating := head + "kind: ValidatingPolicy\nspec:\n" + pods + variables + "  matchConditions: [{name: a, expression: a}]\n  validations: [{expression: a, messageExpression: a}]\n"
	mutating := head + "kind: MutatingPolicy\nspec:\n" + pods + variables + "  matchConditions: [{name: a, expression: a}]\n  mutations: [{patchType: JSONPatch}, {patchType: ApplyConfiguration, applyConfiguration: {expression: a}}]\n"
	for _, c := range []struct{ policy, pointer, before, want string }{
		{validating, "/spec/validations/0/expression", "variables.", "all first"},
		{validating, "/spec/validations/0/messageExpression", "variables.first.resources.", "claims limits requests"},
		{validating, "/spec/validations/0/expression", "variables.all.exists(c, c.resizePolicy.all(p, p.", "resourceName restartPolicy"},
		{validating, "/spec/variables/1/expression", "variables.", "all"},
		{validating, "/spec/matchConditions/0/expression", "variables.", ""},
		{validating, "/spec/matchConditions/0/expression", "object.", "apiVersion kind metadata spec status"},
		{validating, "/spec/validations/0/expression", "exceptions.", "allowedImages allowedValues"},
		{validating, "/spec/validations/0/expression", "cel.bind(c, object.spec.os, c.", "name"},
		{validating, "/spec/validations/0/expression", "resource.", "Get List Post ToGVR get list post toGVR"},
		{validating, "/spec/validations/0/expression", "time.", "now toCron truncate"},
		{strings.Replace(validating, "spec:\n", "spec:\n  evaluation: {mode: JSON}\n", 1), "/spec/validations/0/expression", "object.", ""},
		{mutating, "/spec/matchConditions/0/expression", "variables.", "all first"},
		{mutating, "/spec/mutations/1/applyConfiguration/expression", "object.spec.os.", "name"},
		{strings.Replace(mutating, "spec:\n", "spec:\n  targetMatchConstraints: {resourceRules: []}\n", 1), "/spec/mutations/1/applyConfiguration/expression", "object.", "apiVersion kind metadata"},
		{head + "kind: GeneratingPolicy\nspec:\n" + pods + variables + "  generate: [{expression: a}]\n", "/spec/generate/0/expression", "object.spec.os.", "name"},
		{head + "kind: NamespacedDeletingPolicy\nspec:\n" + pods + "  conditions: [{name: a, expression: a}]\n", "/spec/conditions/0/expression", "object.spec.os.", "name"},
		{head + "kind: ImageValidatingPolicy\nspec:\n" + pods + "  images: [{name: a, expression: a}]\n", "/spec/images/0/expression", "object.spec.os.", "name"},
		{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "/metadata/name", "object.", ""},
	} {
		var got []string
		for _, x := range Complete(kinds, rendertest.Parse(t, "p.yaml", []byte(c.policy))[0], c.pointer, c.before) {
			got = append(got, x.Name)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s: %s", c.pointer, c.before, diff)
		}
	}
}
