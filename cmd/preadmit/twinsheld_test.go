package main

import (
	"encoding/base64"
	"strings"
	"testing"
)

// heldDisguises are the twins of an object that another object holds. Those of unread are
// held in a form that is not rendered.
func heldDisguises(h string) (rendered, unread []twin) {
	tree := changing(files("fine.yaml", fineObject, "apps/h.yaml", h))
	item := func(indent int) string {
		return strings.Repeat(" ", indent) + "- " + strings.TrimPrefix(indented(h, indent+2), strings.Repeat(" ", indent+2))
	}
	as := func(kind, spec string) twin { return tree("held: "+kind, "apps/h.yaml", "kind: "+kind+"\n"+spec) }
	of := func(version string) string {
		return "apiVersion: " + version + "\nmetadata: {name: w, namespace: spoke}\n"
	}
	text := func(indent int) string { return "|\n" + indented(h, indent) }
	work := of("work.open-cluster-management.io/v1") + "spec:\n  workload:\n    manifests:\n"
	template := of("template.openshift.io/v1") + "parameters:\n- {name: NAME, value: hidden}\n- {name: REQUIRED, required: true}\n- {name: HOST, value: 'true'}\nobjects:\n"
	filled := strings.Replace(strings.Replace(item(0), "name: hidden", "name: ${NAME}", 1), "image: a", "image: \"${REQUIRED}\"", 1)
	nested := "kind: ManifestWork\n" + strings.Replace(work, "name: w", "name: inner", 1) + item(4)
	rendered = []twin{
		as("ManifestWork", work+item(4)),
		as("ManifestWorkReplicaSet", of("work.open-cluster-management.io/v1alpha1")+"spec:\n  manifestWorkTemplate:\n    workload:\n      manifests:\n"+item(6)),
		as("Work", of("work.karmada.io/v1alpha1")+"spec:\n  workload:\n    manifests:\n"+item(4)),
		as("AddOnTemplate", of("addon.open-cluster-management.io/v1alpha1")+"spec:\n  agentSpec:\n    workload:\n      manifests:\n"+item(6)),
		as("SyncSet", of("hive.openshift.io/v1")+"spec:\n  resources:\n"+item(2)),
		as("SelectorSyncSet", of("hive.openshift.io/v1")+"spec:\n  resources:\n"+item(2)),
		as("Object", of("kubernetes.crossplane.io/v1alpha2")+"spec:\n  forProvider:\n    manifest:\n"+indented(h, 6)),
		tree("held: Object of a namespace", "apps/h.yaml", "kind: Object\n"+of("kubernetes.m.crossplane.io/v1alpha1")+"spec:\n  managementPolicies: ['*']\n  forProvider:\n    manifest:\n"+indented(h, 6)),
		as("Template", template+filled),
		tree("held: Template of v1", "apps/h.yaml", "kind: Template\n"+strings.Replace(template, "template.openshift.io/v1", "v1", 1)+filled),
		tree("held: by a parameter", "apps/h.yaml", "kind: Template\n"+template+strings.Replace(filled, "hostNetwork: true", "hostNetwork: ${{HOST}}", 1)),
		tree("held: in a list", "apps/h.yaml", "kind: ManifestWork\n"+work+"    - apiVersion: v1\n      kind: List\n      items:\n"+item(6)),
		tree("held: one in another", "apps/h.yaml", "kind: Template\n"+template+"- "+strings.TrimPrefix(indented(nested, 2), "  ")),
		tree("held: in a chart", "apps/h.yaml", "", "c/Chart.yaml", chartFile, "c/templates/h.yaml", "kind: ManifestWork\n"+work+item(4)),
		tree("held: in a kustomization", "apps/h.yaml", "kind: ManifestWork\n"+work+item(4), "apps/kustomization.yaml", "resources: [h.yaml]\nnamespace: other\n"),
	}
	unread = []twin{
		as("HelmChart", of("helm.cattle.io/v1")+"spec: {chart: c, valuesContent: 'hostNetwork: true'}\n"),
		tree("held: packed HelmChart", "apps/h.yaml", "kind: HelmChart\n"+of("helm.cattle.io/v1")+"spec: {chartContent: "+base64.StdEncoding.EncodeToString([]byte(h))+"}\n"),
		as("HelmChartConfig", of("helm.cattle.io/v1")+"spec: {valuesContent: 'hostNetwork: true'}\n"),
		as("Release", of("helm.crossplane.io/v1beta1")+"spec: {forProvider: {chart: {name: c}, values: {hostNetwork: true}}}\n"),
		as("GitRepo", of("fleet.cattle.io/v1alpha1")+"spec: {repo: 'https://example.org/r', paths: [apps]}\n"),
		tree("held: HelmRelease of Flux's first version", "apps/h.yaml", "kind: HelmRelease\n"+of("helm.fluxcd.io/v1")+"spec: {chart: {repository: 'https://example.org', name: c, version: 1.0.0}, values: {hostNetwork: true}}\n"),
		as("HelmChartProxy", of("addons.cluster.x-k8s.io/v1alpha1")+"spec: {repoURL: 'https://example.org', chartName: c, clusterSelector: {}}\n"),
		tree("held: Subscription of a channel", "apps/h.yaml", "kind: Subscription\n"+of("apps.open-cluster-management.io/v1")+"spec: {channel: c/c}\n"),
		as("ObjectDeployment", of("package-operator.run/v1alpha1")+"spec:\n  selector: {}\n  template:\n    spec:\n      phases:\n      - name: a\n        objects:\n        - object:\n"+indented(h, 12)),
		as("Bundle", of("fleet.cattle.io/v1alpha1")+"spec:\n  resources:\n  - name: h.yaml\n    content: "+text(6)),
		tree("held: ClusterResourceSet", "apps/h.yaml", "kind: ClusterResourceSet\n"+of("addons.cluster.x-k8s.io/v1beta1")+"spec: {resources: [{kind: ConfigMap, name: m}]}\n---\nkind: ConfigMap\n"+strings.Replace(of("v1"), "name: w", "name: m", 1)+"data:\n  h: "+text(4)),
		as("ConfigurationPolicy", of("policy.open-cluster-management.io/v1")+"spec:\n  object-templates:\n  - complianceType: musthave\n    objectDefinition:\n"+indented(h, 6)),
		as("ClusterProfile", of("config.projectsveltos.io/v1beta1")+"spec: {policyRefs: [{kind: ConfigMap, name: m, namespace: n}]}\n"),
		as("App", of("kappctrl.k14s.io/v1alpha1")+"spec:\n  fetch:\n  - inline:\n      paths:\n        h.yaml: "+text(10)),
		as("PackageInstall", of("packaging.carvel.dev/v1alpha1")+"spec: {packageRef: {refName: p}}\n"),
		tree("held: Application of KubeVela", "apps/h.yaml", "kind: Application\n"+of("core.oam.dev/v1beta1")+"spec:\n  components:\n  - type: k8s-objects\n    properties:\n      objects:\n"+item(6)),
		tree("held: an Application of Argo CD in another object", "apps/h.yaml", "kind: ManifestWork\n"+work+"    - "+strings.TrimPrefix(indented(application, 6), "      ")),
		tree("held: only on upgrade", "apps/h.yaml", "", "c/Chart.yaml", chartFile, "c/templates/h.yaml", "{{ if .Release.IsUpgrade }}\nkind: ManifestWork\n"+work+item(4)+"{{ end }}\n"),
	}
	return rendered, unread
}

