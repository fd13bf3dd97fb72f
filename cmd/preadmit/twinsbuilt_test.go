package main

import (
	"strings"
	"testing"
)

// builtDisguises are the twins of an object that Argo CD or Flux builds: from several
// sources, with substitution, or with settings of the build.
func builtDisguises(t *testing.T, h string) []twin {
	config := []string{".preadmit/config.yaml", ownRepository, "apps/x.yaml", fineObject}
	tree := func(more ...string) func(string, ...string) twin {
		return changing(files(append(more, config...)...))
	}
	with := func(text, old, new string) string { return edited(t, text, old, new) }
	held := with(h, "hostNetwork: true", "hostNetwork: ${HOST:=false}")

	flux := tree("flux/source.yaml", gitSource, "flux/k.yaml", fluxKustomization, "apps/h.yaml", h)
	spec := func(more string) string { return fluxKustomization + indented(more, 2) }
	const sources = `  sources:
  - {repoURL: https://github.com/example/repo, path: apps, targetRevision: HEAD}
  - {repoURL: https://github.com/example/repo, path: other, targetRevision: HEAD}
`
	one := "  source: {repoURL: https://github.com/example/repo, path: apps, targetRevision: HEAD}\n"
	several := with(application, one, sources)
	argo := tree("app.yaml", several, "apps/h.yaml", h, "other/y.yaml", with(fineObject, "fine", "finer"))
	source := func(old, new string) string { return with(several, old, new) }
	single := tree("app.yaml", application, "apps/h.yaml", h)
	built := tree("app.yaml", application, "apps/h.yaml", h, "apps/kustomization.yaml", "resources: [h.yaml, x.yaml]\n")
	list := "apps/kustomization.yaml"
	gated := func(condition string) string { return "{{ if " + condition + " }}\n" + h + "{{ end }}\n" }
	release := tree("flux/source.yaml", gitSource, "hr.yaml", helmRelease, "c/Chart.yaml", chartFile, "c/values.yaml", "{}\n", "c/templates/h.yaml", h)
	configMap := func(data string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: v, namespace: default}\ndata: {" + data + "}\n"
	}
	set := tree("set.yaml", appSet, "apps/h.yaml", h, "other/x.yaml", fineObject)
	const jsonnet = `{apiVersion: "v1", kind: "Pod", metadata: {name: "hidden"}, spec: {hostNetwork: true, containers: [{name: "a", image: "a"}]}}`
	return []twin{
		flux("flux: optional variables elsewhere", "flux/k.yaml", spec("postBuild: {substitute: {A: b}, substituteFrom: [{kind: ConfigMap, name: none, optional: true}]}"), "apps/h.yaml", held),
		flux("flux: only optional variables elsewhere", "flux/k.yaml", spec("postBuild: {substituteFrom: [{kind: Secret, name: none, optional: true}]}"), "apps/h.yaml", held),
		flux("flux: optional variables that replace others", "flux/k.yaml", spec("postBuild: {substituteFrom: [{kind: ConfigMap, name: some}, {kind: Secret, name: none, optional: true}]}"), "apps/h.yaml", held, "flux/some.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: some, namespace: flux-system}\ndata: {HOST: \"false\"}\n"),
		flux("flux: variable that is set", "flux/k.yaml", spec("postBuild: {substitute: {HOST: \"true\"}}"), "apps/h.yaml", held),
		flux("flux: default of a variable", "flux/k.yaml", spec("postBuild: {substitute: {A: b}}"), "apps/h.yaml", with(held, ":=false", ":-true")),
		flux("flux: annotation of all objects, not reconciled", "flux/k.yaml", spec("commonMetadata: {annotations: {kustomize.toolkit.fluxcd.io/reconcile: disabled}}")),
		flux("flux: annotation of all objects, not applied", "flux/k.yaml", spec("commonMetadata: {annotations: {kustomize.toolkit.fluxcd.io/ssa: Ignore}}")),
		flux("flux: patch that stops reconciling", "flux/k.yaml", spec(`patches: [{target: {name: hidden}, patch: '[{"op": "add", "path": "/metadata/annotations", "value": {"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}}]'}]`)),
		flux("flux: patch that makes it local", "flux/k.yaml", spec(`patches: [{target: {name: hidden}, patch: '[{"op": "add", "path": "/metadata/annotations", "value": {"config.kubernetes.io/local-config": "true"}}]'}]`)),
		flux("flux: variable that stops reconciling", "flux/k.yaml", spec("postBuild: {substitute: {A: disabled}}"), "apps/h.yaml", annotated(h, "kustomize.toolkit.fluxcd.io/reconcile: '${A}'")),
		flux("flux: component that deletes", "flux/k.yaml", spec("components: [../drop]"), "drop/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: [{target: {name: hidden}, patch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: hidden}\"}]\n"),
		flux("flux: component that is not there", "flux/k.yaml", spec("components: [../h]\nignoreMissingComponents: true"), "apps/h.yaml", "", "hh/h.yaml", h),
		flux("flux: in a Git LFS pointer", "apps/h.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"),
		flux("flux: kustomization of two names", "apps/kustomization.yaml", "resources: [x.yaml]\n", "apps/kustomization.yml", "resources: [h.yaml]\n"),
		flux("flux: Kustomization twice", "flux/k2.yaml", with(with(fluxKustomization, "./apps", "./other"), "interval: 1m", "interval: 2m"), "other/x.yaml", fineObject),
		flux("flux: path of a file", "flux/k.yaml", with(fluxKustomization, "./apps", "./apps/x.yaml")),
		release("release: values of a key that is not there", "hr.yaml", helmRelease+"  valuesFrom: [{kind: ConfigMap, name: v, valuesKey: k, optional: true}]\n", "v.yaml", configMap("other: 'x: true'"), "c/templates/h.yaml", gated(".Values.x")),
		release("release: key that is not there for a path", "hr.yaml", helmRelease+"  valuesFrom: [{kind: Secret, name: v, valuesKey: k, targetPath: x, optional: true}]\n", "v.yaml", with(configMap(""), "ConfigMap", "Secret"), "c/templates/h.yaml", gated(".Values.x")),
		release("release: values that are set", "hr.yaml", helmRelease+"  valuesFrom: [{kind: ConfigMap, name: v, targetPath: x, valuesKey: k}]\n", "v.yaml", configMap("k: 'true'"), "c/templates/h.yaml", gated(".Values.x")),
		deletion(release("release: values files that are not there", "hr.yaml", with(helmRelease, "chart: c,", "chart: c, valuesFiles: [./c/none.yaml], ignoreMissingValuesFiles: true,"), "c/templates/h.yaml", gated(".Values.x"))),
		release("release: hook after installation", "c/templates/h.yaml", annotated(h, "helm.sh/hook: post-install")),
		release("release: hooks that are off", "hr.yaml", helmRelease+"  install: {disableHooks: true}\n  upgrade: {disableHooks: true}\n", "c/templates/h.yaml", annotated(h, "helm.sh/hook: post-install")),
		release("release: moved to a hook that is off", "hr.yaml", helmRelease+"  install: {disableHooks: true}\n", "c/templates/h.yaml", "", "c/templates/other.yaml", annotated(h, "helm.sh/hook: post-install")),
		release("release: moved to a test", "c/templates/h.yaml", "", "c/templates/other.yaml", annotated(h, "helm.sh/hook: test")),
		release("release: moved to a hook of no event", "c/templates/h.yaml", "", "c/templates/other.yaml", annotated(h, "helm.sh/hook: never")),
		release("release: post renderer that deletes", "hr.yaml", helmRelease+indented(`postRenderers: [{kustomize: {patches: [{target: {name: hidden}, patch: "$patch: delete\napiVersion: v1\nkind: X\nmetadata: {name: hidden}"}]}}]`, 2)),
		release("release: moved below a post renderer that deletes", "hr.yaml", helmRelease+indented(`postRenderers: [{kustomize: {patches: [{target: {name: hidden}, patch: "$patch: delete\napiVersion: v1\nkind: X\nmetadata: {name: hidden}"}]}}]`, 2), "c/templates/h.yaml", "", "c/templates/other.yaml", h),
		single("argo: moved to a test of a chart", "apps/h.yaml", "", "apps/Chart.yaml", chartFile, "apps/templates/h.yaml", annotated(h, "helm.sh/hook: test")),
		release("release: chart of another source", "hr.yaml", with(helmRelease, "name: r,", "name: none,")),
		release("release: post renderer that makes it another kind", "hr.yaml", helmRelease+indented(`postRenderers: [{kustomize: {patches: [{target: {name: hidden}, patch: '[{"op": "replace", "path": "/kind", "value": "Nothing"}]'}]}}]`, 2)),
		argo("sources: of another path", "app.yaml", source("path: apps", "path: other")),
		argo("sources: only a reference", "app.yaml", source("path: apps, targetRevision: HEAD", "targetRevision: HEAD, ref: values")),
		argo("sources: source beside sources", "app.yaml", source("  sources:\n  - {repoURL: https://github.com/example/repo, path: apps, targetRevision: HEAD}\n", one+"  sources:\n")),
		argo("sources: of another revision", "app.yaml", source("path: apps, targetRevision: HEAD", "path: apps, targetRevision: v0")),
		argo("sources: of a chart elsewhere", "app.yaml", source("path: apps,", "chart: apps,")),
		argo("sources: values of a reference elsewhere", "app.yaml", source("path: apps, targetRevision: HEAD}", "path: c, targetRevision: HEAD, helm: {valueFiles: [$v/v.yaml], ignoreMissingValueFiles: true}}\n  - {repoURL: https://github.com/example/values, targetRevision: HEAD, ref: v}"), "apps/h.yaml", "", "c/Chart.yaml", chartFile, "c/templates/h.yaml", gated(".Values.x")),
		argo("sources: empty path", "app.yaml", source("path: apps,", "path: '',")),
		single("argo: settings beside it", "apps/.argocd-source.yaml", "directory: {exclude: h.yaml}\n"),
		single("argo: settings of this Application", "apps/.argocd-source-a.yaml", "directory: {include: x.yaml}\n"),
		built("argo: patch in the settings beside it", "apps/.argocd-source.yaml", "kustomize: {patches: [{target: {name: hidden}, patch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: hidden}\"}]}\n"),
		single("argo: Jsonnet", "apps/h.yaml", "", "apps/h.jsonnet", "local p = import 'p.libsonnet'; [p]\n", "apps/p.libsonnet", jsonnet+"\n"),
		single("argo: commit in Jsonnet", "apps/h.yaml", "", "apps/h.jsonnet", `if std.startsWith(std.extVar("r"), "a1") then `+jsonnet+" else []\n", "app.yaml", with(application, "path: apps,", "path: apps, directory: {jsonnet: {extVars: [{name: r, value: $ARGOCD_APP_REVISION}]}},")),
		single("argo: excluded by a list of globs", "app.yaml", with(application, "path: apps,", "path: apps, directory: {recurse: true, exclude: '{*/none,**/h*}'},")),
		built("kustomize: annotation of all objects", list, "resources: [h.yaml, x.yaml]\ncommonAnnotations: {config.kubernetes.io/local-config: 'true'}\n"),
		built("kustomize: patch that makes it local", list, "resources: [h.yaml, x.yaml]\npatches: [{target: {name: hidden}, patch: '[{\"op\": \"add\", \"path\": \"/metadata/annotations\", \"value\": {\"config.kubernetes.io/local-config\": \"true\"}}]'}]\n"),
		built("kustomize: replacement of the kind", list, "resources: [h.yaml, x.yaml]\nreplacements: [{source: {kind: ConfigMap, name: fine, fieldPath: metadata.name}, targets: [{select: {name: hidden}, fieldPaths: [kind]}]}]\n"),
		built("kustomize: replacement that makes it local", list, "resources: [h.yaml, x.yaml]\nreplacements: [{source: {kind: ConfigMap, name: fine, fieldPath: data.t}, targets: [{select: {name: hidden}, fieldPaths: ['metadata.annotations.[config.kubernetes.io/local-config]'], options: {create: true}}]}]\n", "apps/x.yaml", fineObject+"data: {t: 'true'}\n"),
		built("kustomize: kind changed by a patch", list, "resources: [h.yaml, x.yaml]\npatches: [{target: {name: hidden}, options: {allowKindChange: true}, patch: \"apiVersion: v1\\nkind: Nothing\\nmetadata: {name: hidden}\"}]\n"),
		built("kustomize: component that deletes", list, "resources: [h.yaml, x.yaml]\ncomponents: [../drop]\n", "drop/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: [{target: {name: hidden}, patch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: hidden}\"}]\n"),
		built("kustomize: transformer that deletes", list, "resources: [h.yaml, x.yaml]\ntransformers: [t.yaml]\n", "apps/t.yaml", "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: t}\ntarget: {name: hidden}\npatch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: hidden}\"\n"),
		built("kustomize: transformer in a text", list, "resources: [h.yaml, x.yaml]\ntransformers:\n- |-\n  apiVersion: builtin\n  kind: PatchTransformer\n  metadata: {name: t}\n  target: {name: hidden}\n  patch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: hidden}\"\n"),
		built("kustomize: generator", list, "resources: [x.yaml]\ngenerators: [h.yaml]\n"),
		built("kustomize: validator", list, "resources: [x.yaml]\nvalidators: [h.yaml]\n"),
		built("kustomize: file without a known ending", list, "resources: [h.txt, x.yaml]\n", "apps/h.yaml", "", "apps/h.txt", h),
		built("kustomize: chart", list, "resources: [x.yaml]\nhelmGlobals: {chartHome: ../charts}\nhelmCharts: [{name: c, releaseName: c, valuesInline: {open: true}}]\n", "apps/h.yaml", "", "charts/c/Chart.yaml", chartFile, "charts/c/values.yaml", "{}\n", "charts/c/templates/h.yaml", gated(".Values.open")),
		built("kustomize: chart for an API", list, "resources: [x.yaml]\nhelmGlobals: {chartHome: ../charts}\nhelmCharts: [{name: c, releaseName: c}]\n", "apps/h.yaml", "", "charts/c/Chart.yaml", chartFile, "charts/c/values.yaml", "{}\n", "charts/c/templates/h.yaml", gated(`.Capabilities.APIVersions.Has "e.com/v9"`)),
		built("kustomize: variable", list, "resources: [h.yaml, x.yaml]\nvars: [{name: H, objref: {apiVersion: v1, kind: ConfigMap, name: fine}, fieldref: {fieldpath: metadata.name}}]\n", "apps/h.yaml", with(h, "kind: Pod", "kind: $(H)")),
		built("kustomize: list that is local", list, "resources: [h.yaml, x.yaml]\n", "apps/h.yaml", "apiVersion: v1\nkind: List\nmetadata: {annotations: {config.kubernetes.io/local-config: 'true'}}\nitems:\n- "+strings.TrimPrefix(indented(h, 2), "  ")),
		set("appset: patch of the template, by a condition", "set.yaml", appSet+"  templatePatch: |\n    spec:\n      source: {path: '{{ if hasPrefix \"a\" .name }}other{{ else }}apps{{ end }}'}\n"),
		set("appset: patch of the template that excludes", "set.yaml", appSet+"  templatePatch: |\n    spec: {source: {directory: {exclude: h.yaml}}}\n"),
		set("appset: patch of the template that is no YAML", "set.yaml", appSet+"  templatePatch: |\n    spec: [\n"),
		set("appset: patch of the template with another repository", "set.yaml", appSet+"  templatePatch: |\n    spec: {source: {repoURL: 'https://github.com/example/other'}}\n"),
		set("appset: patch of the template with sources", "set.yaml", appSet+"  templatePatch: |\n    spec: {source: null, sources: [{repoURL: 'https://github.com/example/repo', path: other}]}\n"),
		set("appset: live Applications that stay", "set.yaml", with(appSet, "path: apps,", "path: other,")+"  ignoreApplicationDifferences: [{jsonPointers: [/spec/source]}]\n"),
		set("appset: nothing made", "set.yaml", appSet+"  syncPolicy: {applicationsSync: create-only}\n", "apps/h.yaml", h),
		set("appset: by the order of a map", "set.yaml", with(appSet, "path: '{{.path}}'", "path: '{{ range $k, $v := dict \"apps\" 1 \"other\" 2 }}{{ if eq $v 2 }}{{ $k }}{{ end }}{{ end }}'")),
		set("appset: by chance", "set.yaml", with(appSet, "path: '{{.path}}'", "path: '{{ if eq (randNumeric 1) \"1\" }}apps{{ else }}other{{ end }}'")),
		set("appset: by the time", "set.yaml", with(appSet, "path: '{{.path}}'", "path: '{{ if eq (now | date \"2006\") \"2031\" }}apps{{ else }}other{{ end }}'")),
	}
}

