package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// admissionPolicy denies objects of a resource for which the expression is false. Each of
// actions is one binding: validationActions, and what it matches.
func admissionPolicy(resource, expression, more string, actions ...[2]string) string {
	group, plural, _ := strings.Cut(resource, "/")
	policy := "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\nspec:\n  " + more +
		"\n  matchConstraints: {resourceRules: [{apiGroups: ['" + group + "'], apiVersions: ['*'], operations: ['*'], resources: [" + plural + "]}]}\n" +
		"  validations: [{expression: '" + expression + "'}]\n"
	for i, a := range actions {
		policy += fmt.Sprintf("---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b%d}\nspec: {policyName: p, validationActions: [%s]%s}\n", i, a[0], a[1])
	}
	return policy
}

// selecting has a binding match namespaces or objects by the label env.
func selecting(what, env string) string {
	return ", matchResources: {" + what + "Selector: {matchLabels: {env: " + env + "}}}"
}

// TestWeakerResultHidesNone holds that a denial counts although the same failure is also a
// warning: of another variant of a chart, or only since the change edits labels.
func TestWeakerResultHidesNone(t *testing.T) {
	t.Parallel()
	const (
		bad  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: shop%s}\ndata: {a: bad}\n"
		rule = `object.data.a != "bad"`
		env  = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {env: %s}}\n"
		pss  = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: %s, pod-security.kubernetes.io/%s: baseline}}\n"
	)
	byNamespace := func(action string) string {
		return admissionPolicy("/configmaps", rule, "", [2]string{"Deny", selecting("namespace", "prod")}, [2]string{action, selecting("namespace", "dev")})
	}
	object := fmt.Sprintf(bad, "")
	pod := strings.Replace(deniedObjects["pod"], "name: hidden", "name: hidden\n  namespace: shop", 1)
	kyverno := "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n  validationFailureAction: Enforce\n" +
		"  validationFailureActionOverrides: [{action: Audit, namespaceSelector: {matchLabels: {env: dev}}}]\n" +
		"  rules: [{name: r, match: {any: [{resources: {kinds: [ConfigMap]}}]}, validate: {message: m, pattern: {data: {a: '!bad'}}}}]\n"
	for name, c := range map[string]struct{ base, head map[string]string }{
		"variant of a chart": {nil, files("p/p.yaml", admissionPolicy("/configmaps", rule, "", [2]string{"Warn", selecting("object", "dev")}, [2]string{"Deny", selecting("object", "prod")}),
			"c/Chart.yaml", chartFile, "c/templates/x.yaml", fmt.Sprintf(bad, ", labels: {env: {{ if .Release.IsUpgrade }}prod{{ else }}dev{{ end }}}"))},
		"namespace for a binding that warns":  {files("p/p.yaml", byNamespace("Warn"), "ns.yaml", fmt.Sprintf(env, "prod")), files("ns.yaml", fmt.Sprintf(env, "dev"), "x.yaml", object)},
		"namespace for a binding that audits": {files("p/p.yaml", byNamespace("Audit"), "ns.yaml", fmt.Sprintf(env, "prod")), files("ns.yaml", fmt.Sprintf(env, "dev"), "x.yaml", object)},
		"namespace for an override":           {files("p/p.yaml", kyverno, "ns.yaml", fmt.Sprintf(env, "prod")), files("ns.yaml", fmt.Sprintf(env, "dev"), "x.yaml", object)},
		"enforced level made a warning":       {files("p/p.yaml", byNamespace("Warn"), "ns.yaml", fmt.Sprintf(pss, "baseline", "audit")), files("ns.yaml", fmt.Sprintf(pss, "privileged", "warn"), "x.yaml", pod)},
		"enforced level made an audit":        {files("p/p.yaml", byNamespace("Warn"), "ns.yaml", fmt.Sprintf(pss, "baseline", "warn")), files("ns.yaml", fmt.Sprintf(pss, "privileged", "audit"), "x.yaml", pod)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			flags := []string{"-p", filepath.Join(dir, "p")}
			if c.base != nil {
				repo, err := gittest.Init(dir)
				rendertest.OK(t, err)
				writeFiles(t, dir, c.base)
				if _, err := repo.CommitAll("base"); err != nil {
					t.Fatal(err)
				}
				flags = append(flags, "--base", "HEAD")
			}
			writeFiles(t, dir, c.head)
			if code, said := checkTree(dir, flags...); code != exitDenied {
				t.Errorf("exit %d\n%s", code, said)
			}
		})
	}
}

