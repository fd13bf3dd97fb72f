package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A stage is a tree with a place for a violation, which the change of files adds.
type stage struct {
	tree, violation map[string]string
}

const hostPod = "apiVersion: v1\nkind: Pod\nmetadata: {name: shown}\nspec: {hostNetwork: true, containers: [{name: a, image: a}]}\n"

// stages returns a tree for each place that can hold a violation.
func stages() map[string]stage {
	finePod := strings.Replace(hostPod, "hostNetwork: true, ", "", 1)
	filled := strings.Replace(hostPod, "{hostNetwork: true, containers: [{name: a, image: a}]}", "\n  hostNetwork: ${HOST}\n  containers: [{name: a, image: a}]", 1)
	valued := strings.Replace(hostPod, "true", "{{ .Values.host }}", 1)
	patch := "patches: [{target: {kind: Pod}, patch: '- {op: add, path: /spec/hostNetwork, value: true}'}]\n"
	component := "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nlabels: [{pairs: {a: b}}]\n"
	overlay := files("base/kustomization.yaml", "resources: [pod.yaml]\n", "base/pod.yaml", finePod, "over/kustomization.yaml", "resources: [../base]\ncomponents: [../part]\n", "part/kustomization.yaml", component)
	own := files(".preadmit/config.yaml", ownRepository)
	with := func(all map[string]string, more ...string) map[string]string {
		all = maps.Clone(all)
		maps.Copy(all, files(more...))
		return all
	}
	substituted := fluxKustomization + indented("postBuild: {substitute: {HOST: 'false'}}", 2)
	chart := files("c/Chart.yaml", chartFile, "c/values.yaml", "host: false\n", "c/templates/pod.yaml", valued)
	release := with(with(own, "flux/source.yaml", gitSource, "release.yaml", helmRelease+"  values: {host: false}\n"), pairsOf(chart)...)
	set := with(own, "set.yaml", appSet, "apps/pod.yaml", finePod)
	app := with(own, "app.yaml", application, "apps/pod.yaml", finePod)
	flux := with(own, "flux/source.yaml", gitSource, "flux/k.yaml", substituted, "apps/pod.yaml", filled)
	chartApp := with(own, "app.yaml", strings.Replace(application, "path: apps,", "path: c, helm: {parameters: [{name: host, value: 'false'}]},", 1), "c/Chart.yaml", chartFile, "c/values.yaml", "host: false\n", "c/templates/pod.yaml", valued)
	return map[string]stage{
		"file":             {files("apps/pod.yaml", finePod, "apps/x.yaml", fineObject), files("apps/pod.yaml", hostPod)},
		"file added":       {files("apps/x.yaml", fineObject), files("apps/pod.yaml", hostPod)},
		"template":         {chart, files("c/templates/pod.yaml", hostPod)},
		"values":           {chart, files("c/values.yaml", "host: true\n")},
		"overlay":          {overlay, files("over/kustomization.yaml", overlay["over/kustomization.yaml"]+patch)},
		"component":        {overlay, files("part/kustomization.yaml", component+patch)},
		"base":             {overlay, files("base/pod.yaml", hostPod)},
		"application":      {chartApp, files("app.yaml", strings.Replace(chartApp["app.yaml"], "'false'", "'true'", 1))},
		"applied file":     {app, files("apps/pod.yaml", hostPod)},
		"applied, added":   {app, files("apps/more.yaml", strings.Replace(hostPod, "shown", "more", 1))},
		"generated":        {set, files("apps/pod.yaml", hostPod)},
		"release":          {release, files("release.yaml", strings.Replace(release["release.yaml"], "host: false", "host: true", 1))},
		"released values":  {with(release, "release.yaml", helmRelease), files("c/values.yaml", "host: true\n")},
		"substitution":     {flux, files("flux/k.yaml", strings.Replace(substituted, "'false'", "'true'", 1))},
		"substituted file": {flux, files("apps/pod.yaml", hostPod)},
	}
}

// pairsOf returns the names and contents of files in turn.
func pairsOf(all map[string]string) (pairs []string) {
	for name, text := range all {
		pairs = append(pairs, name, text)
	}
	return pairs
}

// A curtain changes other files of a tree; contents of "" are removed.
type curtain func(tree map[string]string) map[string]string

