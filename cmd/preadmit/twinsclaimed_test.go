package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"

	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// newestDisguises are twins about what a chart writes by several conditions, about objects
// that are rendered and not applied, and about files that are nearly objects.
func newestDisguises(t *testing.T, h string) []twin {
	app := changing(files(".preadmit/config.yaml", ownRepository, "app.yaml", application, "apps/h.yaml", h, "apps/x.yaml", fineObject))
	chart := changing(files("c/Chart.yaml", chartFile, "c/templates/h.yaml", h, "c/templates/x.yaml", fineObject))
	flat := changing(files("fine.yaml", fineObject, "apps/h.yaml", h))
	kust := changing(files("k/kustomization.yaml", "resources: [h.yaml, x.yaml]\n", "k/h.yaml", h, "k/x.yaml", fineObject))
	gated := func(name string, lines ...string) twin {
		before, after := strings.Join(lines, "\n")+"\n", strings.Repeat("{{ end }}", len(lines))+"\n"
		return chart("gate: "+name, "c/templates/h.yaml", before+h+after)
	}
	hook := func(name, annotation string) twin {
		return chart("hook: "+name, "c/templates/h.yaml", annotated(h, annotation))
	}
	nearly := func(name, file, text string) twin {
		return flat("nearly: "+name, "apps/h.yaml", "", file, text)
	}
	json := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hidden"}, "spec": {"hostNetwork": true, "containers": [{"name": "a", "image": "a"}]}}`
	return []twin{
		gated("two versions, one without", `{{ if .Capabilities.APIVersions.Has "e.com/v1" }}`, `{{ if not (.Capabilities.APIVersions.Has "e.com/v2") }}`),
		gated("upgrade and a version", `{{ if .Release.IsUpgrade }}`, `{{ if .Capabilities.APIVersions.Has "e.com/v1" }}`),
		gated("install and no version", `{{ if .Release.IsInstall }}`, `{{ if .Capabilities.APIVersions.Has "e.com/v1" }}`),
		gated("four versions", `{{ if .Capabilities.APIVersions.Has "e.com/v1" }}`, `{{ if not (.Capabilities.APIVersions.Has "e.com/v2") }}`, `{{ if .Capabilities.APIVersions.Has "e.com/v3" }}`, `{{ if not (.Capabilities.APIVersions.Has "e.com/v4") }}`),
		gated("five versions", `{{ if .Capabilities.APIVersions.Has "e.com/v1" }}`, `{{ if .Capabilities.APIVersions.Has "e.com/v2" }}`, `{{ if .Capabilities.APIVersions.Has "e.com/v3" }}`, `{{ if .Capabilities.APIVersions.Has "e.com/v4" }}`, `{{ if .Capabilities.APIVersions.Has "e.com/v5" }}`),
		gated("a version and its kind", `{{ if and (.Capabilities.APIVersions.Has "e.com/v1") (not (.Capabilities.APIVersions.Has "e.com/v1/K")) }}`),
		gated("version by printf", `{{ if .Capabilities.APIVersions.Has (printf "%s/%s" "e.com" "v1") }}`),
		gated("version by has", `{{ if has "e.com/v1" .Capabilities.APIVersions }}`),
		gated("versions counted", `{{ if gt (len .Capabilities.APIVersions) 500 }}`),
		gated("version by range", `{{ range .Capabilities.APIVersions }}{{ if eq . "e.com/v1" }}`, `{{ if true }}`),
		gated("version by toJson", `{{ if contains "e.com/v1" (toJson .Capabilities.APIVersions) }}`),
		gated("version through a dict", `{{ $d := dict "c" .Capabilities }}{{ if $d.c.APIVersions.Has "e.com/v1" }}`),
		gated("version through tpl", `{{ if eq (tpl "{{ .Capabilities.APIVersions.Has \"e.com/v1\" }}" .) "true" }}`),
		gated("version through include", `{{ define "g" }}{{ .Capabilities.APIVersions.Has "e.com/v1" }}{{ end }}{{ if eq (include "g" .) "true" }}`),
		gated("upgrade by ternary", `{{ if ternary true false .Release.IsUpgrade }}`),
		gated("upgrade by toYaml", `{{ if contains "IsUpgrade: true" (toYaml .Release) }}`),
		gated("revision above one", `{{ if gt (int .Release.Revision) 1 }}`),
		gated("lookup of nothing", `{{ if lookup "v1" "Namespace" "" "kube-system" }}`),
		gated("lookup counted", `{{ if gt (len (lookup "v1" "Pod" "default" "").items) 0 }}`),
		gated("lookup by a dict", `{{ $l := (lookup "v1" "Secret" "default" "x") | default dict }}{{ if hasKey $l "data" }}`),
		gated("random text", `{{ if regexMatch "^[a-m]" (randAlpha 8) }}`),
		gated("the time", `{{ if eq (now | date "2006") "2031" }}`),
		gated("Helm's version", `{{ if semverCompare ">=9" .Capabilities.HelmVersion.Version }}`),
		gated("Kubernetes' minor", `{{ if gt (int .Capabilities.KubeVersion.Minor) 99 }}`),

		hook("test", `"helm.sh/hook": test`),
		hook("test and install", `"helm.sh/hook": "test,post-install"`),
		hook("unknown", `"helm.sh/hook": sometime`),
		hook("unknown and install", `"helm.sh/hook": "sometime,pre-install"`),
		hook("delete", `"helm.sh/hook": pre-delete`),
		hook("rollback", `"helm.sh/hook": post-rollback`),
		hook("empty", `"helm.sh/hook": ""`),
		hook("blank", `"helm.sh/hook": " "`),
		hook("upper case", `"helm.sh/hook": TEST`),
		hook("crd-install", `"helm.sh/hook": crd-install`),
		hook("weight only", `"helm.sh/hook-weight": "1"`),
		hook("resource policy", `"helm.sh/resource-policy": keep`),
		hook("Argo CD's skip", `"argocd.argoproj.io/hook": Skip`),
		app("argo: Skip", "apps/h.yaml", annotated(h, `"argocd.argoproj.io/hook": Skip`)),
		app("argo: PreSync and Skip", "apps/h.yaml", annotated(h, `"argocd.argoproj.io/hook": "PreSync,Skip"`)),
		app("argo: Helm's test", "apps/h.yaml", annotated(h, `"helm.sh/hook": test`)),
		app("argo: Helm's unknown", "apps/h.yaml", annotated(h, `"helm.sh/hook": sometime`)),
		app("argo: PostDelete", "apps/h.yaml", annotated(h, `"argocd.argoproj.io/hook": PostDelete`)),
		app("argo: directory that excludes", "app.yaml", edited(t, application, "path: apps,", "path: apps, directory: {exclude: h.yaml},")),
		app("argo: directory that includes", "app.yaml", edited(t, application, "path: apps,", "path: apps, directory: {include: x.yaml},")),
		app("argo: a kustomization beside", "apps/kustomization.yaml", "resources: [x.yaml]\n"),
		app("argo: a chart beside", "apps/Chart.yaml", chartFile),
		app("argo: below, not recursive", "apps/h.yaml", "", "apps/sub/h.yaml", h),
		app("argo: magic comment", "apps/h.yaml", "# +argocd:skip-file-rendering\n"+h),

		nearly("JSON with // comments", "apps/h.json", "// a\n"+json+"\n"),
		nearly("JSON with /* comments */", "apps/h.json", "/* a */ "+json+"\n"),
		nearly("JSON with a comment at the end", "apps/h.json", json+" // a\n"),
		nearly("JSON with a trailing comma", "apps/h.json", strings.TrimSuffix(json, "}")+",}\n"),
		nearly("JSON with a comment in the middle", "apps/h.json", strings.Replace(json, `"spec"`, "// a\n\"spec\"", 1)),
		nearly("JSON5 keys", "apps/h.json", strings.NewReplacer(`"apiVersion"`, "apiVersion", `"kind"`, "kind").Replace(json)),
		nearly("JSON lines", "apps/h.json", json+"\n"+json+"\n"),
		nearly("JSON in a list", "apps/h.json", "["+json+"]\n"),
		nearly("JSON behind a BOM", "apps/h.json", "\ufeff"+json+"\n"),
		nearly("JSON behind a byte", "apps/h.json", "\x00"+json+"\n"),
		nearly("JSON in a string", "apps/h.yaml", "'"+json+"'\n"),
		nearly("a literal of the whole file", "apps/h.yaml", "|\n"+indented(h, 2)),
		nearly("a folded literal", "apps/h.yaml", ">\n"+indented(json, 2)),
		nearly("a literal in a list", "apps/h.yaml", "- |\n"+indented(h, 4)),
		nearly("below a tag", "apps/h.yaml", "!x\n"+h),
		nearly("below an anchor", "apps/h.yaml", "&x\n"+h),
		nearly("a set", "apps/h.yaml", "!!set\n"+h),
		nearly("keys in quotes", "apps/h.yaml", strings.NewReplacer("apiVersion:", `"apiVersion":`, "kind:", `"ki\u006ed":`).Replace(h)),
		nearly("a merge key at the top", "apps/h.yaml", "<<:\n"+indented(h, 2)),
		nearly("a complex key", "apps/h.yaml", strings.Replace(h, "kind: Pod", "? kind\n: Pod", 1)),
		nearly("CR only", "apps/h.yaml", strings.ReplaceAll(h, "\n", "\r")),
		nearly("NEL", "apps/h.yaml", strings.ReplaceAll(h, "\n", "\u0085")),
		nearly("apiVersion with a space", "apps/h.yaml", strings.Replace(h, "apiVersion: v1", "apiVersion: 'v1 '", 1)),
		nearly("kind of a list", "apps/h.yaml", strings.Replace(h, "kind: Pod", "kind: [Pod]", 1)),
		nearly("in a List of Lists", "apps/h.yaml", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  -\n"+indented(h, 4)),
		nearly("in a PodList", "apps/h.yaml", "apiVersion: v1\nkind: PodList\nitems:\n-\n"+indented(strings.NewReplacer("apiVersion: v1\n", "", "kind: Pod\n", "").Replace(h), 2)),

		kust("kust: as a component", "k/kustomization.yaml", "resources: [x.yaml]\n", "comp/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [h.yaml]\n", "comp/h.yaml", h, "k/h.yaml", ""),
		kust("kust: two deletes", "k/kustomization.yaml", "resources: [h.yaml, x.yaml]\npatches:\n- patch: '[{op: replace, path: /metadata/annotations, value: {config.kubernetes.io/local-config: \"true\"}}]'\n  target: {name: hidden}\n"),
		kust("kust: patch of the kind", "k/kustomization.yaml", "resources: [h.yaml, x.yaml]\npatches:\n- patch: '[{op: replace, path: /kind, value: PodTemplate}]'\n  target: {name: hidden}\n"),
		kust("kust: patch of the apiVersion", "k/kustomization.yaml", "resources: [h.yaml, x.yaml]\npatches:\n- patch: '[{op: replace, path: /apiVersion, value: e.com/v1}]'\n  target: {name: hidden}\n"),
		kust("kust: replacement of the kind", "k/kustomization.yaml", "resources: [h.yaml, x.yaml]\nreplacements:\n- source: {kind: ConfigMap, fieldPath: kind}\n  targets: [{select: {name: hidden}, fieldPaths: [kind]}]\n"),
		kust("kust: annotation by commonAnnotations", "k/kustomization.yaml", "resources: [h.yaml, x.yaml]\ncommonAnnotations: {config.kubernetes.io/local-config: 'true'}\n"),
		kust("kust: in a generator", "k/kustomization.yaml", "resources: [x.yaml]\ngenerators: [h.yaml]\n"),
		kust("kust: as a validator", "k/kustomization.yaml", "resources: [x.yaml]\nvalidators: [h.yaml]\n"),
		kust("kust: as a crd", "k/kustomization.yaml", "resources: [x.yaml]\ncrds: [h.yaml]\n"),
		kust("kust: as a configuration", "k/kustomization.yaml", "resources: [x.yaml]\nconfigurations: [h.yaml]\n"),
		kust("kust: as a replacement's file", "k/kustomization.yaml", "resources: [x.yaml]\nreplacements: [{path: h.yaml}]\n"),
		kust("kust: two files of kustomize", "k/Kustomization", "resources: [x.yaml]\n"),
	}
}

// claimedDisguises are twins about which directory belongs to which unit, before and after
// the change.
func claimedDisguises(h string) []twin {
	const uses = "resources: [../base]\n"
	overlays := changing(files("base/kustomization.yaml", "resources: [h.yaml]\n", "base/h.yaml", h, "o/kustomization.yaml", uses, "p/kustomization.yaml", "resources: [x.yaml]\n", "p/x.yaml", fineObject))
	twice := changing(files("a/h.yaml", h, "a/x.yaml", fineObject, "b/a/h.yaml", h, "b/a/x.yaml", fineObject)) // one tree object
	chart := changing(files("c/Chart.yaml", chartFile, "c/templates/h.yaml", h, "c/values.yaml", "on: true\n", "d/Chart.yaml", chartFile, "d/templates/x.yaml", fineObject))
	set := changing(files(".preadmit/config.yaml", ownRepository, "set.yaml", strings.Replace(appSet, "list: {elements: [{name: a, path: apps, env: prod}]}", "git: {repoURL: https://github.com/example/repo, revision: HEAD, directories: [{path: 'apps/*'}]}", 1),
		"apps/a/h.yaml", h, "apps/b/x.yaml", fineObject))
	set = changing(withPath(set("").plain))
	component := "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\n"
	return []twin{
		overlays("overlay gone", "o/kustomization.yaml", ""),
		overlays("overlay without it", "o/kustomization.yaml", "resources: []\n"),
		overlays("base is a component", "base/kustomization.yaml", component+"resources: [h.yaml]\n"),
		overlays("base is a component that one uses", "base/kustomization.yaml", component+"resources: [h.yaml]\n", "o/kustomization.yaml", "components: [../base]\n"),
		overlays("overlay is a component", "o/kustomization.yaml", component+uses),
		overlays("two overlays use each other", "o/kustomization.yaml", "resources: [../base, ../p]\n", "p/kustomization.yaml", "resources: [../o, x.yaml]\n"),
		overlays("overlay above it", "o/kustomization.yaml", "", "kustomization.yaml", "resources: [p]\n"),
		overlays("the overlay deletes", "o/kustomization.yaml", uses+"patches: [{patch: '{apiVersion: v1, kind: Pod, metadata: {name: hidden}, $patch: delete}'}]\n"),
		overlays("another overlay, which deletes", "q/kustomization.yaml", uses+"patches: [{patch: '{apiVersion: v1, kind: Pod, metadata: {name: hidden}, $patch: delete}'}]\n", "o/kustomization.yaml", ""),
		overlays("base without it", "base/kustomization.yaml", "resources: []\n"),
		overlays("base without a kustomization, and the overlay names a file", "base/kustomization.yaml", "", "o/kustomization.yaml", "configMapGenerator: [{name: a, files: [../base/h.yaml]}]\n"),
		overlays("a chart above both", "Chart.yaml", chartFile),
		overlays("a chart above the base", "base/Chart.yaml", chartFile),
		overlays("base in a chart's templates", "base/kustomization.yaml", "", "base/h.yaml", "", "o/kustomization.yaml", "", "base/Chart.yaml", chartFile, "base/templates/_h.yaml", h),
		overlays("base renamed to what is hidden", "base/kustomization.yaml", "", "base/h.yaml", "", ".base/kustomization.yaml", "resources: [h.yaml]\n", ".base/h.yaml", h, "o/kustomization.yaml", "resources: []\n"),
		overlays("base by another name of the file", "base/kustomization.yaml", "", "base/kustomization.yml", "resources: []\n"),
		overlays("base in JSON", "base/kustomization.yaml", "{\"resources\": []}\n"),

		twice("one of two equal trees in a chart", "b/Chart.yaml", chartFile),
		twice("both in charts", "a/Chart.yaml", chartFile, "b/Chart.yaml", chartFile),
		twice("one in a kustomization without it", "a/kustomization.yaml", "resources: [x.yaml]\n"),
		twice("one above in a kustomization without it", "b/kustomization.yaml", "resources: [a/x.yaml]\n"),
		twice("a kustomization above both", "kustomization.yaml", "resources: [a/x.yaml, b/a/x.yaml]\n"),
		twice("one as another's generator", "a/h.yaml", h, "b/kustomization.yaml", "resources: [a/x.yaml]\ngenerators: [a/h.yaml]\n"),
		twice("one excluded by the configuration", ".preadmit/config.yaml", "exclude: [b/**]\n"),
		twice("one as a fixture", "b/a/h.yaml", "", "b/a/testdata/h.yaml", h),

		chart("dependency of another", "d/Chart.yaml", chartFile+"dependencies: [{name: c, version: 0.1.0, repository: 'file://../c', condition: c.on}]\n", "d/values.yaml", "c: {on: false}\n"),
		chart("dependency of another by tags", "d/Chart.yaml", chartFile+"dependencies: [{name: c, version: 0.1.0, repository: 'file://../c', tags: [t]}]\n", "d/values.yaml", "tags: {t: false}\n"),
		chart("dependency of itself", "c/Chart.yaml", chartFile+"dependencies: [{name: c, version: 0.1.0, repository: 'file://.'}]\n"),
		chart("dependencies in a circle", "c/Chart.yaml", chartFile+"dependencies: [{name: d, version: 0.1.0, repository: 'file://../d'}]\n", "d/Chart.yaml", chartFile+"dependencies: [{name: c, version: 0.1.0, repository: 'file://../c'}]\n"),
		chart("a library", "c/Chart.yaml", chartFile+"type: library\n"),
		chart("a library, used", "c/Chart.yaml", chartFile+"type: library\n", "d/Chart.yaml", chartFile+"dependencies: [{name: c, version: 0.1.0, repository: 'file://../c'}]\n"),
		chart("below another chart", "c/Chart.yaml", "", "c/templates/h.yaml", "", "d/charts/c/Chart.yaml", chartFile, "d/charts/c/templates/h.yaml", h, "d/Chart.yaml", chartFile+"dependencies: [{name: c, version: 0.1.0, repository: '', condition: c.on}]\n", "d/values.yaml", "c: {on: false}\n"),
		chart("below another chart's templates", "c/Chart.yaml", "", "c/templates/h.yaml", "", "d/templates/c/_h.yaml", h),
		chart("below another chart's files", "c/Chart.yaml", "", "c/templates/h.yaml", "", "d/files/h.yaml", h),
		chart("ignored by Helm", "c/.helmignore", "templates/h.yaml\n"),
		chart("without a version", "c/Chart.yaml", "apiVersion: v2\nname: c\n"),
		chart("for another Kubernetes", "c/Chart.yaml", chartFile+"kubeVersion: '<1.0'\n"),

		set("directories that exclude", "set.yaml", strings.Replace(withPath(set("").plain)["set.yaml"], "[{path: 'apps/*'}]", "[{path: 'apps/*'}, {path: apps/a, exclude: true}]", 1)),
		set("directory moved down", "apps/a/h.yaml", "", "apps/a/sub/h.yaml", h),
		set("directory moved away", "apps/a/h.yaml", "", "other/a/h.yaml", h),
		set("a chart in the directory", "apps/a/Chart.yaml", chartFile),
		set("a kustomization in the directory", "apps/a/kustomization.yaml", "resources: []\n"),
		set("a Jsonnet file in the directory", "apps/a/x.jsonnet", "{}\n", "apps/a/h.yaml", "", "apps/a/h.libsonnet", "{}\n"),
	}
}

// withPath has an ApplicationSet take the path of Git's directories.
func withPath(all map[string]string) map[string]string {
	all = maps.Clone(all)
	all["set.yaml"] = strings.NewReplacer("'{{.name}}'", "'{{.path.basename}}'", "'{{.path}}'", "'{{.path.path}}'").Replace(all["set.yaml"])
	return all
}

// TestNoClaimedTwinIsGreenAndSilent holds the same for what other units claim.
func TestNoClaimedTwinIsGreenAndSilent(t *testing.T) {
	t.Parallel()
	compareTwins(t, exitDenied, claimedDisguises(deniedObjects["pod"]))
}

// TestNoNewestTwinIsGreenAndSilent holds the same for the newest disguises.
func TestNoNewestTwinIsGreenAndSilent(t *testing.T) {
	t.Parallel()
	compareTwins(t, exitDenied, newestDisguises(t, deniedObjects["pod"]))
}

// TestNoAddedTwinIsGreenAndSilent holds the same for objects that the base does not have.
func TestNoAddedTwinIsGreenAndSilent(t *testing.T) {
	t.Parallel()
	for _, tw := range newestDisguises(t, deniedObjects["pod"]) {
		t.Run(tw.name, func(t *testing.T) {
			t.Parallel()
			tw.plain = maps.Clone(tw.plain)
			maps.DeleteFunc(tw.plain, func(_, text string) bool { return strings.Contains(text, "name: hidden") })
			dir := tw.repository(t, -1)
			if code, said := checkTree(dir, "--base", "HEAD"); code == exitOK && !strings.Contains(said, "not deployed") && !strings.Contains(said, "templates write more") && !strings.Contains(said, "in units that nothing deploys") {
				t.Errorf("exit 0 and silent\n%s", said)
			}
		})
	}
}

// TestSparseCheckoutIsNotSilent holds that what a sparse checkout leaves out is neither
// deleted nor passed, whether the base has it or not.
func TestSparseCheckoutIsNotSilent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo, err := gittest.Init(dir)
	rendertest.OK(t, err)
	writeFiles(t, dir, files("in/fine.yaml", fineObject, "out/h.yaml", deniedObjects["pod"]))
	if _, err := repo.CommitAll("base"); err != nil {
		t.Fatal(err)
	}
	rendertest.OK(t, os.RemoveAll(filepath.Join(dir, "out")))
	var staged bytes.Buffer
	entries := []*index.Entry{{Name: "in/fine.yaml", Mode: filemode.Regular}}
	for _, name := range []string{"out/h.yaml", "out/new.yaml"} {
		entries = append(entries, &index.Entry{Name: name, Mode: filemode.Regular, SkipWorktree: true})
	}
	rendertest.OK(t, index.NewEncoder(&staged).Encode(&index.Index{Version: 3, Entries: entries}))
	writeFiles(t, dir, files(".git/index", staged.String(), ".git/info/sparse-checkout", "/in/\n"))
	code, said := checkTree(dir, "--base", "HEAD")
	for _, want := range []string{
		"no longer checked: out/h.yaml:1 is left out of this sparse checkout",
		"not checked: this sparse checkout leaves out 1 file that the base does not have, the first out/new.yaml",
	} {
		if code != exitIncomplete || !strings.Contains(said, want) {
			t.Errorf("exit %d, want %q in\n%s", code, want, said)
		}
	}
	if code, said := checkTree(filepath.Join(dir, "in"), "--base", "HEAD"); code != exitOK {
		t.Errorf("paths that are checked out: exit %d\n%s", code, said)
	}
	writeFiles(t, dir, files(".git/index", "DIRC"))
	if code, said := checkTree(dir, "--base", "HEAD"); code != exitIncomplete || !strings.Contains(said, "what this sparse checkout leaves out is not known") {
		t.Errorf("an index that can't be read: exit %d\n%s", code, said)
	}
}