// TestSharedResultHidesNone holds that an object which is denied alone is denied among many
// that pass and that differ from it only in one thing.
func TestSharedResultHidesNone(t *testing.T) {
	t.Parallel()
	deny := [2]string{"Deny", ""}
	vap := func(expression string) string {
		return admissionPolicy("apps/deployments", expression, "", deny)
	}
	vpol := func(expression string) string {
		return "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\nmetadata: {name: p}\nspec:\n  validationActions: [Deny]\n" +
			"  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}]}\n" +
			"  validations: [{expression: '" + expression + "'}]\n"
	}
	const (
		kyverno = "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n  validationFailureAction: Enforce\n" +
			"  rules: [{name: r, match: {any: [{resources: {kinds: [Deployment]}}]}, validate: {message: m, deny: {conditions: {any: [{key: '{{ request.object.metadata.annotations.x || `1` }}', operator: Equals, value: '2'}]}}}}]\n"
		except     = "---\napiVersion: kyverno.io/v2\nkind: PolicyException\nmetadata: {name: e, namespace: kyverno}\nspec: {exceptions: [{policyName: p, ruleNames: [r]}], match: {any: [{resources: {kinds: [Deployment], names: ['d*']}}]}}\n"
		deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: NAME, namespace: NS, annotations: {x: '1', q: '1'}}\n" +
			"spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}}\n"
		gatekeeper = "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {name: kind}\nspec:\n  crd: {spec: {names: {kind: Kind}}}\n" +
			"  targets: [{target: admission.k8s.gatekeeper.sh, rego: \"package kind\\nviolation[{\\\"msg\\\": \\\"m\\\"}] { BODY }\"}]\n" +
			"---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Kind\nmetadata: {name: p}\nspec: {match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}]}}\n"
	)
	var namespaces, parameters strings.Builder
	for i := range 41 {
		label, most := "team: t", 9
		if i == 40 {
			label, most = "other: t", 1
		}
		fmt.Fprintf(&namespaces, "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: n%d, labels: {%s}}\n", i, label)
		fmt.Fprintf(&parameters, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: most, namespace: n%d}\ndata: {max: '%d'}\n", i, most)
	}
	annotation, name, namespace := [2]string{"x: '1'", "x: '2'"}, [2]string{"NAME", "bad"}, [2]string{"NS", "n40"}
	for what, c := range map[string]struct {
		policy  string
		differs [2]string // what the denied object has in another place
	}{
		"annotation by a variable": {admissionPolicy("apps/deployments", `variables.v["x"] != "2"`, `variables: [{name: m, expression: "object.metadata"}, {name: v, expression: "variables.m.annotations"}]`, deny), annotation},
		"annotation by its value":  {vap(`object.metadata.annotations[object.metadata.annotations["q"] == "1" ? "x" : "q"] != "2"`), annotation},
		"size of a map":            {vap(`size(object.metadata.annotations) < 3`), [2]string{"q: '1'", "q: '1', z: '1'"}},
		"concatenation":            {vap(`object.metadata.annotations["x"] + object.metadata.annotations["q"] != "12"`), [2]string{"x: '1', q: '1'", "x: '1', q: '2'"}},
		"match condition":          {admissionPolicy("apps/deployments", "false", `matchConditions: [{name: m, expression: 'object.metadata.annotations["x"] == "2"'}]`, deny), annotation},
		"namespace's labels":       {vap(`"team" in namespaceObject.metadata.labels`), namespace},
		"request's name":           {vap(`request.name != "bad"`), name},
		"parameter of a namespace": {admissionPolicy("apps/deployments", "object.spec.replicas <= int(params.data.max)", "paramKind: {apiVersion: v1, kind: ConfigMap}", [2]string{"Deny", ", paramRef: {name: most, parameterNotFoundAction: Deny}"}), namespace},
		"default":                  {vap(`object.spec.replicas > 1`), [2]string{"replicas: 2, ", ""}},
		"ValidatingPolicy, number": {vpol(`object.spec.replicas != 2147483647`), [2]string{"replicas: 2", "replicas: 2147483647"}},
		"ValidatingPolicy, label":  {vpol(`"team" in namespaceObject.metadata.labels`), namespace},
		"Kyverno":                  {kyverno, annotation},
		"Kyverno's exception":      {strings.ReplaceAll(kyverno, "value: '2'", "value: '1'") + except, name},
		"Gatekeeper":               {strings.Replace(gatekeeper, "BODY", `input.review.object.metadata.annotations.x == \"2\"`, 1), annotation},
		"Gatekeeper, name":         {strings.Replace(gatekeeper, "BODY", `input.review.name == \"bad\"`, 1), name},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			denied := strings.Replace(deployment, c.differs[0], c.differs[1], 1)
			plain := files("p/p.yaml", c.policy, "ns.yaml", namespaces.String()+parameters.String(), "denied.yaml", strings.NewReplacer("NAME", "d", "NS", "n0").Replace(denied))
			writeFiles(t, dir, plain)
			if code, said := checkTree(dir, "-p", filepath.Join(dir, "p")); code != exitDenied {
				t.Fatalf("in plain sight: exit %d\n%s", code, said)
			}
			among := maps.Clone(plain)
			for i := range 120 {
				among[fmt.Sprintf("%c%d.yaml", "aaaz"[i%4], i)] = strings.NewReplacer("NAME", fmt.Sprintf("d%d", i), "NS", fmt.Sprintf("n%d", i%40)).Replace(deployment)
			}
			writeFiles(t, dir, among)
			if code, said := checkTree(dir, "-p", filepath.Join(dir, "p")); code != exitDenied || !strings.Contains(said, "result: 1 denied") {
				t.Errorf("among others: exit %d\n%s", code, said)
			}
			rendertest.OK(t, os.Remove(filepath.Join(dir, "denied.yaml")))
			if code, said := checkTree(dir, "-p", filepath.Join(dir, "p")); code != exitOK {
				t.Errorf("the others alone: exit %d\n%s", code, said)
			}
		})
	}
}
