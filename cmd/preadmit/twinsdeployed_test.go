package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"

	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

const (
	ownRepository = "repository: [github.com/example/repo]\n"
	application   = `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: a, namespace: argocd}
spec:
  project: default
  source: {repoURL: https://github.com/example/repo, path: apps, targetRevision: HEAD}
  destination: {server: https://kubernetes.default.svc, namespace: default}
`
	gitSource = `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: r, namespace: flux-system}
spec: {url: https://github.com/example/repo, interval: 1m}
`
	fluxKustomization = `apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: k, namespace: flux-system}
spec:
  sourceRef: {kind: GitRepository, name: r}
  path: ./apps
  interval: 1m
  prune: true
`
	helmRelease = `apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: h, namespace: default}
spec:
  interval: 1m
  chart: {spec: {chart: c, sourceRef: {kind: GitRepository, name: r, namespace: flux-system}}}
`
)

// graphDisguises are the twins of an object that Argo CD or Flux deploys.
func graphDisguises(h string) []twin {
	from := func(plain map[string]string) func(name string, change ...string) twin {
		return func(name string, change ...string) twin {
			head := maps.Clone(plain)
			maps.Copy(head, files(change...))
			for file, text := range head {
				if text == "" {
					delete(head, file)
				}
			}
			return twin{name: name, plain: plain, head: head}
		}
	}
	config := files(".preadmit/config.yaml", ownRepository, "apps/x.yaml", fineObject)
	with := func(pairs ...string) map[string]string {
		m := maps.Clone(config)
		maps.Copy(m, files(pairs...))
		return m
	}
	edit := func(text, old, new string) string {
		if !strings.Contains(text, old) {
			panic("no " + old)
		}
		return strings.Replace(text, old, new, 1)
	}
	argo := from(with("app.yaml", application, "apps/h.yaml", h))
	flux := from(with("flux/source.yaml", gitSource, "flux/k.yaml", fluxKustomization, "apps/h.yaml", h))
	chart := from(with("flux/source.yaml", gitSource, "hr.yaml", helmRelease, "c/Chart.yaml", chartFile, "c/values.yaml", "{}\n", "c/templates/h.yaml", h))
	source := func(more string) string { return edit(application, "path: apps,", "path: apps, "+more+",") }
	spec := func(more string) string { return fluxKustomization + indented(more, 2) }
	remove := "patches: [{target: {name: hidden}, patch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: hidden}\"}]\n"
	gated := func(condition string) string { return "{{ if " + condition + " }}\n" + h + "{{ end }}\n" }
	later := func(tw twin) twin { tw.changeOnly = true; return tw }
	return []twin{
		argo("argo: directory excludes", "app.yaml", source("directory: {exclude: h.yaml}")),
		argo("argo: directory includes others", "app.yaml", source("directory: {include: x.yaml}")),
		argo("argo: magic comment", "apps/h.yaml", "# +argocd:skip-file-rendering\n"+h),
		argo("argo: other path", "app.yaml", edit(application, "path: apps,", "path: other,"), "other/x.yaml", fineObject),
		later(argo("argo: hook Skip", "apps/h.yaml", annotated(h, "argocd.argoproj.io/hook: Skip"))),
		argo("argo: moved below without recursion", "apps/h.yaml", "", "apps/sub/h.yaml", h),
		argo("argo: other revision", "app.yaml", edit(application, "targetRevision: HEAD", "targetRevision: v0")),
		argo("argo: other repository", "app.yaml", edit(application, "example/repo", "example/other")),
		argo("argo: no source", "app.yaml", edit(application, "source:", "sourcex:")),
		argo("argo: empty sources", "app.yaml", edit(application, "  source: {", "  sources: []\n  x: {")),
		argo("argo: plugin", "app.yaml", source("plugin: {name: x}")),
		argo("argo: patch that deletes", "app.yaml", source("kustomize: {patches: [{target: {name: hidden}, patch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: hidden}\"}]}"), "apps/kustomization.yaml", "resources: [h.yaml, x.yaml]\n"),
		argo("argo: chart above", "apps/Chart.yaml", chartFile),
		argo("argo: ApplicationSet without elements", "app.yaml", "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: a, namespace: argocd}\nspec:\n  generators: [{list: {elements: []}}]\n  template:\n"+indented("metadata: {name: a}\n"+application[strings.Index(application, "spec:"):], 4)),
		argo("argo: ApplicationSet that picks a key", "app.yaml", "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: a, namespace: argocd}\nspec:\n  goTemplate: true\n  generators: [{list: {elements: [{m: {other: 1, apps: 2}}]}}]\n  template:\n"+indented("metadata: {name: a}\n"+edit(application[strings.Index(application, "spec:"):], "path: apps", "path: '{{ first (keys .m) }}'"), 4), "other/x.yaml", fineObject),
		argo("argo: kustomization above", "apps/kustomization.yaml", "resources: [x.yaml]\n"),
		argo("argo: Application with a finalizer and deleted", "app.yaml", edit(application, "name: a, namespace: argocd", "name: a, namespace: argocd, deletionTimestamp: 2020-01-01T00:00:00Z")),
		argo("argo: chart on upgrade", "apps/h.yaml", "", "apps/Chart.yaml", chartFile, "apps/templates/h.yaml", gated(".Release.IsUpgrade")),
		argo("argo: commit as a parameter", "app.yaml", source("helm: {parameters: [{name: x, value: $ARGOCD_APP_REVISION}]}"), "apps/h.yaml", "", "apps/Chart.yaml", chartFile, "apps/values.yaml", "{}\n", "apps/templates/h.yaml", gated(`hasPrefix "a1" (.Values.x | toString)`)),
		argo("argo: commit in a name of values", "app.yaml", source("helm: {valueFiles: [v-${ARGOCD_APP_REVISION_SHORT}.yaml], ignoreMissingValueFiles: true}"), "apps/h.yaml", "", "apps/Chart.yaml", chartFile, "apps/values.yaml", "{}\n", "apps/v-abcdefa.yaml", "x: true\n", "apps/templates/h.yaml", gated(".Values.x")),
		argo("argo: source hydrator", "app.yaml", edit(application, "  source: {repoURL: https://github.com/example/repo, path: apps, targetRevision: HEAD}", "  sourceHydrator: {drySource: {repoURL: https://github.com/example/repo, path: other, targetRevision: HEAD}, syncSource: {targetBranch: x, path: apps}}"), "other/x.yaml", fineObject),
		flux("flux: suspended", "flux/k.yaml", spec("suspend: true")),
		flux("flux: sourceignore", ".sourceignore", "apps/h.yaml\n"),
		flux("flux: sourceignore beside", "apps/.sourceignore", "h.yaml\n"),
		flux("flux: spec.ignore", "flux/source.yaml", edit(gitSource, "interval: 1m", "interval: 1m, ignore: apps/h.yaml")),
		flux("flux: other path", "flux/k.yaml", edit(fluxKustomization, "./apps", "./other"), "other/x.yaml", fineObject),
		flux("flux: patch that deletes", "flux/k.yaml", spec(remove)),
		flux("flux: other source", "flux/source.yaml", edit(gitSource, "example/repo", "example/other")),
		flux("flux: ssa ignore", "apps/h.yaml", annotated(h, "kustomize.toolkit.fluxcd.io/ssa: Ignore")),
		flux("flux: not reconciled", "apps/h.yaml", annotated(h, "kustomize.toolkit.fluxcd.io/reconcile: disabled")),
		flux("flux: substitution makes the kind", "flux/k.yaml", spec("postBuild: {substitute: {A: b}}"), "apps/h.yaml", edit(h, "kind: ", "kind: ${NONE:=}")),
		flux("flux: kustomization", "apps/kustomization.yaml", "resources: [x.yaml]\n"),
		flux("flux: source suspended", "flux/source.yaml", edit(gitSource, "interval: 1m", "interval: 1m, suspend: true, ref: {tag: v0}")),
		flux("flux: sparse checkout", "flux/source.yaml", edit(gitSource, "interval: 1m", "interval: 1m, sparseCheckout: [other]")),
		flux("flux: depends on nothing", "flux/k.yaml", spec("dependsOn: [{name: none}]")),
		flux("flux: remote kubeconfig", "flux/k.yaml", spec("kubeConfig: {secretRef: {name: x}}")),
		chart("release: on upgrade", "c/templates/h.yaml", gated(".Release.IsUpgrade")),
		chart("release: suspended", "hr.yaml", helmRelease+"  suspend: true\n"),
		chart("release: API", "c/templates/h.yaml", gated(`.Capabilities.APIVersions.Has "e.com/v9"`)),
		chart("release: lookup", "c/templates/h.yaml", gated(`eq (dig "data" "x" "" (lookup "v1" "ConfigMap" "default" "x")) "y"`)),
		later(chart("release: post renderer deletes", "hr.yaml", helmRelease+indented("postRenderers: [{kustomize: {"+strings.TrimSuffix(remove, "\n")+"}}]\n", 2))),
		chart("release: other chart", "hr.yaml", edit(helmRelease, "chart: c,", "chart: d,"), "d/Chart.yaml", chartFile, "d/templates/x.yaml", fineObject),
		later(chart("release: hook of a test", "c/templates/h.yaml", annotated(h, "helm.sh/hook: test"))),
		chart("release: unknown hook", "c/templates/h.yaml", annotated(h, "helm.sh/hook: never")),
		chart("release: optional values elsewhere", "hr.yaml", helmRelease+"  valuesFrom: [{kind: ConfigMap, name: none, optional: true}]\n", "c/templates/h.yaml", gated(".Values.x")),
		chart("release: values in a Secret elsewhere", "hr.yaml", helmRelease+"  valuesFrom: [{kind: Secret, name: none}]\n", "c/templates/h.yaml", gated("not .Values.x")),
	}
}

