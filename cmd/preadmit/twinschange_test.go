package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

// valuedDisguises are the twins of an object of a chart, which a change renders only with
// a value that comes from elsewhere.
func valuedDisguises(t *testing.T, h string) []twin {
	with := func(text, old, new string) string { return edited(t, text, old, new) }
	const template = "c/templates/h.yaml"
	open := "{{ if .Values.x }}\n" + h + "{{ end }}\n"
	common := []string{".preadmit/config.yaml", ownRepository, "c/Chart.yaml", chartFile, "c/values.yaml", "x: false\n", template, h, "c/templates/x.yaml", fineObject}
	app := with(application, "path: apps", "path: c")
	argo := func(name, source string, more ...string) twin {
		changed := with(app, "path: c,", "path: c, "+source+",")
		return changing(files(append(common, "app.yaml", app)...))("values: argo: "+name, append(more, "app.yaml", changed, template, open)...)
	}
	release := func(name, spec string, more ...string) twin {
		plain := changing(files(append(common, "flux/source.yaml", gitSource, "hr.yaml", helmRelease)...))
		return plain("values: release: "+name, append([]string{"hr.yaml", helmRelease + indented(spec, 2), template, open}, more...)...)
	}
	chartSpec := func(name, more string, rest ...string) twin {
		plain := changing(files(append(common, "flux/source.yaml", gitSource, "hr.yaml", helmRelease)...))
		return plain("values: release: "+name, append([]string{"hr.yaml", with(helmRelease, "chart: c,", "chart: c, "+more+","), template, open}, rest...)...)
	}
	const list = "k/kustomization.yaml"
	kust := func(name, chart string, more ...string) twin {
		of := func(chart string) string {
			return "resources: [x.yaml]\nhelmCharts: [{name: c, releaseName: c" + chart + "}]\n"
		}
		plain := changing(files(".preadmit/config.yaml", ownRepository, "k/charts/c/Chart.yaml", chartFile, "k/charts/c/values.yaml", "x: false\n", "k/charts/c/templates/h.yaml", h, list, of(""), "k/x.yaml", fineObject))
		return plain("values: kustomize: "+name, append([]string{list, of(chart), "k/charts/c/templates/h.yaml", open}, more...)...)
	}
	set := func(name, elements, source string) twin {
		of := func(source string) string {
			return with(with(appSet, "{name: a, path: apps, env: prod}", "{name: a, path: c, env: prod"+elements+"}"), "targetRevision: HEAD}", "targetRevision: HEAD"+source+"}")
		}
		return changing(files(append(common, "set.yaml", of(""))...))("values: appset: "+name, "set.yaml", of(source), template, open)
	}
	configMap := func(name, data string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", namespace: default}\ndata: {" + data + "}\n"
	}
	return []twin{
		argo("object", "helm: {valuesObject: {x: true}}"),
		argo("text", "helm: {values: 'x: true'}"),
		deletion(argo("text against object", "helm: {values: 'x: true', valuesObject: {y: 1}}")),
		argo("parameter", "helm: {parameters: [{name: x, value: 'true'}]}"),
		argo("parameter that is a text", "helm: {parameters: [{name: x, value: 'false', forceString: true}]}"),
		argo("parameter twice", "helm: {parameters: [{name: x, value: 'false'}, {name: x, value: 'true'}]}"),
		argo("file parameter", "helm: {fileParameters: [{name: x, path: files/x}]}", "c/files/x", "yes\n"),
		argo("file", "helm: {valueFiles: [v.yaml]}", "c/v.yaml", "x: true\n"),
		argo("file above the chart", "helm: {valueFiles: [../v.yaml]}", "v.yaml", "x: true\n"),
		argo("file from the root", "helm: {valueFiles: [/v.yaml]}", "v.yaml", "x: true\n"),
		argo("file in a hidden directory", "helm: {valueFiles: [.v/v.yaml]}", "c/.v/v.yaml", "x: true\n"),
		argo("file with the Application's name", "helm: {valueFiles: [v-$ARGOCD_APP_NAME.yaml]}", "c/v-a.yaml", "x: true\n"),
		argo("file at an address", "helm: {valueFiles: ['https://example.org/v.yaml']}"),
		argo("file of a plugin", "helm: {valueFiles: ['secrets://v.yaml']}", "c/v.yaml", "x: true\n"),
		argo("files by a glob", "helm: {valueFiles: ['v-*.yaml']}", "c/v-a.yaml", "x: true\n"),
		argo("file that may be missing", "helm: {valueFiles: [none.yaml, v.yaml], ignoreMissingValueFiles: true}", "c/v.yaml", "x: true\n"),
		argo("settings beside the chart", "helm: {}", "c/.argocd-source.yaml", "helm: {parameters: [{name: x, value: 'true'}]}\n"),
		argo("settings of this Application", "helm: {}", "c/.argocd-source-a.yaml", "helm: {valueFiles: [v.yaml]}\n", "c/v.yaml", "x: true\n"),
		argo("file with a merge", "helm: {valueFiles: [v.yaml]}", "c/v.yaml", "y: &y {x: true}\n<<: *y\n"),
		argo("file in UTF-16", "helm: {valueFiles: [v.yaml]}", "c/v.yaml", "\xff\xfe"+wide("x: true\n", true, 2)),
		argo("file of two documents", "helm: {valueFiles: [v.yaml]}", "c/v.yaml", "x: false\n---\nx: true\n"),
		argo("encrypted file", "helm: {valueFiles: [v.yaml]}", "c/v.yaml", "x: ENC[AES256_GCM,data:YQ==,iv:YQ==,tag:YQ==,type:bool]\nsops: {mac: x, version: 3.9.0}\n"),
		release("inline", "values: {x: true}"),
		release("ConfigMap", "valuesFrom: [{kind: ConfigMap, name: v}]", "v.yaml", configMap("v", "values.yaml: 'x: true'")),
		release("Secret in base64", "valuesFrom: [{kind: Secret, name: v}]", "v.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: v, namespace: default}\ndata: {values.yaml: eDogdHJ1ZQo=}\n"),
		release("Secret that is encrypted", "valuesFrom: [{kind: Secret, name: v}]", "v.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: v, namespace: default}\nstringData: {values.yaml: 'ENC[AES256_GCM,data:YQ==,iv:YQ==,tag:YQ==,type:str]'}\nsops: {mac: x, version: 3.9.0}\n"),
		release("ConfigMap of another namespace", "valuesFrom: [{kind: ConfigMap, name: v}]", "v.yaml", with(configMap("v", "values.yaml: 'x: true'"), "default", "other")),
		release("at a path", "valuesFrom: [{kind: ConfigMap, name: v, valuesKey: k, targetPath: x}]", "v.yaml", configMap("v", "k: 'true'")),
		release("inline against ConfigMap", "values: {x: true}\nvaluesFrom: [{kind: ConfigMap, name: v}]", "v.yaml", configMap("v", "values.yaml: 'x: false'")),
		release("generated ConfigMap", "valuesFrom: [{kind: ConfigMap, name: v}]", "v/kustomization.yaml", "namespace: default\ngeneratorOptions: {disableNameSuffixHash: true}\nconfigMapGenerator: [{name: v, files: [values.yaml=x.yaml]}]\n", "v/x.yaml", "x: true\n"),
		release("ConfigMap with binary data", "valuesFrom: [{kind: ConfigMap, name: v}]", "v.yaml", strings.Replace(configMap("v", "values.yaml: eDogdHJ1ZQo="), "\ndata:", "\nbinaryData:", 1)),
		chartSpec("files", "valuesFiles: [./c/values.yaml, ./c/v.yaml]", "c/v.yaml", "x: true\n"),
		chartSpec("files that may be missing", "valuesFiles: [./c/none.yaml, ./c/v.yaml], ignoreMissingValuesFiles: true", "c/v.yaml", "x: true\n"),
		kust("inline", ", valuesInline: {x: true}"),
		kust("file", ", valuesFile: v.yaml", "k/v.yaml", "x: true\n"),
		kust("further files", ", additionalValuesFiles: [v.yaml]", "k/v.yaml", "x: true\n"),
		kust("inline against file", ", valuesFile: v.yaml, valuesInline: {x: true}, valuesMerge: override", "k/v.yaml", "x: false\n"),
		kust("file against inline", ", valuesFile: v.yaml, valuesInline: {x: false}, valuesMerge: merge", "k/v.yaml", "x: true\n"),
		kust("file that is not there", ", valuesFile: v.yaml"),
		set("object", "", ", helm: {valuesObject: {x: '{{ eq .env \"prod\" }}'}}"),
		set("parameter of an element", ", open: 'true'", ", helm: {parameters: [{name: x, value: '{{.open}}'}]}"),
		set("text of an element", ", open: true", ", helm: {values: 'x: {{.open}}'}"),
	}
}

