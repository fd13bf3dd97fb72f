package main

import (
	"strings"
	"testing"
)

// skippedDisguises are the twins of an object that Argo CD renders and does not apply.
func skippedDisguises(t *testing.T, h string) []twin {
	tree := changing(files(".preadmit/config.yaml", ownRepository, "fine.yaml", fineObject, "app.yaml", application, "apps/h.yaml", h))
	skip := `argocd.argoproj.io/hook: Skip`
	listed := func(object string) string {
		return "apiVersion: v1\nkind: List\nitems:\n- " + strings.TrimPrefix(indented(object, 2), "  ")
	}
	return []twin{
		tree("skipped: by its hook", "apps/h.yaml", annotated(h, skip)),
		tree("skipped: by a hook with blanks", "apps/h.yaml", annotated(h, `argocd.argoproj.io/hook: " Skip,"`)),
		tree("skipped: by a hook and another that is none", "apps/h.yaml", annotated(h, `argocd.argoproj.io/hook: "Skip,Never"`)),
		tree("skipped: by the name of no hook", "apps/h.yaml", annotated(h, `argocd.argoproj.io/hook: skip`)),
		tree("skipped: by an empty hook", "apps/h.yaml", annotated(h, `argocd.argoproj.io/hook: ""`)),
		tree("skipped: by a hook of Helm alone", "apps/h.yaml", annotated(h, `helm.sh/hook: test`)),
		tree("skipped: within a list", "apps/h.yaml", listed(annotated(h, skip))),
		tree("skipped: behind another document", "apps/h.yaml", fineObject+"---\n"+annotated(h, skip)),
		tree("skipped: by a kustomization", "apps/h.yaml", h, "apps/kustomization.yaml", "resources: [h.yaml]\ncommonAnnotations: {"+skip+"}\n"),
		tree("skipped: in a chart", "apps/h.yaml", "", "apps/Chart.yaml", chartFile, "apps/templates/h.yaml", annotated(h, skip)),
		tree("skipped: by a comment in its file", "apps/h.yaml", "# +argocd:skip-file-rendering\n"+h),
		tree("skipped: a list without items", "apps/h.yaml", edited(t, h, "spec:\n  hostNetwork: true\n  containers: [{name: a, image: a}]\n", "items: null\n")),
	}
}

// TestSkippedObjectsAreNamed holds that an object which Argo CD does not apply is said to
// be so at its line, and that its denial is undecided when a change adds it or its annotation.
func TestSkippedObjectsAreNamed(t *testing.T) {
	t.Parallel()
	for _, tw := range skippedDisguises(t, deniedObjects["pod"]) {
		t.Run(tw.name, func(t *testing.T) {
			t.Parallel()
			dir := tw.repository(t, exitDenied)
			state, why := "1 left alone by their deployer (apps/", "its deployer leaves it alone because of this change"
			if strings.Contains(tw.name, "comment") || strings.Contains(tw.name, "without items") {
				state, why = "1 not applied by their controller (apps/", "no longer checked: apps/"
			}
			if code, said := checkTree(dir); code != exitOK || !strings.Contains(said, state) {
				t.Errorf("alone: exit %d\n%s", code, said)
			}
			if code, said := checkTree(dir, "--base", "HEAD"); code != exitIncomplete || !strings.Contains(said, why) || strings.Contains(said, "deleted: ") && strings.HasPrefix(state, "1 left") {
				t.Errorf("with --base: exit %d\n%s", code, said)
			}
		})
	}
	added := changing(files(".preadmit/config.yaml", ownRepository, "app.yaml", application, "apps/x.yaml", fineObject))
	tw := added("added", "apps/h.yaml", annotated(deniedObjects["pod"], "argocd.argoproj.io/hook: Skip"))
	code, said := checkTree(tw.repository(t, exitOK), "--base", "HEAD")
	if code != exitIncomplete || !strings.Contains(said, "its deployer leaves it alone because of this change") {
		t.Errorf("added: exit %d\n%s", code, said)
	}
}

// TestHooksAreApplied holds that Argo CD applies hooks that it runs, also beside Skip or an unknown one.
func TestHooksAreApplied(t *testing.T) {
	t.Parallel()
	tree := changing(files(".preadmit/config.yaml", ownRepository, "app.yaml", application, "apps/x.yaml", fineObject))
	for _, hook := range []string{"PreSync", `"Skip,PostSync"`, `"skip, Sync"`, "PreDelete"} {
		tw := tree(hook, "apps/h.yaml", annotated(deniedObjects["pod"], "argocd.argoproj.io/hook: "+hook))
		if code, said := checkTree(tw.repository(t, exitOK)); code != exitDenied {
			t.Errorf("%s: exit %d\n%s", hook, code, said)
		}
	}
}