// writtenDisguises are the twins of an object that is written otherwise.
func writtenDisguises(h string) []twin {
	plain := files("fine.yaml", fineObject, "apps/h.yaml", h)
	as := func(name, text string) twin {
		m := maps.Clone(plain)
		m["apps/h.yaml"] = text
		return twin{name: name, plain: plain, head: m}
	}
	at := func(name, file, text string) twin {
		m := maps.Clone(plain)
		delete(m, "apps/h.yaml")
		m[file] = text
		return twin{name: name, plain: plain, head: m}
	}
	kind := func(as string) string {
		i := strings.Index(h, "kind: ")
		end := i + strings.Index(h[i:], "\n")
		return h[:i] + strings.ReplaceAll(as, "KIND", h[i+6:end]) + h[end:]
	}
	later := func(tw twin) twin { tw.changeOnly = true; return tw }
	version, _, _ := strings.Cut(strings.TrimPrefix(h, "apiVersion: "), "\n")
	_, rest, _ := strings.Cut(h, "\n")
	_, body, _ := strings.Cut(rest, "\n")
	name, _, _ := strings.Cut(strings.TrimPrefix(rest, "kind: "), "\n")
	typed := "apiVersion: " + version + "\nkind: " + name + "List\nitems:\n- " + strings.TrimPrefix(indented(body, 2), "  ")
	return []twin{
		as("quoted keys", strings.Replace(strings.Replace(h, "apiVersion:", `"apiVersion":`, 1), "kind:", `'kind':`, 1)),
		as("escaped key", strings.Replace(h, "kind:", `"\u006bind":`, 1)),
		as("complex key", kind("? kind\n: KIND")),
		as("tagged kind", kind("kind: !!str KIND")),
		as("folded kind", kind("kind: >-\n  KIND")),
		as("kind by an alias", kind("x-kind: &k KIND\nkind: *k")),
		as("merged", "x: &x\n"+indented(h, 2)+"<<: *x\n"),
		as("behind a directive", "%YAML 1.1\n---\n"+h),
		as("behind a comment on the mark", "--- # fine\n"+h),
		as("text behind the mark", "--- {}\n--- !!map\n"+h),
		as("items of another kind", "apiVersion: e.com/v1\nkind: Whatever\nmetadata: {name: w}\nitems:\n- "+strings.TrimPrefix(indented(h, 2), "  ")),
		as("CRLF", strings.ReplaceAll(h, "\n", "\r\n")),
		as("next line marks", strings.ReplaceAll(fineObject+"---\n"+h, "\n", "\u0085")),
		as("line separators", strings.ReplaceAll(fineObject+"---\n"+h, "\n", "\u2028")),
		as("byte order mark behind the mark", fineObject+"---\n\ufeff"+h),
		as("below many empty documents", strings.Repeat("---\n", 2000)+h),
		as("below a long comment", strings.Repeat("# x\n", 200_000)+h),
		as("indented as a whole", indented(h, 3)),
		as("typed list", typed),
		as("list of typed lists", "apiVersion: v1\nkind: List\nitems:\n- "+strings.TrimPrefix(indented(typed, 2), "  ")),
		as("list without items before", "apiVersion: v1\nkind: List\nitems: null\n---\n"+h),
		as("list twice", "apiVersion: v1\nkind: List\nitems: []\nitems:\n- "+strings.TrimPrefix(indented(h, 2), "  ")),
		as("kind twice", h+"kind: Nothing\n"),
		as("a NUL in front", "\x00"+h),
		as("a form feed in front", "\f"+h),
		as("markers of a conflict", "<<<<<<< HEAD\n"+fineObject+"=======\n"+h+">>>>>>> x\n"),
		as("a template's comment", "{{/* x */}}\n"+h),
		as("windows-1252", strings.Replace(h, "name: hidden", "name: hidden # \x93x\x94", 1)),
		as("reference in front", "--- &x\n"+h),
		later(as("encrypted by git-crypt", "\x00GITCRYPT\x00"+strings.Repeat("x", 50))),
		later(as("in a vault", "$ANSIBLE_VAULT;1.1;AES256\n3030\n")),
		later(at("in a submodule", ".gitmodules", "[submodule \"apps\"]\n\tpath = apps\n\turl = https://example.org/x\n")),
		at("a name with a line feed", "apps/h\n.yaml", h),
		at("a name that is an option", "apps/-p.yaml", h),
		at("yml", "apps/h.yml", h),
		at("json that is yaml", "apps/h.json", h),
		at("values.yaml", "apps/values.yaml", h),
		at("deep", strings.Repeat("d/", 70)+"h.yaml", h),
		at("beside a Chart.yml", "apps/h2.yaml", h),
		at("named kustomization", "apps/kustomization.yaml", h),
		at("named Chart.yaml", "apps/Chart.yaml", h),
		at("named as a suite", "apps/kyverno-test.yaml", h),
		at("with a tilde", "apps/h.yaml~.yaml", h),
	}
}