// regroupedDisguises are the twins of an object that a change moves to another unit, or whose
// unit gets another name, with something that hides the object there.
func regroupedDisguises(t *testing.T, h string) []twin {
	with := func(text, old, new string) string { return edited(t, text, old, new) }
	remove := "patches: [{target: {name: %}, patch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: %}\"}]\n"
	removing := func(name string) string { return strings.ReplaceAll(remove, "%", name) }
	item := "- " + strings.TrimPrefix(indented(h, 2), "  ")
	config := []string{".preadmit/config.yaml", ownRepository, "apps/x.yaml", fineObject}
	tree := func(more ...string) func(string, ...string) twin { return changing(files(append(config, more...)...)) }
	plain := tree("apps/h.yaml", h)
	built := tree("apps/h.yaml", h, "apps/kustomization.yaml", "resources: [h.yaml, x.yaml]\n")
	argo := tree("app.yaml", application, "apps/h.yaml", h)
	flux := tree("flux/source.yaml", gitSource, "flux/k.yaml", fluxKustomization, "apps/h.yaml", h)
	other := func(more string) string {
		return with(with(fluxKustomization, "name: k,", "name: o,"), "./apps", "./other") + indented(more, 2)
	}
	application2 := func(source string) string {
		return with(with(application, "name: a,", "name: b,"), "path: apps,", "path: other, "+source)
	}
	later := func(tw twin) twin { tw.changeOnly = true; return tw }
	return []twin{
		built("moved: with a prefix, and deleted by that name", "apps/kustomization.yaml", "resources: [h.yaml, x.yaml]\n", "over/kustomization.yaml", "resources: [../apps]\nnamePrefix: a-\n"+removing("a-hidden")),
		built("moved: to a hidden directory that is built", "apps/h.yaml", "", "apps/kustomization.yaml", "resources: [../.h/h.yaml, x.yaml]\n", ".h/h.yaml", h),
		built("moved: to a hidden base", "apps/h.yaml", "", "apps/kustomization.yaml", "resources: [.h, x.yaml]\n", "apps/.h/h.yaml", h, "apps/.h/kustomization.yaml", "resources: [h.yaml]\n"),
		built("moved: to a base that is a component", "apps/h.yaml", "", "apps/kustomization.yaml", "components: [../h]\nresources: [x.yaml]\n", "h/h.yaml", h, "h/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [h.yaml]\n"),
		built("moved: to an unused component", "apps/h.yaml", "", "apps/kustomization.yaml", "resources: [x.yaml]\n", "h/h.yaml", h, "h/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [h.yaml]\n"),
		built("moved: to a chart's text file", "apps/h.yaml", "", "apps/kustomization.yaml", "resources: [x.yaml]\n", "c/Chart.yaml", chartFile, "c/templates/h.yaml", "{{ .Files.Get \"f.txt\" }}", "c/f.txt", h),
		built("moved: to the patch of another object", "apps/h.yaml", "", "apps/kustomization.yaml", "resources: [x.yaml]\npatches: [{path: h2.yaml, target: {kind: ConfigMap}, options: {allowKindChange: true, allowNameChange: true}}]\n", "apps/h2.yaml", h),
		built("moved: to a transformer's output", "apps/h.yaml", "", "apps/kustomization.yaml", "resources: [x.yaml]\ntransformers: [t.yaml]\n", "apps/t.yaml", "apiVersion: e.com/v1\nkind: T\nmetadata: {name: t, annotations: {config.kubernetes.io/function: 'container: {image: x}'}}\nspec:\n"+indented(h, 2)),
		built("moved: to a generator that is a function", "apps/h.yaml", "", "apps/kustomization.yaml", "resources: [x.yaml]\ngenerators: [t.yaml]\n", "apps/t.yaml", "apiVersion: e.com/v1\nkind: T\nmetadata: {name: t, annotations: {config.kubernetes.io/function: 'exec: {path: ./x}'}}\n"),
		later(plain("moved: to a typed list of another kind", "apps/h.yaml", "", "apps/l.yaml", "apiVersion: v1\nkind: ConfigMapList\nitems:\n"+item)),
		plain("moved: to a list in JSON", "apps/h.yaml", "", "apps/l.json", `{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "hidden"}, "spec": {"hostNetwork": true, "containers": [{"name": "a", "image": "a"}]}}]}`),
		plain("moved: behind a template's name", "apps/h.yaml", "", "apps/h2.yaml", "{{- if true }}\n"+h+"{{- end }}\n"),
		argo("moved: to an Application that excludes it", "apps/h.yaml", "", "b.yaml", application2("directory: {exclude: '*.yaml'},"), "other/h.yaml", h),
		argo("moved: to an Application without recursion", "apps/h.yaml", "", "b.yaml", application2(""), "other/x.yaml", fineObject, "other/sub/h.yaml", h),
		argo("moved: to an Application of another revision", "apps/h.yaml", "", "b.yaml", with(application2(""), "HEAD", "v1"), "other/h.yaml", h),
		argo("moved: and the Application renamed", "app.yaml", with(with(application, "name: a,", "name: z,"), "path: apps,", "path: apps, directory: {exclude: h.yaml},")),
		argo("moved: and the Application in a list", "app.yaml", "apiVersion: v1\nkind: List\nitems:\n- "+strings.TrimPrefix(indented(with(application, "path: apps,", "path: apps, directory: {include: x.yaml},"), 2), "  ")),
		argo("moved: and the Application in a ConfigMap", "app.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  app: |\n"+indented(application, 4)),
		argo("moved: and the Application of another version", "app.yaml", with(application, "v1alpha1", "v1beta9")),
		argo("moved: and the Application in a ManifestWork", "app.yaml", "apiVersion: work.open-cluster-management.io/v1\nkind: ManifestWork\nmetadata: {name: w, namespace: spoke}\nspec:\n  workload:\n    manifests:\n    - "+strings.TrimPrefix(indented(application, 6), "      ")),
		argo("moved: to a Jsonnet file", "apps/h.yaml", "", "apps/h.jsonnet", `local p(h) = {apiVersion: "v1", kind: "Pod", metadata: {name: "hidden"}, spec: {hostNetwork: h, containers: [{name: "a", image: "a"}]}}; p(std.extVar("none"))`),
		flux("moved: to a suspended Kustomization", "apps/h.yaml", "", "flux/o.yaml", other("suspend: true"), "other/h.yaml", h),
		flux("moved: to a Kustomization of another source", "apps/h.yaml", "", "flux/o.yaml", with(other(""), "name: r}", "name: none}"), "other/h.yaml", h),
		flux("moved: to a Kustomization that deletes it", "apps/h.yaml", "", "flux/o.yaml", other(removing("hidden")), "other/h.yaml", h),
		flux("moved: to a Kustomization with ignored files", "apps/h.yaml", "", "flux/o.yaml", other(""), "other/h.yaml", h, "other/.sourceignore", "h.yaml\n"),
		flux("moved: to a Kustomization that is not reconciled", "apps/h.yaml", "", "flux/o.yaml", with(other(""), "namespace: flux-system}", "namespace: flux-system, annotations: {kustomize.toolkit.fluxcd.io/reconcile: disabled}}"), "other/h.yaml", h),
		flux("moved: and the Kustomization renamed", "flux/k.yaml", with(with(fluxKustomization, "name: k,", "name: z,"), "./apps", "./other"), "other/x.yaml", fineObject),
		flux("moved: and the Kustomization in a chart that is off", "flux/k.yaml", "", "c/Chart.yaml", chartFile, "c/values.yaml", "on: false\n", "c/templates/k.yaml", "{{ if .Values.on }}\n"+fluxKustomization+"{{ end }}\n"),
		flux("moved: to another namespace, where a variable hides it", "flux/k.yaml", fluxKustomization+"  targetNamespace: other\n  postBuild: {substitute: {A: b}, substituteFrom: [{kind: ConfigMap, name: none, optional: true}]}\n", "apps/h.yaml", with(h, "hostNetwork: true", "hostNetwork: ${HOST:=false}")),
	}
}

