package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report"
)

// besideNames are the files whose content FuzzBeside varies: one for each reader.
var besideNames = []string{
	"x/a.yaml", "x/a.json", "x/kustomization.yaml", "x/Chart.yaml", "x/values.yaml", "x/values.schema.json", "x/templates/a.yaml",
	"x/templates/_a.tpl", "x/.helmignore", "x/kyverno-test.yaml", "x/a.rego", "x/charts/a.tgz",
}

// FuzzBeside holds that no file hides an object in another directory: it is denied, and
// the report is whole.
func FuzzBeside(f *testing.F) {
	for i, text := range []string{
		deniedObjects["pod"], `{"kind": "List", "items": [1]}`, "resources: [a.yaml]\npatches: [{path: a.yaml}]\n", chartFile, "a: {b: [1]}\n", `{"type": "array"}`, "{{ range until 3 }}\na: {{ . }}\n{{ end }}",
		"{{ define \"a\" }}{{ end }}", "*\n!a\n", "kind: Test\napiVersion: x\n", "package main\ndeny[m] { m := input }\n", "\x1f\x8b",
	} {
		f.Add(uint8(i), []byte(text))
	}
	for _, policy := range []string{
		"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: a}\nspec:\n  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [pods]}]}\n  validations: [{expression: 'object.spec.x'}]\n",
		"apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: a}\nspec:\n  rules:\n  - name: a\n    match: {any: [{resources: {kinds: [Pod]}}]}\n    validate: {message: '{{ x }}', pattern: {spec: {a: '>1'}}}\n",
		"apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {name: a}\nspec: {crd: {spec: {names: {kind: A}}}, targets: [{target: admission.k8s.gatekeeper.sh, rego: 'package a\nviolation[{\"msg\": \"x\"}] { true }'}]}\n---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: A\nmetadata: {name: a}\n---\n" +
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: gatekeeper-validating-webhook-configuration}\nwebhooks: [{name: validation.gatekeeper.sh, namespaceSelector: {matchLabels: {a: b}}, rules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]}]\n",
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.e.com}\nspec: {group: e.com, scope: Namespaced, names: {kind: A, plural: as}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n",
	} {
		f.Add(uint8(0), []byte(policy))
	}
	dir := f.TempDir()
	for name, text := range files(".git/HEAD", "ref: refs/heads/main\n", "good.yaml", strings.Replace(deniedObjects["pod"], "hidden", "good", 1),
		"x/z.yaml", fineObject) {
		name = filepath.Join(dir, name)
		rendertest.OK(f, os.MkdirAll(filepath.Dir(name), 0o777))
		rendertest.OK(f, os.WriteFile(name, []byte(text), 0o666))
	}
	f.Fuzz(func(t *testing.T, n uint8, data []byte) {
		if len(data) > 4<<10 {
			return
		}
		name := filepath.Join(dir, besideNames[int(n)%len(besideNames)])
		if strings.Contains(name, "/x/templates/") || strings.Contains(name, "/x/charts/") || strings.HasSuffix(name, ".schema.json") {
			chart := filepath.Join(dir, "x/Chart.yaml")
			writeFiles(t, dir, files("x/Chart.yaml", chartFile))
			defer os.Remove(chart)
		}
		rendertest.OK(t, os.MkdirAll(filepath.Dir(name), 0o777))
		rendertest.OK(t, os.WriteFile(name, data, 0o666))
		defer os.Remove(name)
		var out, errs bytes.Buffer
		code := run(context.Background(), []string{"check", "--no-cache", "--gitops", "off", "--pack", "pod-security-baseline", "-o", "json", dir}, strings.NewReader(""), &out, &errs)
		var r report.Report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatalf("exit %d, %v: %s", code, err, &errs)
		}
		denied := slices.ContainsFunc(r.Results, func(r policy.Result) bool {
			return r.Object.Name == "good" && r.Outcome == policy.Fail && r.Action == policy.Deny
		})
		if code != exitDenied || !denied {
			t.Errorf("%s: exit %d, and the object beside it is denied: %v\n%q\n%s", name, code, denied, data, &errs)
		}
	})
}