// chartDisguises are the twins of an object that a chart renders.
func chartDisguises(h string) []twin {
	base := files("fine.yaml", fineObject, "c/Chart.yaml", chartFile, "c/values.yaml", "a: {}\n", "c/templates/h.yaml", h)
	chart := func(name string, change ...string) twin {
		m := maps.Clone(base)
		maps.Copy(m, files(change...))
		for file, text := range m {
			if text == "" {
				delete(m, file)
			}
		}
		return twin{name: name, plain: base, head: m}
	}
	gated := func(condition string) []string {
		return []string{"c/templates/h.yaml", "{{ if " + condition + " }}\n" + h + "{{ end }}\n"}
	}
	helper := []string{"c/templates/_h.tpl", `{{ define "h" }}` + "\n" + h + "{{ end }}\n"}
	by := func(name string, template string) twin {
		return chart(name, append(helper, "c/templates/h.yaml", template)...)
	}
	// What another template sets or returns decides.
	set := func(name, value string) twin {
		return chart("gate: set by another file, "+name, append(gated(`eq (.Values.x | toString) "yes"`), "c/templates/deep/z.yaml", `{{ $_ := set .Values "x" (`+value+`) }}`)...)
	}
	returned := func(name, value string) twin {
		return chart("gate: returned, "+name, append(gated(`eq (include "q" .) "prod"`), "c/templates/_q.tpl", `{{ define "q" }}{{ `+value+` }}{{ end }}`)...)
	}
	kept := func(name, value, keep string) twin {
		return chart("gate: kept from a helper, "+name, append(gated(`eq (.Values.x | toString) "yes"`), "c/templates/_q.tpl", `{{ define "q" }}{{ `+value+` }}{{ end }}`, "c/templates/deep/z.yaml", keep)...)
	}
	return []twin{
		chart("gate: upgrade by index", gated(`index .Release "IsUpgrade"`)...),
		chart("gate: upgrade by pluck", gated(`first (pluck "IsUpgrade" .Release)`)...),
		chart("gate: upgrade by toYaml", gated(`contains "IsUpgrade: true" (toYaml .Release)`)...),
		chart("gate: upgrade by toJson of all", gated(`contains "\"IsUpgrade\":true" (toJson .)`)...),
		chart("gate: upgrade by range", gated(`$f := false }}{{ range $k, $v := .Release }}{{ if and (hasPrefix "IsU" $k) $v }}{{ $f = true }}{{ end }}{{ end }}{{ end }}{{ if $f`)...),
		chart("gate: computed keys", gated(`get (get . (printf "%sease" "Rel")) (printf "%sgrade" "IsUp")`)...),
		chart("gate: within a dict", gated(`dig "r" (print "Rel" "ease") (print "Is" "Upgrade") false (dict "r" .)`)...),
		chart("gate: deep copy", gated(`(deepCopy .Release).IsUpgrade`)...),
		chart("gate: with the release", gated(`$r := .Release }}{{ end }}{{ with .Release }}{{ if .IsUpgrade }}`+"\n"+h+`{{ end }}{{ end }}{{ if false`)...),
		chart("gate: tpl", gated(`eq (tpl "{{ .Release.IsUpgrade }}" .) "true"`)...),
		chart("gate: tpl of values", append(gated(`eq (tpl .Values.x .) "true"`), "c/values.yaml", "x: '{{ .Release.IsUpgrade }}'\n")...),
		chart("gate: revision", gated("eq (int .Release.Revision) 7")...),
		chart("gate: API by a variable", gated(`$c := .Capabilities }}{{ end }}{{ $c := .Capabilities.APIVersions }}{{ if $c.Has "e.com/v9"`)...),
		chart("gate: API in a pipe", gated(`"e.com/v9" | .Capabilities.APIVersions.Has`)...),
		chart("gate: API computed", gated(`.Capabilities.APIVersions.Has (printf "%s/%s" "e.com" "v9")`)...),
		chart("gate: API by has", gated(`has "e.com/v9" .Capabilities.APIVersions`)...),
		chart("gate: API by join", gated(`contains "e.com/v9" (join "," .Capabilities.APIVersions)`)...),
		chart("gate: API printed", gated(`contains "e.com/v9" (print .Capabilities.APIVersions)`)...),
		chart("gate: API computed and listed", gated(`has (print "e.com" "/v9") .Capabilities.APIVersions`)...),
		chart("gate: API one without the other", gated(`and (.Capabilities.APIVersions.Has "e.com/v9") (not (.Capabilities.APIVersions.Has "f.com/v9"))`)...),
		chart("gate: upgrade and API", gated(`and .Release.IsUpgrade (.Capabilities.APIVersions.Has "e.com/v9")`)...),
		chart("gate: API asked on upgrade only", gated(`.Release.IsUpgrade }}{{ if .Capabilities.APIVersions.Has "e.com/v9" }}`+"\n"+h+`{{ end }}{{ end }}{{ if false`)...),
		chart("gate: time", gated(`eq (now | date "2006") "2031"`)...),
		chart("gate: time in a variable", gated(`$y := now | date "2006" }}{{ end }}{{ $y := now | date "2006" }}{{ if eq $y "2031"`)...),
		chart("gate: chance", gated(`eq (randNumeric 1) "x"`)...),
		chart("gate: a host's name", gated(`eq (getHostByName "example.org") "1.2.3.4"`)...),
		chart("gate: lookup of a text", gated(`eq (dig "data" "a" "" (lookup "v1" "ConfigMap" "a" "b")) "x"`)...),
		chart("gate: lookup in a variable", gated(`$x := lookup "v1" "ConfigMap" "a" "b" }}{{ end }}{{ $x := (lookup "v1" "ConfigMap" "a" "b").data }}{{ $y := $x }}{{ if eq (get ($y | default dict) "k") "z"`)...),
		chart("gate: lookup of many", gated(`gt (len (lookup "v1" "Node" "" "").items) 5`)...),
		by("gate: lookup within a helper", `{{ define "q" }}{{ dig "data" "a" "" (lookup "v1" "ConfigMap" "a" "b") }}{{ end }}{{ if eq (include "q" .) "x" }}{{ include "h" . }}{{ end }}`),
		by("gate: lookup within a helper, in a variable", `{{ define "q" }}{{ dig "data" "a" "" (lookup "v1" "ConfigMap" "a" "b") }}{{ end }}{{ $q := include "q" . }}{{ if eq $q "x" }}{{ include "h" . }}{{ end }}`),
		by("gate: ternary", `{{ ternary (include "h" .) "" (eq (dig "data" "a" "" (lookup "v1" "ConfigMap" "a" "b")) "x") }}`),
		by("gate: and", `{{ and (eq (dig "data" "a" "" (lookup "v1" "ConfigMap" "a" "b")) "x") (include "h" .) | default "" | replace "false" "" }}`),
		by("gate: repeat", `{{ repeat (ternary 1 0 .Release.IsUpgrade) (include "h" .) }}`),
		by("gate: name of a template", `{{ define "hfalse" }}{{ end }}{{ define "htrue" }}{{ include "h" . }}{{ end }}{{ include (print "h" .Release.IsUpgrade) . }}`),
		by("gate: range of a lookup", `{{ range (lookup "v1" "Namespace" "" "").items }}{{ if eq .metadata.name "prod" }}{{ include "h" $ }}{{ end }}{{ end }}`),
		by("gate: with of a lookup", `{{ with lookup "v1" "ConfigMap" "a" "b" }}{{ if eq .data.x "y" }}{{ include "h" $ }}{{ end }}{{ end }}`),
		by("gate: yaml of a lookup", `{{ (lookup "v1" "ConfigMap" "a" "b").data | default dict | toYaml | regexFind "x: y" | ternary "" (include "h" .) | replace "x" "" }}`),
		by("gate: lookup writes it", `{{ (dig "data" "manifest" "" (lookup "v1" "ConfigMap" "a" "b")) }}`),
		by("gate: tpl of a lookup", `{{ tpl (dig "data" "manifest" "" (lookup "v1" "ConfigMap" "a" "b")) . }}`),
		chart("gate: version of Kubernetes", gated(`semverCompare "<1.30-0" .Capabilities.KubeVersion.Version`)...),
		chart("gate: minor version", gated(`eq .Capabilities.KubeVersion.Minor "31"`)...),
		chart("gate: version in a variable", gated(`$v := .Capabilities.KubeVersion }}{{ end }}{{ $v := .Capabilities.KubeVersion }}{{ if eq $v.Minor "31"`)...),
		by("gate: version within a helper", `{{ define "q" }}{{ .Capabilities.KubeVersion.Minor }}{{ end }}{{ if eq (include "q" .) "31" }}{{ include "h" . }}{{ end }}`),
		by("gate: version within a helper, in a variable", `{{ define "q" }}{{ default .Capabilities.KubeVersion.Version .Values.v }}{{ end }}{{ $q := include "q" . }}{{ if semverCompare "<1.30" $q }}{{ include "h" . }}{{ end }}`),
		by("gate: ternary of a version", `{{ ternary (include "h" .) "" (semverCompare "<1.30-0" .Capabilities.KubeVersion.Version) }}`),
		chart("gate: name of the release", gated(`eq .Release.Name "prod"`)...),
		chart("gate: begin of the release's name", gated(`hasPrefix "prod" .Release.Name`)...),
		chart("gate: namespace", gated(`has .Release.Namespace (list "prod" "kube-system")`)...),
		chart("gate: namespace in a variable", gated(`$n := .Release.Namespace }}{{ end }}{{ $n := .Release.Namespace }}{{ if ne $n "default"`)...),
		chart("gate: part of the release's name", gated(`contains "prod" .Release.Name`)...),
		chart("gate: version of Helm", gated(`eq .Capabilities.HelmVersion.Version "v9"`)...),
		chart("gate: all capabilities", gated(`contains "v1.31" (toYaml .Capabilities)`)...),
		chart("gate: order of keys", gated(`eq (first (keys (dict "a" 1 "b" 2))) "b"`)...),
		chart("gate: hash", gated(`contains "/." (bcrypt "a")`)...),
		chart("gate: date of a text", gated(`eq (date "2006" "x") "2031"`)...),
		set("lookup", `dig "data" "k" "" (lookup "v1" "ConfigMap" "a" "b")`),
		set("version", `.Capabilities.KubeVersion.Minor`),
		set("name", `.Release.Name`),
		set("time", `now | date "2006"`),
		chart("gate: set by what another field says", append(gated(`eq (.Values.x | toString) "2"`), "c/templates/deep/z.yaml", `{{ $_ := mergeOverwrite .Values (dict "y" (randNumeric 1)) }}`, "c/templates/m/n.yaml", `{{ $_ := set .Values "x" .Values.y }}`)...),
		chart("gate: set under a condition", append(gated(`.Values.x`), "c/templates/deep/z.yaml", `{{ if eq .Release.Namespace "prod" }}{{ $_ := set .Values "x" true }}{{ end }}`)...),
		chart("gate: set to a comparison", append(gated(`.Values.x`), "c/templates/deep/z.yaml", `{{ $_ := set .Values "x" (eq .Release.Namespace "prod") }}`)...),
		kept("time", `now | date "2006"`, `{{ $_ := set .Values "x" (include "q" .) }}`),
		kept("lookup by a variable", `dig "data" "k" "" (lookup "v1" "ConfigMap" "a" "b")`, `{{ $q := include "q" . }}{{ $_ := set .Values "x" $q }}`),
		kept("name by two", `include "r" . }}{{ end }}{{ define "r" }}{{ .Release.Name`, `{{ $_ := mergeOverwrite .Values (dict "x" (include "q" .)) }}`),
		chart("gate: name by a variable", append(gated(`$q := include "q" . }}{{ end }}{{ $q := include "q" . }}{{ if eq $q "prod"`), "c/templates/_q.tpl", `{{ define "q" }}{{ .Release.Name }}{{ end }}`)...),
		returned("time", `now | date "2006"`),
		returned("chance", `randNumeric 1`),
		returned("name", `.Release.Name`),
		returned("namespace", `$.Release.Namespace`),
		returned("revision", `.Release.Revision`),
		chart("gate: namespace as a key", gated(`get (dict "prod" true) .Release.Namespace`)...),
		chart("gate: namespace as a key by dig", gated(`dig .Release.Namespace false (dict "prod" true)`)...),
		chart("gate: namespace in a loop", gated(`$f := false }}{{ end }}{{ $f := false }}{{ range list "prod" }}{{ if eq . $.Release.Namespace }}{{ $f = true }}{{ end }}{{ end }}{{ if $f`)...),
		chart("text file", "c/templates/h.yaml", "", "c/templates/h.txt", h),
		chart("no extension", "c/templates/h.yaml", "", "c/templates/h", h),
		chart("tpl file", "c/templates/h.yaml", "", "c/templates/h.tpl", h),
		chart("crds directory", "c/templates/h.yaml", "", "c/crds/h.yaml", h),
		chart("files", "c/templates/h.yaml", "", "c/files/h.yaml", h),
		chart("disabled subchart", "c/templates/h.yaml", "", "c/Chart.yaml", chartFile+"dependencies: [{name: s, version: 0.1.0, condition: s.enabled}]\n", "c/values.yaml", "s: {enabled: false}\n", "c/charts/s/Chart.yaml", strings.Replace(chartFile, "name: c", "name: s", 1), "c/charts/s/templates/h.yaml", h),
		chart("other Kubernetes", "c/Chart.yaml", chartFile+"kubeVersion: '>=9.0.0'\n"),
		chart("helmignore within", "c/.helmignore", "h.yaml\n"),
		chart("hook that Helm does not know", "c/templates/h.yaml", annotated(h, "helm.sh/hook: never")),
	}
}