// heldChangeDisguises are the twins of an object that another object holds already before
// the change.
func heldChangeDisguises(t *testing.T, h string) []twin {
	with := func(text, old, new string) string { return edited(t, text, old, new) }
	item := func(n int) string {
		pad := strings.Repeat(" ", n)
		return pad + "- " + strings.TrimPrefix(indented(h, n+2), pad+"  ")
	}
	work := "apiVersion: work.open-cluster-management.io/v1\nkind: ManifestWork\nmetadata: {name: w, namespace: spoke}\nspec:\n  workload:\n    manifests:\n" + item(4)
	object := "apiVersion: kubernetes.crossplane.io/v1alpha2\nkind: Object\nmetadata: {name: w}\nspec:\n  forProvider:\n    manifest:\n" + indented(h, 6)
	template := "apiVersion: template.openshift.io/v1\nkind: Template\nmetadata: {name: w}\nparameters:\n- {name: HOST, value: 'true'}\nobjects:\n" + with(item(0), "hostNetwork: true", "hostNetwork: ${{HOST}}")
	syncSet := "apiVersion: hive.openshift.io/v1\nkind: SyncSet\nmetadata: {name: w, namespace: spoke}\nspec:\n  clusterDeploymentRefs: [{name: a}]\n  resources:\n" + item(2)
	tree := func(held string) func(string, ...string) twin {
		return changing(files("fine.yaml", fineObject, "apps/w.yaml", held))
	}
	built := changing(files("apps/w.yaml", work, "apps/x.yaml", fineObject, "apps/kustomization.yaml", "resources: [w.yaml, x.yaml]\n"))
	later := func(tw twin) twin { tw.changeOnly = true; return tw }
	const at = "apps/w.yaml"
	return []twin{
		later(tree(work)("held before: of another version", at, with(work, "/v1\n", "/v9\n"))),
		later(tree(work)("held before: of another field", at, with(work, "manifests:", "manifest:"))),
		later(tree(work)("held before: as a text", at, with(work, item(4), "    - |\n"+indented(h, 6)))),
		tree(work)("held before: twice, the other last", at, work+"    manifests: []\n"),
		tree(work)("held before: in a replica set without clusters", at, "apiVersion: work.open-cluster-management.io/v1alpha1\nkind: ManifestWorkReplicaSet\nmetadata: {name: w, namespace: spoke}\nspec:\n  placementRefs: []\n  manifestWorkTemplate:\n    workload:\n      manifests:\n"+item(6)),
		tree(work)("held before: local config", at, with(work, "namespace: spoke}", "namespace: spoke, annotations: {config.kubernetes.io/local-config: 'true'}}"), "apps/kustomization.yaml", "resources: [w.yaml]\n"),
		tree(work)("held before: local config of the object", at, with(work, "  name: hidden\n", "  name: hidden\n        annotations: {config.kubernetes.io/local-config: 'true'}\n"), "apps/kustomization.yaml", "resources: [w.yaml]\n"),
		built("held before: deleted by a patch", "apps/kustomization.yaml", "resources: [w.yaml, x.yaml]\npatches: [{target: {name: w}, patch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: w}\"}]\n"),
		later(built("held before: emptied by a patch", "apps/kustomization.yaml", "resources: [w.yaml, x.yaml]\npatches: [{target: {name: w}, patch: '[{\"op\": \"replace\", \"path\": \"/spec/workload/manifests\", \"value\": []}]'}]\n")),
		built("held before: as data", "apps/kustomization.yaml", "resources: [x.yaml]\nconfigMapGenerator: [{name: c, files: [w.yaml]}]\n"),
		later(tree(object)("held before: only observed", at, with(object, "spec:\n  forProvider", "spec:\n  managementPolicies: [Observe]\n  forProvider"))),
		tree(object)("held before: with a patch from elsewhere", at, object+"  references: [{patchesFrom: {apiVersion: v1, kind: ConfigMap, name: c, namespace: d, fieldPath: data.x}, toFieldPath: spec.hostNetwork}]\n"),
		tree(object)("held before: under another provider's group", at, with(object, "kubernetes.crossplane.io", "kubernetes.m.crossplane.io")),
		tree(template)("held before: by the value of another file", at, with(template, "value: 'true'", "required: true")),
		tree(template)("held before: by a generated value", at, with(template, "value: 'true'", "generate: expression, from: '[a-z]{4}'")),
		tree(template)("held before: a kind by a parameter", at, with(with(template, "value: 'true'", "value: Pod"), "kind: Pod", "kind: ${HOST}")),
		tree(syncSet)("held before: patched into another", at, with(syncSet, "  resources:\n"+item(2), "  patches:\n  - {apiVersion: v1, kind: Pod, name: x, namespace: d, patchType: merge, patch: '{\"spec\": {\"hostNetwork\": true}}'}\n")),
		tree(syncSet)("held before: in an encoded list", at, with(syncSet, item(2), "  - apiVersion: v1\n    kind: List\n    items:\n"+item(4))),
	}
}