// TestLoosenedDefinitionIsReported holds that a change can't have its objects pass in silence
// by loosening the definition of their kind.
func TestLoosenedDefinitionIsReported(t *testing.T) {
	t.Parallel()
	defined := edited(t, definitionOfA, "properties: {x: {type: string, enum: [good]}}",
		"properties: {x: {type: string, enum: [good], maxLength: 9}}, x-kubernetes-validations: [{rule: '!has(self.x) || self.x.size() < 5', message: too long}]")
	tree := changing(files("fine.yaml", fineObject, "defs/crd.yaml", defined))
	custom := func(x string) string { return edited(t, customObject, "x: bad", "x: "+x) }
	loose := edited(t, defined, "enum: [good], ", "")
	const by = "denied: exempted by this change of CustomResourceDefinition as.e.com at "
	for _, c := range []struct {
		twin
		says string
	}{
		{tree("enum", "defs/crd.yaml", loose, "apps/h.yaml", custom("bad")), by + "defs/crd.yaml:3: spec.x: Unsupported value"},
		{tree("enum and moved", "defs/crd.yaml", "", "other/crd.yaml", loose, "apps/h.yaml", custom("bad")), by + "other/crd.yaml:3: spec.x: Unsupported value"},
		{tree("rule", "defs/crd.yaml", edited(t, loose, "self.x.size() < 5", "true"), "apps/h.yaml", custom("another")), by + "defs/crd.yaml:3: "},
		{tree("type", "defs/crd.yaml", edited(t, loose, "{type: string, maxLength: 9}", "{x-kubernetes-int-or-string: true}"), "apps/h.yaml", custom("5")), by},
		{tree("preserving", "defs/crd.yaml", edited(t, defined, "{type: object, properties: {x: {type: string, enum: [good], maxLength: 9}}", "{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {y: {type: string}}"), "apps/h.yaml", custom("bad")), by},
		{tree("no schema", "defs/crd.yaml", edited(t, definitionOfA, "properties: {spec: {type: object, properties: {x: {type: string, enum: [good]}}}}", "x-kubernetes-preserve-unknown-fields: true"), "apps/h.yaml", custom("bad")), by},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, said := checkTree(c.repository(t, exitOK), "--base", "HEAD")
			if code != exitDenied || !strings.Contains(said, c.says) {
				t.Errorf("exit %d\n%s", code, said)
			}
		})
	}
	// A new field and an object that has it belong together.
	tw := tree("new field", "defs/crd.yaml", edited(t, defined, "maxLength: 9}", "maxLength: 9}, z: {type: string}"), "apps/h.yaml", edited(t, customObject, "x: bad", "x: good, z: a"))
	if code, said := checkTree(tw.repository(t, exitOK), "--base", "HEAD"); code != exitOK || strings.Contains(said, "exempted") {
		t.Errorf("new field: exit %d\n%s", code, said)
	}
}

// inventoryPolicy denies ServiceAccounts that data.inventory does not allow.
func inventoryPolicy(allowed, kind string) string {
	return `apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: allowed}
spec:
  crd: {spec: {names: {kind: Allowed}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package allowed
      violation[{"msg": "not allowed"}] { not allowed }
      allowed { ` + allowed + ` }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Allowed
metadata: {name: p}
spec: {match: {kinds: [{apiGroups: [''], kinds: [ServiceAccount]}]}}
---
apiVersion: config.gatekeeper.sh/v1alpha1
kind: Config
metadata: {name: config, namespace: gatekeeper-system}
spec: {sync: {syncOnly: [{group: '', version: v1, kind: ` + kind + `}]}}
`
}

// TestInventoryOfTheBaseHolds holds that a change can't have its objects pass in silence by
// adding to what policies look up.
func TestInventoryOfTheBaseHolds(t *testing.T) {
	t.Parallel()
	const (
		account   = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: hidden, namespace: prod}\n"
		service   = "apiVersion: v1\nkind: Service\nmetadata: {name: hidden, namespace: prod}\nspec: {ports: [{port: 80}]}\n"
		configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: allowed, namespace: prod}\ndata: {hidden: 'yes'}\n"
	)
	byService := inventoryPolicy(`data.inventory.namespace[input.review.namespace]["v1"]["Service"][input.review.object.metadata.name]`, "Service")
	byMap := inventoryPolicy(`data.inventory.namespace[input.review.namespace]["v1"]["ConfigMap"]["allowed"].data[input.review.object.metadata.name]`, "ConfigMap")
	anyKind := inventoryPolicy(`data.inventory.namespace[_][_][_]["hidden"].spec`, "Service")
	lookup := "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n  rules:\n  - name: r\n    match: {any: [{resources: {kinds: [ServiceAccount]}}]}\n" +
		"    context: [{name: services, apiCall: {urlPath: '/api/v1/namespaces/{{request.namespace}}/services', jmesPath: 'items[].metadata.name'}}]\n" +
		"    validate: {failureAction: Enforce, message: not allowed, deny: {conditions: {all: [{key: '{{request.object.metadata.name}}', operator: AnyNotIn, value: '{{services}}'}]}}}\n"
	for name, c := range map[string]struct {
		policy, adds string
		code         int
		says         string
	}{
		"an object that it needs":    {byService, service, exitOK, "warning: exempted by this change of Service hidden at s.yaml:3: not allowed"},
		"settings":                   {byMap, configMap, exitDenied, "denied: exempted by this change of ConfigMap allowed at s.yaml:3: not allowed"},
		"any kind":                   {anyKind, service, exitOK, "warning: exempted by this change of Service hidden at s.yaml:3: not allowed"},
		"an API call of Kyverno's":   {lookup, service, exitOK, "warning: exempted by this change of Service hidden at s.yaml:3: needs the answer"},
		"nothing that allows it":     {byMap, service, exitDenied, "denied: not allowed"},
		"one of two, which is named": {byService, fineObject + "---\n" + service, exitOK, "Service hidden at s.yaml:7: not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tw := changing(files("fine.yaml", fineObject, "policy.yaml", c.policy))(name, "apps/h.yaml", account, "s.yaml", c.adds)
			code, said := checkTree(tw.repository(t, exitOK), "--base", "HEAD")
			if code != c.code || !strings.Contains(said, c.says) {
				t.Errorf("exit %d\n%s", code, said)
			}
		})
	}
}