// renamedDisguises are trees in which a change gives an object another name where nothing
// evaluates it any more.
func renamedDisguises(h string) []twin {
	plain := files("apps/kustomization.yaml", "resources: [h.yaml]\n", "apps/h.yaml", strings.Replace(h, "name: hidden", "name: was", 1), "apps/x.yaml", fineObject)
	remove := "patches: [{target: {name: hidden}, patch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: hidden}\"}]\n"
	renamed := func(name string, change ...string) twin {
		head := maps.Clone(plain)
		maps.Copy(head, files(append(change, "apps/h.yaml", h)...))
		return twin{name: "renamed: " + name, plain: plain, head: head}
	}
	local := renamed("local config")
	local.head["apps/h.yaml"] = annotated(h, `config.kubernetes.io/local-config: "true"`)
	return []twin{
		local,
		renamed("deleted", "apps/kustomization.yaml", "resources: [h.yaml]\n"+remove),
		renamed("deleted by a component", "apps/kustomization.yaml", "resources: [h.yaml]\ncomponents: [../c]\n", "c/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"+remove),
		renamed("local config for all", "apps/kustomization.yaml", "resources: [h.yaml]\ncommonAnnotations: {config.kubernetes.io/local-config: \"true\"}\n"),
		renamed("data", "apps/kustomization.yaml", "resources: [x.yaml]\nconfigMapGenerator: [{name: c, files: [h.yaml]}]\n"),
		renamed("no resource", "apps/kustomization.yaml", "resources: [x.yaml]\n"),
	}
}