func TestNoChangedTwinIsGreenAndSilent(t *testing.T) {
	t.Parallel()
	object := deniedObjects["pod"]
	for _, list := range [][]twin{valuedDisguises(t, object), regroupedDisguises(t, object), heldChangeDisguises(t, object)} {
		for i, tw := range list {
			t.Run(tw.name, func(t *testing.T) {
				t.Parallel()
				tw.compare(t, exitDenied)
				if i%4 == 0 && !testing.Short() {
					tw.repeats(t)
				}
			})
		}
	}
}

// repeats checks that the report about the change is the same if it is read from the cache,
// also from that of a run before the change, and if parts of the run are joined.
func (tw *twin) repeats(t *testing.T) {
	t.Helper()
	dir, out := tw.repository(t, exitDenied), t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		file := filepath.Join(out, name)
		var said bytes.Buffer
		code := run(context.Background(), append(args, "-o", "json="+file), strings.NewReader(""), &said, &said)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%s: exit %d: %v\n%s", name, code, err, said.String())
		}
		return string(data)
	}
	check := []string{"check", "--pack", "pod-security-baseline", "--base", "HEAD", dir}
	whole := run("whole.json", append(check, "--no-cache")...)
	same := func(what, got string) {
		if diff := cmp.Diff(whole, got); diff != "" {
			t.Errorf("%s: another report: %s", what, diff)
		}
	}
	for part := range 2 {
		run(fmt.Sprintf("%d.json", part+1), append(check, "--no-cache", "--shard", fmt.Sprintf("%d/2", part+1))...)
	}
	same("in parts", run("joined.json", "convert", filepath.Join(out, "1.json"), filepath.Join(out, "2.json")))
	cached := append(check, "--cache", filepath.Join(out, "cache"))
	replaceFiles(t, dir, tw.head, tw.plain)
	run("before.json", cached...)
	run("before.json", "check", "--pack", "pod-security-baseline", dir, "--cache", filepath.Join(out, "cache"))
	replaceFiles(t, dir, tw.plain, tw.head)
	for _, what := range []string{"with the cache of the run before", "with its own cache"} {
		same(what, run("cached.json", cached...))
	}
}

