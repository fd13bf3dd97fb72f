package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSetApartPolicy holds that a policy whose compilation takes too much is
// named, and that the others and their bindings judge as ever.
func TestSetApartPolicy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	admission := func(name, expression string) string {
		return "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: " + name + "}\nspec:\n" +
			"  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]}\n" +
			"  validations: [{expression: '" + expression + "'}]\n---\n" +
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: " + name + "}\n" +
			"spec: {policyName: " + name + ", validationActions: [Deny]}\n---\n"
	}
	for name, text := range map[string]string{
		"pod.yaml":      "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {containers: [{name: a, image: a}]}\n",
		"policies.yaml": admission("small", "false") + admission("large", "["+strings.Repeat("1,", 45_000)+"1].size() > 0"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("preadmit", "check", "--no-cache", "--task-memory", "250")
	cmd.Dir = dir
	out, _ := cmd.Output()
	for _, want := range []string{
		"= rule: small/validations[0] at policies.yaml",
		"error: compiling ValidatingAdmissionPolicy large needs more than 250 MiB of memory: it is set apart",
		"1 denied, 2 in error",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