// curtains returns changes that might hide a violation.
func curtains() map[string]curtain {
	add := func(pairs ...string) curtain {
		return func(map[string]string) map[string]string { return files(pairs...) }
	}
	// each changes the files whose name ends in suffix.
	each := func(suffix string, edit func(text string) string) curtain {
		return func(tree map[string]string) map[string]string {
			all := make(map[string]string)
			for name, text := range tree {
				if strings.HasSuffix(name, suffix) {
					all[name] = edit(text)
				}
			}
			return all
		}
	}
	gone := func(string) string { return "" }
	replace := func(old, now string) func(string) string {
		return func(text string) string { return strings.ReplaceAll(text, old, now) }
	}
	other := strings.NewReplacer("name: a,", "name: other,", "path: apps", "path: infra")
	set := func(generator string) string {
		return "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: other, namespace: argocd}\nspec:\n  goTemplate: true\n  generators: [" + generator + "]\n  template:\n" +
			indented("metadata: {name: '{{.name}}'}\n"+application[strings.Index(application, "spec:"):], 4)
	}
	infra := []string{"infra/cm.yaml", fineObject}
	root := func(text string) curtain { return add(append(infra, "roots/r.yaml", text)...) }
	return map[string]curtain{
		"an Application":             root(other.Replace(application)),
		"an Application elsewhere":   root(strings.ReplaceAll(other.Replace(application), "example/repo", "example/else")),
		"an Application of a chart":  root(strings.Replace(other.Replace(application), "path: infra", "chart: infra", 1)),
		"an example":                 add(append(infra, "docs/examples/r.yaml", other.Replace(application))...),
		"a set of nothing":           root(set("list: {elements: []}")),
		"a set of clusters":          root(set("clusters: {}")),
		"a set of pull requests":     root(set("pullRequest: {github: {owner: x, repo: y}}")),
		"a project":                  root("apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: x, namespace: argocd}\nspec: {}\n"),
		"a Kustomization":            root(gitSource + "---\n" + strings.NewReplacer("name: k,", "name: other,", "./apps", "./infra").Replace(fluxKustomization)),
		"a suspended one":            root(gitSource + "---\n" + strings.NewReplacer("name: k,", "name: other,", "./apps", "./infra").Replace(fluxKustomization) + "  suspend: true\n"),
		"a release":                  root(gitSource + "---\n" + strings.NewReplacer("name: h,", "name: other,", "chart: c,", "chart: infra,").Replace(helmRelease)),
		"a release of another chart": root("apiVersion: source.toolkit.fluxcd.io/v1\nkind: HelmRepository\nmetadata: {name: x}\nspec: {url: 'https://charts.example.org'}\n---\n" + strings.NewReplacer("name: h,", "name: other,", "GitRepository, name: r", "HelmRepository, name: x").Replace(helmRelease)),
		"an exclusion":               add(".preadmit/config.yaml", ownRepository+"exclude: ['**']\n"),
		"gitops only":                add(".preadmit/config.yaml", ownRepository+"gitops: only\n"),
		"another deployment":         add(append(infra, ".preadmit/config.yaml", ownRepository+"deployments: [{path: infra}]\n")...),
		"another entry":              add(append(infra, ".preadmit/config.yaml", ownRepository+"clusters: [{name: x, entry: [infra]}]\n")...),
		"warnings alone":             add(".preadmit/config.yaml", ownRepository+"fail-on: never\n"),
		"a suppression":              add(".preadmit/suppressions.yaml", "suppressions:\n- {rule: '**', object: '**', reason: x, expires: 2099-01-01}\n"),
		"a Namespace's labels":       add("ns.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {pod-security.kubernetes.io/enforce: privileged}}\n"),
		"a suite":                    add("apps/kyverno-test.yaml", "apiVersion: cli.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: x}\nresources: [pod.yaml, more.yaml]\npolicies: []\nresults: []\n"),
		"a chainsaw test":            add("apps/chainsaw-test.yaml", "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: x}\n"),
		"a kustomization beside it":  add("apps/kustomization.yaml", "resources: [z.yaml]\n", "apps/z.yaml", strings.Replace(fineObject, "fine", "z", 1)),
		"a generator that reads it":  add("apps/kustomization.yaml", "configMapGenerator: [{name: z, files: [pod.yaml]}]\n"),
		"a component beside it":      add("apps/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [pod.yaml]\n"),
		"a chart around it":          add("apps/Chart.yaml", chartFile),
		"a chart around everything":  add("Chart.yaml", chartFile),
		"files that Flux ignores":    add(".sourceignore", "*\n"),
		"files that Helm ignores":    add("c/.helmignore", "templates/*\n"),
		"a library":                  each("c/Chart.yaml", func(text string) string { return text + "type: library\n" }),
		"a remote base":              each("over/kustomization.yaml", replace("resources: [", "resources: ['https://example.org/x//y?ref=v1', ")),
		"no root":                    each("app.yaml", gone),
		"no set":                     each("set.yaml", gone),
		"no source":                  each("flux/source.yaml", gone),
		"no release":                 each("release.yaml", gone),
		"no Kustomization":           each("flux/k.yaml", gone),
		"another revision":           each("app.yaml", replace("targetRevision: HEAD", "targetRevision: v0")),
		"another repository":         each(".yaml", replace("github.com/example/repo", "github.com/example/else")),
		"an excluded file":           each("app.yaml", replace("path: apps,", "path: apps, directory: {exclude: '*'},")),
		"a plugin":                   each("app.yaml", replace("path: apps,", "path: apps, plugin: {name: x},")),
		"clusters instead of a list": each("set.yaml", replace("list: {elements: [{name: a, path: apps, env: prod}]}", "clusters: {}")),
		"values from a Secret":       each("release.yaml", func(text string) string { return text + "  valuesFrom: [{kind: Secret, name: none}]\n" }),
		"a suspended release":        each("release.yaml", func(text string) string { return text + "  suspend: true\n" }),
		"a suspended Kustomization":  each("flux/k.yaml", func(text string) string { return text + "  suspend: true\n" }),
		"substitution from a Secret": each("flux/k.yaml", replace("substitute: {", "substituteFrom: [{kind: Secret, name: none}], substitute: {")),
		"a patch that deletes": each("over/kustomization.yaml", func(text string) string {
			return text + "commonAnnotations: {config.kubernetes.io/local-config: 'true'}\n"
		}),
		"a template on upgrade alone": each("templates/pod.yaml", func(text string) string { return "{{ if .Release.IsUpgrade }}\n" + text + "{{ end }}\n" }),
	}
}