// packedDisguises are the twins of an object that a chart or one of its dependencies
// renders, by settings of Helm.
func packedDisguises(t *testing.T, h string) []twin {
	sub := strings.Replace(chartFile, "name: c", "name: s", 1)
	needs := func(more string) string { return chartFile + "dependencies: [{name: s, version: 0.1.0" + more + "}]\n" }
	chart := changing(files("fine.yaml", fineObject, "c/Chart.yaml", needs(""), "c/values.yaml", "a: {}\n", "c/templates/x.yaml", fineObject,
		"c/charts/s/Chart.yaml", sub, "c/charts/s/values.yaml", "exports: {data: {open: true}}\n", "c/charts/s/templates/h.yaml", h))
	const template = "c/charts/s/templates/h.yaml"
	gated := func(condition string) string { return "{{ if " + condition + " }}\n" + h + "{{ end }}\n" }
	helper := func(body string) string { return `{{ define "q" }}{{ ` + body + ` }}{{ end }}` + "\n" }
	by := func(name, body, condition string) twin {
		return chart("gate: "+name, "c/templates/x.yaml", helper(body)+"{{ $v := include \"q\" . }}\n"+gated(condition), template, "")
	}
	gate := func(name, condition string) twin { return chart("gate: "+name, template, gated(condition)) }
	return []twin{
		by("version by a variable", ".Capabilities.KubeVersion.Minor", `eq $v "31"`),
		by("version by a variable that another holds", ".Capabilities.KubeVersion.Version", `$w := $v }}{{ end }}{{ $w := trimPrefix "v" $v }}{{ if hasPrefix "1.31" $w`),
		by("version by a variable, printed", `ternary "a" "b" (semverCompare "<1.30" .Capabilities.KubeVersion.Version)`, `eq $v "a"`),
		by("version by a variable of two", `include "r" . }}{{ end }}{{ define "r" }}{{ .Capabilities.KubeVersion.GitVersion`, `contains "1.31" $v`),
		gate("version by with", `true }}{{ end }}{{ with .Capabilities.KubeVersion }}{{ if eq .Minor "31"`),
		gate("name by a variable", `$r := .Release }}{{ end }}{{ $r := .Release }}{{ if eq $r.Name "prod"`),
		gate("name by with", `true }}{{ end }}{{ with .Release }}{{ if eq .Namespace "prod"`),
		gate("name by index", `eq (index .Release "Name") "prod"`),
		gate("name by get", `eq (get .Release "Name") "prod"`),
		gate("name by pluck", `eq (first (pluck "Name" .Release)) "prod"`),
		gate("name by a copy", `eq (deepCopy .Release).Name "prod"`),
		gate("name by toJson", `contains "\"Name\":\"prod\"" (toJson .Release)`),
		gate("name by tpl", `eq (tpl "{{ .Release.Name }}" .) "prod"`),
		gate("name by a key", `index (dict "prod" true) .Release.Name`),
		gate("hash of a name", `hasPrefix "0" (sha256sum .Release.Name)`),
		gate("name in a text", `eq (printf "%s-x" .Release.Name) "prod-x"`),
		gate("name by a pattern", `regexMatch "^prod" .Release.Name`),
		gate("name by its length", `gt (len .Release.Name) 30`),
		gate("name by a list", `without (list .Release.Name) "prod" | empty`),
		gate("name by replace", `empty (replace "prod" "" .Release.Name)`),
		gate("name by cat and split", `eq (index (splitList "-" .Release.Name) 0) "prod"`),
		gate("name by a switch of values", `index (.Values.names | default dict) .Release.Name`),
		gate("lookup by toJson", `contains "x" (toJson (lookup "v1" "ConfigMap" "a" "b"))`),
		gate("lookup by empty", `not (empty (lookup "v1" "ConfigMap" "a" "b"))`),
		gate("lookup by len", `lookup "v1" "ConfigMap" "a" "b" | len`),
		chart("condition", "c/Chart.yaml", needs(", condition: s.open"), "c/values.yaml", "s: {open: false}\n"),
		chart("condition of several", "c/Chart.yaml", needs(", condition: 'a.open,s.open'"), "c/values.yaml", "a: {open: false}\ns: {open: true}\n"),
		chart("condition that is no boolean", "c/Chart.yaml", needs(", condition: s.open"), "c/values.yaml", "s: {open: 'false'}\n"),
		chart("tags", "c/Chart.yaml", needs(", tags: [t]"), "c/values.yaml", "tags: {t: false}\n"),
		chart("tag against condition", "c/Chart.yaml", needs(", tags: [t], condition: s.open"), "c/values.yaml", "tags: {t: false}\ns: {open: true}\n"),
		chart("imported values", "c/Chart.yaml", needs(", import-values: [data]"), template, "", "c/templates/h.yaml", gated(".Values.open")),
		chart("imported values of a child", "c/Chart.yaml", needs(", import-values: [{child: exports.data, parent: a}]"), template, "", "c/templates/h.yaml", gated(".Values.a.open")),
		chart("global values", "c/values.yaml", "global: {open: true}\n", template, gated(".Values.global.open")),
		chart("value removed by null", "c/values.yaml", "s: {exports: null}\n", template, gated("not .Values.exports")),
		chart("alias", "c/Chart.yaml", needs(", alias: other"), "c/values.yaml", "other: {open: true}\n", template, gated(".Values.open")),
		chart("alias and condition", "c/Chart.yaml", needs(", alias: other, condition: other.open"), "c/values.yaml", "other: {open: false}\n"),
		chart("dependency that is not listed", "c/Chart.yaml", chartFile),
		chart("dependency of another version", "c/Chart.yaml", strings.Replace(needs(""), "version: 0.1.0}", "version: 9.x}", 1)),
		chart("dependency elsewhere", "c/Chart.yaml", needs(", repository: 'https://charts.example.org'"), "c/charts/s/Chart.yaml", "", "c/charts/s/values.yaml", "", template, ""),
		chart("dependency beside the chart", "c/Chart.yaml", needs(", repository: 'file://../s'"), "c/charts/s/Chart.yaml", "", "c/charts/s/values.yaml", "", template, "", "s/Chart.yaml", sub, "s/templates/h.yaml", h),
		chart("dependency in a hidden directory", "c/charts/s/Chart.yaml", "", "c/charts/s/values.yaml", "", template, "", "c/charts/.s/Chart.yaml", sub, "c/charts/.s/templates/h.yaml", h, "c/Chart.yaml", chartFile),
		chart("dependency with an underscore", "c/charts/s/Chart.yaml", "", "c/charts/s/values.yaml", "", template, "", "c/charts/_s/Chart.yaml", sub, "c/charts/_s/templates/h.yaml", h, "c/Chart.yaml", chartFile),
		chart("library", "c/charts/s/Chart.yaml", sub+"type: library\n"),
		chart("requirements of the first version", "c/Chart.yaml", strings.Replace(chartFile, "v2", "v1", 1), "c/requirements.yaml", "dependencies: [{name: s, version: 0.1.0, condition: s.open}]\n", "c/values.yaml", "s: {open: false}\n"),
		chart("hook after installation", template, annotated(h, "helm.sh/hook: post-install")),
		chart("hook of a rollback", template, annotated(h, "helm.sh/hook: post-rollback")),
		chart("hooks of a deletion and a test", template, annotated(h, "'helm.sh/hook': 'post-delete,test'")),
		chart("hook that is deleted", template, annotated(h, "helm.sh/hook: pre-install, helm.sh/hook-delete-policy: hook-succeeded")),
		chart("tests", template, "", "c/charts/s/templates/tests/h.yaml", h),
		chart("a file of the chart", template, "{{ .Files.Get \"h.yaml\" }}", "c/charts/s/h.yaml", h),
		chart("files of the chart", template, "{{ range $p, $b := .Files.Glob \"f/*\" }}{{ toString $b }}{{ end }}", "c/charts/s/f/h.txt", h),
		chart("a value with a manifest", template, "{{ tpl .Values.m . }}", "c/charts/s/values.yaml", "m: |\n"+indented(h, 2)),
		chart("values that the chart's schema refuses", "c/values.schema.json", `{"type": "array"}`),
		chart("a template that fails", "c/templates/x.yaml", `{{ fail "no" }}`),
		deletion(chart("not the root", template, gated(".Chart.IsRoot"))),
	}
}