// addedDisguises are trees in which a change adds an object that nothing evaluates.
func addedDisguises(h string) []twin {
	base := files("fine.yaml", fineObject, "other/kustomization.yaml", "resources: [x.yaml]\n", "other/x.yaml", fineObject)
	add := func(name string, change ...string) twin {
		m := maps.Clone(base)
		maps.Copy(m, files(change...))
		return twin{name: name, plain: base, head: m}
	}
	return []twin{
		add("added in a chart", "n/Chart.yaml", chartFile, "n/h.yaml", h),
		add("added as data", "n/kustomization.yaml", "configMapGenerator: [{name: c, files: [h.yaml]}]\n", "n/h.yaml", h),
		add("added as a secret's data", "n/kustomization.yaml", "secretGenerator: [{name: c, files: [k=h.yaml]}]\n", "n/h.yaml", h),
		add("added in a component", "n/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [h.yaml]\n", "n/h.yaml", h),
		add("added as local config", "n/kustomization.yaml", "resources: [h.yaml]\n", "n/h.yaml", annotated(h, `config.kubernetes.io/local-config: "true"`)),
		add("added as a schema", "n/kustomization.yaml", "resources: [x.yaml]\nopenapi: {path: h.yaml}\n", "n/h.yaml", h, "n/x.yaml", fineObject),
		add("added and hidden", ".n/h.yaml", h),
		add("added in testdata", "n/testdata/h.yaml", h),
		add("added with a suite", "n/chainsaw-test.yaml", "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: x}\n", "n/h.yaml", h),
		add("added with a glob", ".preadmit/config.yaml", "exclude: [n]\n", "n/h.yaml", h),
		add("added beside a kustomization", "other/h.yaml", h),
		add("added as values", "n/kustomization.yaml", "helmCharts: [{name: c, releaseName: c, valuesFile: h.yaml}]\n", "n/charts/c/Chart.yaml", chartFile, "n/charts/c/values.yaml", "{}\n", "n/charts/c/templates/x.yaml", fineObject, "n/h.yaml", h),
		add("added and deleted", "n/kustomization.yaml", "resources: [h.yaml]\npatches: [{target: {name: hidden}, patch: \"$patch: delete\\napiVersion: v1\\nkind: X\\nmetadata: {name: hidden}\"}]\n", "n/h.yaml", h),
		add("added in a library chart", "n/Chart.yaml", chartFile+"type: library\n", "n/templates/h.yaml", h),
	}
}