// TestNoCurtainHidesAViolation holds that a change which is denied is denied or undecided, too, if it
// changes anything besides. PREADMIT_LONG=1 draws two curtains at a time.
func TestNoCurtainHidesAViolation(t *testing.T) {
	t.Parallel()
	attempts := 0
	all := curtains()
	for where, s := range stages() {
		s.tree[".preadmit/config.yaml"] = ownRepository
		for name, draw := range all {
			drawn := []string{name}
			if os.Getenv("PREADMIT_LONG") != "" {
				for second := range all {
					if second > name {
						drawn = append(drawn, second)
					}
				}
			}
			for _, second := range drawn {
				change := maps.Clone(s.violation)
				head := maps.Clone(s.tree)
				maps.Copy(head, s.violation)
				maps.Copy(head, draw(head))
				if second != name {
					maps.Copy(head, all[second](head))
				}
				maps.DeleteFunc(head, func(_, text string) bool { return text == "" })
				if slices.ContainsFunc(slices.Collect(maps.Keys(s.violation)), func(file string) bool { return head[file] == "" }) {
					continue // the curtain removes the violation
				}
				plain := maps.Clone(s.tree)
				maps.Copy(plain, change)
				if maps.Equal(head, plain) {
					continue // the curtain finds nothing to change
				}
				attempts++
				t.Run(where+"/"+name+"/"+second, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					repo, err := gittest.Init(dir)
					rendertest.OK(t, err)
					writeFiles(t, dir, s.tree)
					_, err = repo.CommitAll("base")
					rendertest.OK(t, err)
					for file := range s.tree {
						rendertest.OK(t, os.Remove(filepath.Join(dir, file)))
					}
					writeFiles(t, dir, head)
					if code, said := checkTree(dir, "--base", "HEAD"); code != exitDenied && code != exitIncomplete {
						t.Errorf("exit %d\n%s", code, said)
					}
				})
			}
		}
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			tw := twin{plain: s.tree, head: maps.Clone(s.tree)}
			maps.Copy(tw.head, s.violation)
			if code, said := checkTree(tw.repository(t, -1), "--base", "HEAD"); code != exitDenied {
				t.Errorf("without a curtain: exit %d\n%s", code, said)
			}
		})
	}
	if attempts < 400 {
		t.Errorf("%d attempts, want 400", attempts)
	}
}