// encodedDisguises are the twins of an object in other notations.
func encodedDisguises(t *testing.T, h string) []twin {
	plain := changing(files("fine.yaml", fineObject, "apps/h.yaml", h))
	as := func(name, text string) twin { return plain(name, "apps/h.yaml", text) }
	host := func(as string) string { return edited(t, h, "hostNetwork: true", as) }
	item := strings.TrimPrefix(indented(h, 2), "  ")
	return []twin{
		as("yes", host("hostNetwork: yes")),
		as("on", host("hostNetwork: ON")),
		as("a tagged text", host(`hostNetwork: !!bool "true"`)),
		as("a text", host(`hostNetwork: "true"`)),
		as("a number", host("hostNetwork: 1")),
		as("an unknown tag", host("hostNetwork: !x true")),
		as("field twice, false last", host("hostNetwork: true\n  hostNetwork: false")),
		as("field twice, false first", host("hostNetwork: false\n  hostNetwork: true")),
		as("field twice, once quoted", host("hostNetwork: true\n  \"hostNetwork\": false")),
		as("field twice, once escaped", host("hostNetwork: true\n  \"host\\u004eetwork\": false")),
		as("spec twice", h+"spec: {containers: [{name: a, image: a}]}\n"),
		as("field in another case", host("hostnetwork: true\n  hostNetwork: false")),
		as("merge", host("<<: {hostNetwork: true}")),
		as("merge of a list", host("<<: [{hostNetwork: true}, {hostNetwork: false}]")),
		as("merge twice", host("<<: {hostNetwork: true}\n  <<: {hostNetwork: false}")),
		as("merge that is quoted", host("\"<<\": {hostNetwork: true}")),
		as("merge that is tagged", host("!!merge <<: {hostNetwork: true}")),
		as("merge against a field", host("hostNetwork: false\n  <<: {hostNetwork: true}")),
		as("merge in a merge", host("<<: {<<: {hostNetwork: true}}")),
		as("alias", "x-true: &t true\n"+host("hostNetwork: *t")),
		as("alias of a redefined anchor", "x: &t false\ny: &t true\n"+host("hostNetwork: *t")),
		as("anchor of another document", "x: &t true\n---\n"+host("hostNetwork: *t")),
		as("JSON", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hidden"}, "spec": {"hostNetwork": true, "containers": [{"name": "a", "image": "a"}]}}`),
		as("JSON with a field twice", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hidden"}, "spec": {"hostNetwork": true, "hostNetwork": false, "containers": [{"name": "a", "image": "a"}]}}`),
		as("JSON one after the other", `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}`+"\n"+`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hidden"}, "spec": {"hostNetwork": true, "containers": [{"name": "a", "image": "a"}]}}`),
		as("a sequence of objects", "- "+item),
		as("a text with an object", "|\n"+indented(h, 2)),
		as("JSON with comments", "// a\n"+`{"apiVersion":"v1","kind":"Pod", /* b */ "metadata":{"name":"hidden"},"spec":{"hostNetwork":true,"containers":[{"name":"a","image":"a"}]}}`),
		as("a resource list", "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n- "+item),
		as("a list of another kind", "apiVersion: v1\nkind: ConfigMapList\nitems:\n- "+item),
		as("a list of another version", "apiVersion: e.com/v2\nkind: List\nitems:\n- "+item),
		as("a list by name", "apiVersion: v1\nkind: List\nitems:\n  a:\n"+indented(h, 4)),
		as("a list with a null", "apiVersion: v1\nkind: List\nitems:\n- null\n- "+item),
		as("a list in a list in a list", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  - apiVersion: v1\n    kind: List\n    items:\n    - "+strings.TrimPrefix(indented(h, 6), "      ")),
		as("a list that continues itself", "apiVersion: v1\nkind: List\nmetadata: {continue: x, remainingItemCount: 1}\nitems:\n- "+item),
		as("a kind with a blank", strings.Replace(h, "kind: Pod", "kind: 'Pod '", 1)),
		as("a kind in lower case", strings.Replace(h, "kind: Pod", "kind: pod", 1)),
		as("a kind with a letter that looks alike", strings.Replace(h, "kind: Pod", "kind: P\u043ed", 1)),
		as("a version with a blank", strings.Replace(h, "apiVersion: v1", "apiVersion: 'v1 '", 1)),
		as("a version with a core group", strings.Replace(h, "apiVersion: v1", "apiVersion: core/v1", 1)),
		as("a version with a slash", strings.Replace(h, "apiVersion: v1", "apiVersion: /v1", 1)),
		as("a generated name", strings.Replace(h, "name: hidden", "generateName: hidden-", 1)),
		as("a status", h+"status: {phase: Succeeded}\n"),
		as("a deletion", strings.Replace(h, "name: hidden", "name: hidden\n  deletionTimestamp: '2020-01-01T00:00:00Z'", 1)),
		as("an owner", strings.Replace(h, "name: hidden", "name: hidden\n  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: x, uid: x}]", 1)),
		as("a mirror pod", annotated(h, "kubernetes.io/config.mirror: x")),
		as("an example in a comment", "# "+strings.ReplaceAll(strings.TrimSuffix(fineObject, "\n"), "\n", "\n# ")+"\n"+h),
		as("a document end with an object", fineObject+"... # end\n---\n"+h),
		as("a separator with a tab", fineObject+"---\t\n"+h),
		as("a separator behind blanks", fineObject+" ---\n"+h),
		as("a separator within a text", fineObject+"data:\n  a: |\n    x\n---\n"+h),
		as("a directive between", fineObject+"...\n%YAML 1.2\n---\n"+h),
		as("a tag directive", "%TAG ! tag:e.com,2000:\n---\n"+h),
		plain("a Git attribute", ".gitattributes", "*.yaml working-tree-encoding=UTF-16 export-ignore\n"),
		plain("a Git LFS pointer", "apps/h.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"),
	}
}

func TestNoBuiltTwinIsGreenAndSilent(t *testing.T) {
	t.Parallel()
	object := deniedObjects["pod"]
	compareTwins(t, exitDenied, builtDisguises(t, object), packedDisguises(t, object), encodedDisguises(t, object))
}