const (
	definitionOfA = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: as.e.com}
spec:
  group: e.com
  scope: Namespaced
  names: {kind: A, plural: as, singular: a, listKind: AList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {x: {type: string, enum: [good]}}}}}}
`
	customObject = "apiVersion: e.com/v1\nkind: A\nmetadata: {name: hidden, namespace: prod}\nspec: {x: bad}\n"
)

// definedDisguises are the twins of an object that a definition of its kind denies.
func definedDisguises(t *testing.T) []twin {
	tree := changing(files("fine.yaml", fineObject, "crd.yaml", definitionOfA, "apps/h.yaml", strings.Replace(customObject, "x: bad", "x: bad, y: 1", 1)))
	loose := edited(t, definitionOfA, ", enum: [good]", "")
	return []twin{
		tree("definition: deleted", "crd.yaml", "", "apps/h.yaml", customObject),
		tree("definition: hidden", "crd.yaml", "", ".crd/crd.yaml", definitionOfA, "apps/h.yaml", customObject),
		tree("definition: twice, the other first", "a.yaml", loose, "apps/h.yaml", customObject),
		tree("definition: twice, the other last", "z.yaml", loose, "apps/h.yaml", customObject),
		tree("definition: not served", "crd.yaml", edited(t, definitionOfA, "served: true", "served: false"), "apps/h.yaml", customObject),
	}
}

// TestDefinitionsOfTheBaseHold holds that a change can't have an object pass by deleting
// the definition of its kind, or by adding another.
func TestDefinitionsOfTheBaseHold(t *testing.T) {
	t.Parallel()
	for _, tw := range definedDisguises(t) {
		t.Run(tw.name, func(t *testing.T) {
			t.Parallel()
			tw.head["apps/new.yaml"] = edited(t, customObject, "hidden", "other")
			code, said := checkTree(tw.repository(t, exitDenied), "--base", "HEAD")
			if code != exitDenied || !strings.Contains(said, "A prod/other") {
				t.Errorf("exit %d\n%s", code, said)
			}
		})
	}
}

// TestChangedUserIsReported holds that a change can't have its objects pass in silence by
// having Flux apply them as a user whom a policy exempts.
func TestChangedUserIsReported(t *testing.T) {
	t.Parallel()
	policy := edited(t, parameterPolicy, "  validations:", "  matchConditions: [{name: c, expression: 'request.userInfo.username != \"system:serviceaccount:flux-system:admin\"'}]\n  validations:")
	policy = edited(t, policy, "  paramKind: {apiVersion: v1, kind: ConfigMap}\n", "")
	policy = edited(t, policy, ", paramRef: {name: allowed, parameterNotFoundAction: Deny}", "")
	policy = edited(t, policy, "params.data.allow == 'yes'", "false")
	const account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: hidden, namespace: prod}\n"
	plain := files(".preadmit/config.yaml", ownRepository, "source.yaml", gitSource, "policy.yaml", policy, "apps/x.yaml", fineObject)
	as := fluxKustomization + "  serviceAccountName: admin\n"
	for name, c := range map[string]struct {
		base, head string
		code       int
		says       string
	}{
		"same":    {fluxKustomization, fluxKustomization, exitDenied, "denied: failed expression"},
		"changed": {fluxKustomization, as, exitDenied, "denied: exempted by this change of Kustomization k at k.yaml:9"},
		"new":     {"", as, exitIncomplete, "warning: exempted by this change of Kustomization k at k.yaml:9"}, // policy.yaml stops counting
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := maps.Clone(plain)
			if c.base != "" {
				base["k.yaml"] = c.base
			}
			tw := changing(base)(name, "k.yaml", c.head, "apps/h.yaml", account)
			code, said := checkTree(tw.repository(t, exitOK), "--base", "HEAD")
			if code != c.code || !strings.Contains(said, c.says) {
				t.Errorf("exit %d\n%s", code, said)
			}
		})
	}
}

// parameterPolicy denies ServiceAccounts unless a parameter of their namespace allows them.
const parameterPolicy = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [serviceaccounts]}]}
  validations: [{expression: "params.data.allow == 'yes'"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: p}
spec: {policyName: p, validationActions: [Deny], paramRef: {name: allowed, parameterNotFoundAction: Deny}}
`

