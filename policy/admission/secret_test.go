package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestSecretsAreNotQuoted holds that no result quotes what a Secret holds,
// whether it is the object or a parameter, though errors of functions do.
func TestSecretsAreNotQuoted(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		`timestamp(%[1]s.data.a) > timestamp('2020-01-01T00:00:00Z')`, `duration(%[1]s.data.a) > duration('1h')`, `int(%[1]s.data.a) > 5`,
		`%[1]s.data[%[1]s.data.a] == 'x'`, `quantity(%[1]s.data.a).isInteger()`, `ip(%[1]s.data.a).family() == 4`, `'a'.matches('(' + %[1]s.data.a)`,
		`url(%[1]s.data.a).getHost() == ''`, `semver(%[1]s.data.a).major() == 1`, `'%%d'.format([%[1]s.data.a]) == ''`, `variables.parsed == %[1]s.data.a`,
	} {
		for _, root := range []string{"object", "params"} {
			got := evaluateArchive(t, txtar.Parse([]byte(secretArchive(fmt.Sprintf(expression, root), root))))
			if !strings.Contains(got, "error") || !strings.Contains(got, "not shown, since it may quote a Secret") {
				t.Errorf("%s of %s: want an error that is not shown:\n%s", expression, root, got)
			}
			if strings.Contains(got, "c2VjcmV0") {
				t.Errorf("%s of %s quotes the Secret:\n%s", expression, root, got)
			}
		}
	}
	// The key that is missing is one that the policy names.
	if got := evaluateArchive(t, txtar.Parse([]byte(secretArchive("object.data.nope == 'x'", "object")))); !strings.Contains(got, "no such key: nope") {
		t.Errorf("want the missing key:\n%s", got)
	}
}

// TestMessagesOfSecrets holds that a messageExpression tells about a Secret what it
// is called, and not what it holds.
func TestMessagesOfSecrets(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"'got ' + string(object.data.a)", "'got ' + string(params.data.a)", "'got ' + object.metadata.name"} {
		archive := strings.Replace(secretArchive("1 == 2", "object"), `- expression: "1 == 2"`, `- {expression: "1 == 2", messageExpression: "`+expression+`"}`, 1)
		got := evaluateArchive(t, txtar.Parse([]byte(archive)))
		want := "not shown, since it may quote a Secret"
		if strings.HasSuffix(expression, "name") {
			want = "got x"
		}
		if !strings.Contains(got, want) || strings.Contains(got, "c2VjcmV0") {
			t.Errorf("%s: want %s:\n%s", expression, want, got)
		}
	}
}

func secretArchive(expression, root string) string {
	object := map[string]string{"object": "Secret", "params": "ConfigMap"}[root]
	return `
-- policy.yaml --
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  paramKind: {apiVersion: v1, kind: Secret}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets, configmaps]}]}
  variables:
  - {name: parsed, expression: "timestamp(` + root + `.data.a)"}
  validations:
  - expression: "` + expression + `"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [Deny], paramRef: {name: token, namespace: prod, parameterNotFoundAction: Deny}}
-- cluster.yaml --
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: prod}
data: {a: "c2VjcmV0"}
-- object.yaml --
apiVersion: v1
kind: ` + object + `
metadata: {name: x, namespace: prod}
data: {a: "c2VjcmV0"}
`
}