// replaceFiles removes files and writes others.
func replaceFiles(t *testing.T, dir string, old, now map[string]string) {
	t.Helper()
	for name := range old {
		rendertest.OK(t, os.Remove(filepath.Join(dir, name)))
	}
	writeFiles(t, dir, now)
}

// TestNoTwinIsSilentInAnEditor holds that an editor shows what an unsaved document renders
// in another file.
func TestNoTwinIsSilentInAnEditor(t *testing.T) {
	t.Parallel()
	const template = "c/templates/h.yaml"
	for i, tw := range valuedDisguises(t, deniedObjects["pod"]) {
		if tw.head[template] == "" || i%3 != 0 || testing.Short() {
			continue
		}
		t.Run(tw.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFiles(t, dir, tw.head)
			if code, _ := checkTree(dir); code != exitDenied {
				t.Skip("undecided, not denied")
			}
			unsaved := make(map[string]string)
			for name, text := range tw.head {
				if name == template || text == tw.plain[name] {
					continue
				}
				if unsaved[name] = text; tw.plain[name] == "" {
					continue // files that are new are there, as other files name them
				}
				writeFiles(t, dir, map[string]string{name: tw.plain[name]})
			}
			if code, said := checkTree(dir); code != exitOK {
				t.Skipf("before: exit %d\n%s", code, said)
			}
			e := newEditor(t, dir, "--no-cache", "--pack", "pod-security-baseline")
			for _, name := range slices.Sorted(maps.Keys(unsaved)) {
				e.open(name, unsaved[name])
			}
			for !strings.Contains(fmt.Sprint(e.shown), "baseline/hostNamespaces") {
				e.next()
			}
			e.quit()
		})
	}
}

