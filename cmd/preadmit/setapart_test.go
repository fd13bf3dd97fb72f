package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSetApartPolicy holds that a policy whose compilation takes too much is
// named, and that the others and their bindings evaluate as ever.
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
	cmd := exec.Command("preadmit", "check", "--no-cache", "--task-memory", "180")
	cmd.Dir = dir
	out, _ := cmd.Output()
	for _, want := range []string{
		"= rule: small/validations[0] at policies.yaml",
		"error: compiling ValidatingAdmissionPolicy large needs more than 180 MiB of memory: it is set apart",
		"1 denied, 2 in error",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// TestSetApartSuite holds that a test suite which takes too much is an error,
// and that the others are run.
func TestSetApartSuite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{"objects.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {containers: [{name: a, image: a}]}\n"}
	for name, expression := range map[string]string{"small": "false", "large": "[" + strings.Repeat("1,", 45_000) + "1].size() > 0"} {
		files[name+".yaml"] = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: " + name + "}\nspec:\n" +
			"  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]}\n" +
			"  validations: [{expression: '" + expression + "'}]\n"
		files[name+"-suite.yaml"] = "validatingAdmissionPolicies: [" + name + ".yaml]\nresources: [objects.yaml]\n" +
			"testSuites: [{policy: " + name + ", tests: [{object: {kind: Pod, name: good}, expect: deny}]}]\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("preadmit", "test", "--task-memory", "200")
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput()
	for _, want := range []string{
		"ERROR   large-suite.yaml: running it needs more than 200 MiB of memory: it is left out",
		"2 suites, 1 case: 1 passed, 0 failed, 1 error",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
