package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/report"
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
		rendertest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	cmd := exec.Command("preadmit", "check", "--no-cache", "--task-memory", "180")
	cmd.Dir = dir
	out, _ := cmd.Output()
	for _, want := range []string{
		"= rule: small/validations[0] at policies.yaml",
		"error: compiling ValidatingAdmissionPolicy large needs more than 180 MiB of memory: it is skipped",
		"1 denied, 3 in error",
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
		rendertest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
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

// explosive holds a policy for each engine, with its name as NAME and its test as TEXT,
// a test that a ConfigMap fails, and one that takes much memory if the ConfigMap is large.
var explosive = map[string]struct{ file, policy, small, large string }{
	"ValidatingAdmissionPolicy": {"NAME.yaml", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAME}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  TEXT
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME, validationActions: [Deny]}
`, celSmall, celLarge},
	"MutatingAdmissionPolicy": {"NAME.yaml", `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: NAME}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  TEXT
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/data/NAME", value: variables.all}]'}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: NAME}
spec: {policyName: NAME}
`, mutationSmall, mutationLarge},
	"ValidatingPolicy": {"NAME.yaml", `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: NAME}
spec:
  validationActions: [Deny]
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  TEXT
`, celSmall, celLarge},
	"Kyverno": {"NAME.yaml", `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: NAME}
spec:
  validationFailureAction: Enforce
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    TEXT
    validate: {message: m, deny: {conditions: {any: [{key: "` + twelve("{{ length(aN) }}", "") + `", operator: NotEquals, value: 7}]}}}
`, kyvernoSmall, kyvernoLarge},
	"KyvernoMutates": {"NAME.yaml", `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: NAME}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    TEXT
    mutate: {patchStrategicMerge: {data: {NAME: "` + twelve("{{ length(aN) }}", "") + `"}}}
`, kyvernoSmall, kyvernoLarge},
	"MutatingPolicy": {"NAME.yaml", `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: NAME}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  TEXT
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: '[JSONPatch{op: "add", path: "/data/NAME", value: variables.all}]'}}]
`, mutationSmall, mutationLarge},
	"Gatekeeper": {"NAME.yaml", `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: NAME}