// TestWeakenedPoliciesStillDeny holds that an object which a policy of the base denies is
// denied, whatever the same change makes of the policy.
func TestWeakenedPoliciesStillDeny(t *testing.T) {
	t.Parallel()
	const (
		admission = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [serviceaccounts]}]}
  variables: [{name: bad, expression: "object.metadata.name == 'hidden'"}]
  validations: [{expression: "!variables.bad"}]
`
		binding = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [Deny]}
`
		kyverno = `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ServiceAccount]}}]}
    validate: {failureAction: Enforce, message: m, pattern: {metadata: {name: "!hidden"}}}
`
		cel = `apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: p}
spec:
  validationActions: [Deny]
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [serviceaccounts]}]}
  validations: [{expression: "object.metadata.name != 'hidden'"}]
`
		account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: hidden, namespace: prod}\n"
	)
	gatekeeper := inventoryPolicy(`input.review.object.metadata.name != "hidden"`, "Service")
	change := func(text string, pairs ...string) string {
		for i := 0; i < len(pairs); i += 2 {
			text = edited(t, text, pairs[i], pairs[i+1])
		}
		return text
	}
	for name, c := range map[string]struct {
		base map[string]string
		head []string // files of the change
	}{
		"admission: audited":                {files("p.yaml", admission, "b.yaml", binding), []string{"b.yaml", change(binding, "[Deny]", "[Audit]")}},
		"admission: unbound":                {files("p.yaml", admission, "b.yaml", binding), []string{"b.yaml", ""}},
		"admission: bound to another":       {files("p.yaml", admission, "b.yaml", binding), []string{"b.yaml", change(binding, "policyName: p", "policyName: q")}},
		"admission: bound elsewhere":        {files("p.yaml", admission, "b.yaml", binding), []string{"b.yaml", change(binding, "policyName: p,", "policyName: p, matchResources: {namespaceSelector: {matchLabels: {a: b}}},")}},
		"admission: renamed, audited":       {files("p.yaml", admission, "b.yaml", binding), []string{"p.yaml", "", "q.yaml", change(admission, "name: p", "name: q"), "b.yaml", change(binding, "policyName: p", "policyName: q", "[Deny]", "[Audit]")}},
		"admission: other resources":        {files("p.yaml", admission, "b.yaml", binding), []string{"p.yaml", change(admission, "serviceaccounts", "secrets")}},
		"admission: excluded":               {files("p.yaml", admission, "b.yaml", binding), []string{"p.yaml", change(admission, "resources: [serviceaccounts]}]", "resources: [serviceaccounts]}], excludeResourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]")}},
		"admission: condition":              {files("p.yaml", admission, "b.yaml", binding), []string{"p.yaml", change(admission, "  variables:", "  matchConditions: [{name: a, expression: 'false'}]\n  variables:")}},
		"admission: variable":               {files("p.yaml", admission, "b.yaml", binding), []string{"p.yaml", change(admission, "== 'hidden'", "== 'hiddem'")}},
		"admission: does not compile":       {files("p.yaml", admission, "b.yaml", binding), []string{"p.yaml", change(admission, "!variables.bad", "!variables.nothing")}},
		"admission: in a hidden directory":  {files("p.yaml", admission, "b.yaml", binding), []string{"p.yaml", "", ".p/p.yaml", admission}},
		"admission: local config":           {files("p/p.yaml", admission, "p/b.yaml", binding, "p/kustomization.yaml", "resources: [p.yaml, b.yaml]\n"), []string{"p/p.yaml", change(admission, "name: p}", "name: p, annotations: {config.kubernetes.io/local-config: 'true'}}")}},
		"admission: patched":                {files("p/p.yaml", admission, "p/b.yaml", binding, "p/kustomization.yaml", "resources: [p.yaml, b.yaml]\n"), []string{"p/kustomization.yaml", "resources: [p.yaml, b.yaml]\npatches: [{target: {kind: ValidatingAdmissionPolicyBinding}, patch: '[{\"op\": \"replace\", \"path\": \"/spec/validationActions\", \"value\": [\"Warn\"]}]'}]\n"}},
		"admission: held by another object": {files("p.yaml", admission, "b.yaml", binding), []string{"p.yaml", "apiVersion: kubernetes.crossplane.io/v1alpha2\nkind: Object\nmetadata: {name: o}\nspec:\n  forProvider:\n    manifest:\n" + indented(admission, 6)}},
		"admission: in a chart for an API":  {files("p.yaml", admission, "b.yaml", binding), []string{"p.yaml", "", "c/Chart.yaml", chartFile, "c/templates/p.yaml", "{{ if .Capabilities.APIVersions.Has \"e.com/v9\" }}\n" + admission + "{{ end }}\n"}},
		"kyverno: audited":                  {files("p.yaml", kyverno), []string{"p.yaml", change(kyverno, "Enforce", "Audit")}},
		"kyverno: overridden":               {files("p.yaml", kyverno), []string{"p.yaml", change(kyverno, "failureAction: Enforce", "failureAction: Enforce, failureActionOverrides: [{action: Audit, namespaces: ['*']}]")}},
		"kyverno: excluded":                 {files("p.yaml", kyverno), []string{"p.yaml", change(kyverno, "    validate", "    exclude: {any: [{resources: {namespaces: [prod]}}]}\n    validate")}},
		"kyverno: precondition":             {files("p.yaml", kyverno), []string{"p.yaml", change(kyverno, "    validate", "    preconditions: {all: [{key: a, operator: Equals, value: b}]}\n    validate")}},
		"kyverno: not admission":            {files("p.yaml", kyverno), []string{"p.yaml", change(kyverno, "spec:\n", "spec:\n  admission: false\n")}},
		"kyverno: exception":                {files("p.yaml", kyverno), []string{"x.yaml", "apiVersion: kyverno.io/v2\nkind: PolicyException\nmetadata: {name: x, namespace: prod}\nspec: {exceptions: [{policyName: p, ruleNames: [r]}], match: {any: [{resources: {kinds: [ServiceAccount]}}]}}\n"}},
		"kyverno: a Policy of a namespace":  {files("p.yaml", kyverno), []string{"p.yaml", change(kyverno, "kind: ClusterPolicy", "kind: Policy", "name: p}", "name: p, namespace: other}")}},
		"ValidatingPolicy: audited":         {files("p.yaml", cel), []string{"p.yaml", change(cel, "[Deny]", "[Audit]")}},
		"ValidatingPolicy: not admission":   {files("p.yaml", cel), []string{"p.yaml", change(cel, "spec:\n", "spec:\n  evaluation: {admission: {enabled: false}}\n")}},
		"ValidatingPolicy: exception":       {files("p.yaml", cel), []string{"x.yaml", "apiVersion: policies.kyverno.io/v1\nkind: PolicyException\nmetadata: {name: x, namespace: prod}\nspec: {policyRefs: [{name: p, kind: ValidatingPolicy}]}\n"}},
		"Gatekeeper: dry run":               {files("p.yaml", gatekeeper), []string{"p.yaml", change(gatekeeper, "spec: {match: {kinds", "spec: {enforcementAction: dryrun, match: {kinds")}},
		"Gatekeeper: other namespaces":      {files("p.yaml", gatekeeper), []string{"p.yaml", change(gatekeeper, "match: {kinds", "match: {excludedNamespaces: ['*'], kinds")}},
		"Gatekeeper: process excluded":      {files("p.yaml", gatekeeper), []string{"p.yaml", change(gatekeeper, "spec: {sync:", "spec: {match: [{excludedNamespaces: [prod], processes: ['*']}], sync:")}},
		"Gatekeeper: another template":      {files("p.yaml", gatekeeper), []string{"p.yaml", change(gatekeeper, `!= "hidden"`, `!= ""`)}},
		"Gatekeeper: label of a namespace":  {files("p.yaml", gatekeeper), []string{"ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: prod, labels: {admission.gatekeeper.sh/ignore: 'true'}}\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := maps.Clone(c.base)
			base["fine.yaml"] = fineObject
			tw := changing(base)(name, append(c.head, "apps/h.yaml", account)...)
			code, said := checkTree(tw.repository(t, exitOK), "--base", "HEAD")
			if code != exitDenied || !strings.Contains(said, "ServiceAccount prod/hidden") {
				t.Errorf("exit %d\n%s", code, said)
			}
		})
	}
}