// allowedDisguises are trees in which a change adds an object with the parameter that
// allows it.
func allowedDisguises(t *testing.T) []twin {
	const account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: hidden, namespace: prod}\n"
	const allows = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: allowed, namespace: prod}\ndata: {allow: 'yes'}\n"
	tree := changing(files("fine.yaml", fineObject, "policy.yaml", parameterPolicy, "other.yaml", edited(t, allows, "namespace: prod", "namespace: other")))
	return []twin{
		tree("allowed: by a parameter", "p.yaml", allows, "apps/h.yaml", account),
		tree("allowed: by the parameter of a new namespace", "p.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: prod}\n---\n"+allows, "apps/h.yaml", account),
	}
}

// brokenDisguises are trees in which a change adds an object to what could not be
// rendered before it either.
func brokenDisguises(h string) []twin {
	const remote = "https://example.org/a.yaml"
	kust := changing(files("fine.yaml", fineObject, "over/kustomization.yaml", "resources: [../apps, "+remote+"]\n", "apps/kustomization.yaml", "resources: [x.yaml]\n", "apps/x.yaml", fineObject))
	chart := changing(files("fine.yaml", fineObject, "c/Chart.yaml", chartFile+"dependencies: [{name: d, version: 1.0.0, repository: 'https://example.org'}]\n",
		"c/values.yaml", "open: false\n", "c/templates/x.yaml", fineObject, "c/templates/y.yaml", "{{ if .Values.open }}\n"+h+"{{ end }}\n"))
	return []twin{
		kust("broken: added in a kustomization", "over/kustomization.yaml", "resources: [../apps, h.yaml, "+remote+"]\n", "over/h.yaml", h),
		kust("broken: added in its base", "apps/kustomization.yaml", "resources: [x.yaml, h.yaml]\n", "apps/h.yaml", h),
		kust("broken: added to a file", "apps/x.yaml", fineObject+"---\n"+h),
		kust("broken: in place of another", "apps/x.yaml", h),
		chart("broken: added in a chart", "c/templates/h.yaml", h),
		chart("broken: by a value of a chart", "c/values.yaml", "open: true\n"),
	}
}

func TestNoDeployedTwinIsGreenAndSilent(t *testing.T) {
	t.Parallel()
	object := deniedObjects["pod"]
	compareTwins(t, exitDenied, graphDisguises(object), writtenDisguises(object), chartDisguises(object), renamedDisguises(object))
	compareTwins(t, exitOK, allowedDisguises(t))
	compareTwins(t, exitIncomplete, brokenDisguises(object))
}

// TestAddedAndNotDeployedIsNoted holds that what a change adds and nothing deploys, where
// nothing counted before, is said and is no reason to fail.
func TestAddedAndNotDeployedIsNoted(t *testing.T) {
	t.Parallel()
	for _, tw := range addedDisguises(deniedObjects["pod"]) {
		if tw.head[".preadmit/config.yaml"] != "" {
			continue // the base's configuration counts, so it is denied
		}
		t.Run(tw.name, func(t *testing.T) {
			t.Parallel()
			dir := tw.repository(t, exitOK)
			if code, said := checkTree(dir, "--base", "HEAD"); code != exitOK || !strings.Contains(said, "not deployed") && !strings.Contains(said, "in units that nothing deploys") {
				t.Errorf("exit %d\n%s", code, said)
			}
		})
	}
}