spec:
  crd: {spec: {names: {kind: NAME}}}
  targets: [{target: admission.k8s.gatekeeper.sh, rego: "package NAME\nviolation[{\"msg\": \"NAME\"}] { TEXT }"}]
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: NAME
metadata: {name: NAME}
spec: {match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}]}}
`, `input.review.object.data.a`, `x := [[c, c, [c, c]] | c := split(input.review.object.data.a, \"\")[_]]; count(x) > 0`},
	"Rego": {"NAME.rego", `package NAME

deny contains "NAME" if { TEXT }
`, `input.data.a`, `x := [[c, c, [c, c]] | some c in split(input.data.a, "")]; count(x) > 0`},
}

// The parts of policies in JMESPath and in CEL.
var (
	kyvernoSmall  = `context: [` + twelve("{name: aN, variable: {value: a}}", ", ") + "]"
	kyvernoLarge  = `context: [` + twelve(`{name: aN, variable: {jmesPath: "parse_json(join('', ['[', request.object.data.a, '{}]']))"}}`, ", ") + "]"
	mutationSmall = `variables: [{name: all, expression: "'x'"}]`
	mutationLarge = strings.Replace(strings.Replace(celLarge, "}]\n", `}, {name: all, expression: "string(`+celSizes+`)"}]`, 1), celTest, "", 1)

	celSizes = twelve("variables.vN.size()", " + ")
	celTest  = `  validations: [{expression: "` + celSizes + ` < 0"}]`
	celSmall = `validations: [{expression: "object.data.a == ''"}]`
	celLarge = `variables: [` + twelve(`{name: vN, expression: "object.data.a.split('')"}`, ", ") + "]\n" + celTest
)

// twelve repeats a text with the numbers from 0 to 11 in the place of N.
func twelve(text, between string) string {
	var all []string
	for i := range 12 {
		all = append(all, strings.ReplaceAll(text, "N", strconv.Itoa(i)))
	}
	return strings.Join(all, between)
}

// TestSetApartPair holds that a policy which takes too much with one object is named, and
// that the object is evaluated by the engine's other policies, and by that one any other
// object; with several jobs as with one.
func TestSetApartPair(t *testing.T) {
	t.Parallel()
	for engine, x := range explosive {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			of := func(name, test string) string {
				return strings.NewReplacer("NAME", name, "TEXT", test).Replace(x.policy)
			}
			writeFiles(t, dir, files(
				".git/HEAD", "ref: refs/heads/main\n",
				"usual.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: usual}\ndata: {a: xy}\n",
				"vast.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: vast}\ndata: {a: '"+strings.Repeat("{},", 300_000)+"'}\n",
				"p/"+strings.Replace(x.file, "NAME", "afirst", 1), of("afirst", x.small),
				"p/"+strings.Replace(x.file, "NAME", "large", 1), of("large", x.large),
				"p/"+strings.Replace(x.file, "NAME", "zlast", 1), of("zlast", x.small),
			))
			var reports []string
			for _, jobs := range []string{"1", "2"} {
				cmd := exec.Command("preadmit", "check", "--no-cache", "--task-memory", "160", "-j", jobs, "-p", "p", "-o", "json", "usual.yaml", "vast.yaml")
				cmd.Dir = dir
				out, _ := cmd.Output()
				reports = append(reports, string(out))
			}
			if reports[0] != reports[1] {
				t.Errorf("with two jobs the report is another one:\n%s\n%s", reports[0], reports[1])
			}
			var r report.Report
			rendertest.OK(t, json.Unmarshal([]byte(reports[0]), &r))
			got := make(map[string]string)
			for _, x := range r.Results {
				if x.Engine == strings.TrimSuffix(engine, "Mutates") || x.Engine == policy.EngineCompile {
					got[x.Object.Name+" "+x.Policy] += string(x.Outcome) + " " + x.Message + " " + x.PolicyOrigin.File
				}
			}
			for _, object := range []string{"usual", "vast"} {
				for _, p := range []string{"afirst", "zlast"} {
					if s := got[object+" "+p]; !strings.HasPrefix(s, "fail ") && !strings.HasPrefix(s, "pass sets /data/"+p) && !strings.HasPrefix(s, "pass mutated ") {
						t.Errorf("%s by %s: %q", object, p, s)
					}
				}
			}
			if s := got["usual large"]; s == "" || strings.Contains(s, "set apart") {
				t.Errorf("the object that is not large: %q", s)
			}
			if s := got["vast large"]; !strings.HasPrefix(s, "error evaluating the policy large") || !strings.Contains(s, "on this object needs more than 160 MiB of memory: it is skipped for this object p/large") {
				t.Errorf("the pair: %q", s)
			}
		})
	}
}

// TestSetApartDefinition holds the same for the rules of a CustomResourceDefinition, which
// are one policy: other engines' results of the object are reported.
func TestSetApartDefinition(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	object := "apiVersion: e.com/v1\nkind: X\nmetadata: {name: NAME}\na: TEXT\n"
	writeFiles(t, dir, files(
		".git/HEAD", "ref: refs/heads/main\n",
		"crd.yaml", `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xs.e.com}
spec:
  group: e.com
  scope: Namespaced
  names: {plural: xs, singular: x, kind: X, listKind: XList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {a: {type: string, maxLength: 1000000}}, x-kubernetes-validations: [{rule: "[`+twelve("self.a.split('')", ", ")+`].size() > 1"}]}}
`,
		"usual.yaml", strings.NewReplacer("NAME", "usual", "TEXT", "xy").Replace(object),
		"vast.yaml", strings.NewReplacer("NAME", "vast", "TEXT", strings.Repeat("x", 900_000)).Replace(object),
		"p/a.rego", "package a\n\ndeny contains \"m\" if input.kind == \"X\"\n",
	))
	cmd := exec.Command("preadmit", "check", "--no-cache", "--task-memory", "160", "-p", "p", "-o", "text")
	cmd.Dir = dir
	out, _ := cmd.Output()
	for _, want := range []string{
		"error: evaluating the policy xs.e.com on this object needs more than 160 MiB of memory: it is skipped for this object",
		"= rule: xs.e.com/set-apart at crd.yaml",
		"= also at vast.yaml:2:7: X default/vast in vast.yaml",
		"result: 2 denied, 1 in error",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%.3000s", want, out)
		}
	}
}