// TestHeldObjectsAreChecked holds that an object is denied also where another object holds
// it, and that what is held in a form that is not rendered is undecided.
func TestHeldObjectsAreChecked(t *testing.T) {
	t.Parallel()
	rendered, unread := heldDisguises(deniedObjects["pod"])
	for code, twins := range map[int][]twin{exitDenied: rendered, exitIncomplete: unread} {
		for _, tw := range twins {
			t.Run(tw.name, func(t *testing.T) {
				t.Parallel()
				dir := tw.repository(t, exitDenied)
				got, said := checkTree(dir)
				if got != code || code == exitDenied && (!strings.Contains(said, "hostNetwork=true") || !strings.Contains(said, "/h.yaml:")) {
					t.Errorf("alone: exit %d\n%s", got, said)
				}
				if got, said := checkTree(dir, "--base", "HEAD"); got == exitOK && code != exitDenied {
					t.Errorf("with --base: exit %d\n%s", got, said)
				}
			})
		}
	}
}

// TestHeldPoliciesCheckNothing holds that a policy which another object holds does not count
// as one of this cluster, and that what Crossplane only observes is not deployed.
func TestHeldPoliciesCheckNothing(t *testing.T) {
	t.Parallel()
	const object = "apiVersion: kubernetes.crossplane.io/v1alpha2\nkind: Object\nmetadata: {name: o}\nspec:\n  forProvider:\n    manifest:\n"
	policy := "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n  rules:\n  - name: r\n    match: {any: [{resources: {kinds: [ConfigMap]}}]}\n    validate: {failureAction: Enforce, message: m, deny: {}}\n"
	for name, c := range map[string]struct{ file, says string }{
		"policy":   {object + indented(policy, 6), "warning: ClusterPolicy p, which Object o holds, checks nothing here"},
		"observed": {strings.Replace(object, "spec:\n", "spec:\n  managementPolicies: [Observe]\n", 1) + indented(deniedObjects["pod"], 6), "checked: 2 objects of 2 units"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFiles(t, dir, files("fine.yaml", fineObject, "o.yaml", c.file))
			if code, said := checkTree(dir); code != exitOK || !strings.Contains(said, c.says) {
				t.Errorf("exit %d\n%s", code, said)
			}
		})
	}
}