// compareTwins compares the twins of lists, whose plain trees end with the given exit code.
func compareTwins(t *testing.T, plain int, lists ...[]twin) {
	t.Helper()
	for _, tw := range slices.Concat(lists...) {
		t.Run(tw.name, func(t *testing.T) {
			t.Parallel()
			tw.compare(t, plain)
		})
	}
}

// compare checks the plain tree alone, then the other with it as the base.
func (tw *twin) compare(t *testing.T, plain int) {
	dir := tw.repository(t, plain)
	alone, said := checkTree(dir)
	deletes := strings.HasPrefix(tw.name, deletes)
	switch code, said := checkTree(dir, "--base", "HEAD"); {
	case deletes && (code != exitOK || !strings.Contains(said, "deleted: ")):
		t.Errorf("with --base: no ordinary deletion, exit %d\n%s", code, said)
	case !deletes && code == exitOK && alone != exitDenied:
		t.Errorf("with --base: exit 0\n%s", said)
	}
	spoken := strings.Contains(said, "not deployed") || strings.Contains(said, "in units that nothing deploys") || strings.Contains(said, "warning: ") || strings.Contains(said, "templates write more")
	if strings.HasPrefix(tw.name, "gate: ") { // a template decides by what only a cluster knows
		spoken = strings.Contains(said, "templates write more")
	}
	if alone == exitOK && !spoken && plain != exitOK && !tw.changeOnly {
		t.Errorf("alone: exit 0 and silent\n%s", said)
	}
}

// repository commits the plain tree, which is to exit with a code, and returns
// the directory with the other in its work tree.
func (tw *twin) repository(t *testing.T, plain int) string {
	t.Helper()
	dir := t.TempDir()
	repo, err := gittest.Init(dir)
	rendertest.OK(t, err)
	writeFiles(t, dir, tw.plain)
	if code, said := checkTree(dir); code != plain && plain >= 0 {
		t.Fatalf("in plain sight: exit %d\n%s", code, said)
	}
	if _, err := repo.CommitAll("base"); err != nil {
		t.Fatal(err)
	}
	for name := range tw.plain {
		rendertest.OK(t, os.Remove(filepath.Join(dir, name)))
	}
	writeFiles(t, dir, tw.head)
	return dir
}

// TestSubmoduleIsNotSilent holds that objects whose directory becomes a submodule are
// undecided, also where no .gitmodules says so.
func TestSubmoduleIsNotSilent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo, err := gittest.Init(dir)
	rendertest.OK(t, err)
	writeFiles(t, dir, files("fine.yaml", fineObject, "apps/h.yaml", deniedObjects["pod"]))
	if _, err := repo.CommitAll("base"); err != nil {
		t.Fatal(err)
	}
	rendertest.OK(t, os.Remove(filepath.Join(dir, "apps/h.yaml")))
	if code, said := checkTree(dir, "--base", "HEAD"); code != exitOK {
		t.Errorf("deleted: exit %d\n%s", code, said)
	}
	var staged bytes.Buffer
	link := &index.Entry{Name: "apps", Mode: filemode.Submodule, Hash: plumbing.NewHash("1234567890123456789012345678901234567890")}
	rendertest.OK(t, index.NewEncoder(&staged).Encode(&index.Index{Version: 2, Entries: []*index.Entry{link}}))
	writeFiles(t, dir, files(".git/index", staged.String()))
	if code, said := checkTree(dir, "--base", "HEAD"); code != exitIncomplete || !strings.Contains(said, "in the submodule apps now, which is not checked out") {
		t.Errorf("a submodule: exit %d\n%s", code, said)
	}
}

// TestNameLabelIsTheServers holds that no engine goes by what a Namespace's manifest says of
// kubernetes.io/metadata.name: the API server sets that label to the name.
func TestNameLabelIsTheServers(t *testing.T) {
	t.Parallel()
	const (
		selector  = "namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: prod}}"
		resources = "resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: ['*'], resources: [configmaps]}]"
		namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: prod, labels: {kubernetes.io/metadata.name: free}}\n"
		binding   = "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: p}\nspec: {policyName: p, validationActions: [Deny], matchResources: {" + selector + "}}\n"
		cel       = "metadata: {name: p}\nspec:\n  matchConstraints: {" + resources
	)
	for name, policy := range map[string]string{
		"ValidatingAdmissionPolicy": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n" + cel + "}\n  validations: [{expression: 'false'}]\n" + binding,
		"namespaceObject":           "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n" + cel + "}\n  validations: [{expression: 'namespaceObject.metadata.labels[\"kubernetes.io/metadata.name\"] != \"prod\"'}]\n" + strings.Replace(binding, ", matchResources: {"+selector+"}", "", 1),
		"ValidatingPolicy":          "apiVersion: policies.kyverno.io/v1\nkind: ValidatingPolicy\n" + cel + ", " + selector + "}\n  validationActions: [Deny]\n  validations: [{expression: 'false'}]\n",
		"Kyverno":                   "apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nmetadata: {name: p}\nspec:\n  rules:\n  - name: r\n    match: {any: [{resources: {kinds: [ConfigMap], " + selector + "}}]}\n    validate: {failureAction: Enforce, message: m, deny: {}}\n",
		"Gatekeeper": "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {name: denied}\nspec: {crd: {spec: {names: {kind: Denied}}}, targets: [{target: admission.k8s.gatekeeper.sh, rego: 'package denied\n\n      violation[{\"msg\": \"m\"}] { true }'}]}\n" +
			"---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Denied\nmetadata: {name: p}\nspec: {match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}], " + selector + "}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFiles(t, dir, files("policy.yaml", policy, "ns.yaml", namespace, "a.yaml", edited(t, fineObject, "name: fine", "name: hidden, namespace: prod")))
			if code, said := checkTree(dir); code != exitDenied || !strings.Contains(said, "prod/hidden") {
				t.Errorf("exit %d\n%s", code, said)
			}
		})
	}
}
