package main

import (
	"maps"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
)

// appSet is an ApplicationSet that deploys apps.
const appSet = `apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: a, namespace: argocd}
spec:
  goTemplate: true
  generators:
  - list: {elements: [{name: a, path: apps, env: prod}]}
  template:
    metadata: {name: '{{.name}}'}
    spec:
      project: default
      source: {repoURL: https://github.com/example/repo, path: '{{.path}}', targetRevision: HEAD}
      destination: {server: https://kubernetes.default.svc, namespace: default}
`

// changing returns a function that makes twins of a tree. A file without text is
// removed.
func changing(plain map[string]string) func(name string, change ...string) twin {
	return func(name string, change ...string) twin {
		head := maps.Clone(plain)
		maps.Copy(head, files(change...))
		maps.DeleteFunc(head, func(_, text string) bool { return text == "" })
		return twin{name: name, plain: plain, head: head}
	}
}

// edited replaces a text that has to be there.
func edited(t *testing.T, text, old, new string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("no %q in\n%s", old, text)
	}
	return strings.Replace(text, old, new, 1)
}

// generatedDisguises are the twins of an object that an ApplicationSet deploys.
func generatedDisguises(t *testing.T, h string) []twin {
	list := "  - list: {elements: [{name: a, path: apps, env: prod}]}\n"
	set := changing(files(".preadmit/config.yaml", ownRepository, "set.yaml", appSet, "apps/h.yaml", h, "apps/x.yaml", fineObject, "other/x.yaml", fineObject))
	generator := func(name, generator string) twin {
		return set("appset: "+name, "set.yaml", edited(t, appSet, list, "  - "+generator+"\n"))
	}
	return []twin{
		generator("selector", "list: {elements: [{name: a, path: apps, env: prod}]}\n    selector: {matchLabels: {env: none}}"),
		generator("other path", "list: {elements: [{name: a, path: other, env: prod}]}"),
		generator("git directories that exclude", "git: {repoURL: https://github.com/example/repo, revision: HEAD, directories: [{path: '*'}, {path: apps, exclude: true}]}"),
		generator("git files of which there are none", "git: {repoURL: https://github.com/example/repo, revision: HEAD, files: [{path: 'none/*.json'}]}"),
		generator("git of another revision", "git: {repoURL: https://github.com/example/repo, revision: v0, directories: [{path: apps}]}"),
		generator("clusters that nobody knows", "clusters: {selector: {matchLabels: {env: none}}}"),
		generator("pull requests", "pullRequest: {github: {owner: example, repo: repo}}"),
		generator("matrix with nothing", "matrix: {generators: [{list: {elements: [{name: a, path: apps}]}}, {list: {elements: []}}]}"),
		generator("merge with another path", "merge: {mergeKeys: [name], generators: [{list: {elements: [{name: a, path: apps}]}}, {list: {elements: [{name: a, path: other}]}}]}"),
		generator("elements in a text", "list: {elementsYaml: '[]'}"),
		generator("a generator that nobody knows", "nothing: {}"),
		set("appset: patch of the template", "set.yaml", appSet+"  templatePatch: |\n    spec: {source: {path: other}}\n"),
		set("appset: condition in the template", "set.yaml", edited(t, appSet, "path: '{{.path}}'", `path: '{{ if eq .env "prod" }}other{{ else }}apps{{ end }}'`)),
		set("appset: function that nobody knows", "set.yaml", edited(t, appSet, "{{.path}}", "{{ x .path }}")),
		set("appset: template by the generator", "set.yaml", edited(t, appSet, "env: prod}]}", "env: prod}], template: {metadata: {}, spec: {source: {path: other}}}}")),
		set("appset: not an argo namespace", "set.yaml", edited(t, appSet, "namespace: argocd", "namespace: elsewhere")),
		set("appset: strategy without steps", "set.yaml", appSet+"  strategy: {type: RollingSync, rollingSync: {steps: [{matchExpressions: [{key: env, operator: In, values: [none]}]}]}}\n"),
		set("appset: deleted", "set.yaml", ""),
	}
}

// configuredDisguises are the twins of an object that only the configuration
// deploys. The change removes that part of the configuration.
func configuredDisguises(t *testing.T, h string) []twin {
	const (
		clusters = "gitops: only\nclusters:\n- {name: prod, server: https://kubernetes.default.svc, entry: [clusters/prod]}\n- {name: dev, server: https://dev.example.org, entry: [clusters/dev]}\n" + ownRepository
		deployed = "gitops: only\ndeployments:\n- {path: c, release: web, values: [prod.yaml]}\n- {path: other}\n"
		sources  = "sources:\n- {url: https://github.com/example/charts, path: charts}\n" + ownRepository
	)
	at := func(kustomization, path string) string {
		return strings.Replace(kustomization, "./apps", path, 1)
	}
	config := ".preadmit/config.yaml"
	byCluster := changing(files(config, clusters, "apps/h.yaml", h, "fine/x.yaml", fineObject,
		"clusters/prod/s.yaml", gitSource, "clusters/prod/k.yaml", fluxKustomization,
		"clusters/dev/s.yaml", gitSource, "clusters/dev/k.yaml", at(fluxKustomization, "./fine")))
	byPath := changing(files(config, deployed, "other/x.yaml", fineObject, "prod.yaml", "enabled: true\n", "dev.yaml", "enabled: false\n",
		"c/Chart.yaml", chartFile, "c/values.yaml", "enabled: false\n", "c/templates/h.yaml", "{{ if .Values.enabled }}\n"+h+"{{ end }}\n"))
	charts := edited(t, strings.ReplaceAll(gitSource, "example/repo", "example/charts"), "name: r,", "name: charts,")
	bySource := changing(files(config, sources, "source.yaml", charts, "hr.yaml", edited(t, edited(t, helmRelease, "chart: c,", "chart: ./c,"), "name: r,", "name: charts,"),
		"charts/c/Chart.yaml", chartFile, "charts/c/templates/h.yaml", h, "empty/c/Chart.yaml", chartFile, "empty/c/templates/x.yaml", fineObject))
	byName := changing(files(config, ownRepository, "app.yaml", application, "apps/h.yaml", h))
	return []twin{
		byCluster("config: other entry", config, edited(t, clusters, "clusters/prod]", "clusters/dev]")),
		byCluster("config: cluster left out", config, edited(t, clusters, "- {name: prod, server: https://kubernetes.default.svc, entry: [clusters/prod]}\n", "")),
		byCluster("config: entry that is not there", config, edited(t, clusters, "clusters/prod]", "clusters/none]")),
		byCluster("config: no configuration of clusters", config, "gitops: only\n"+ownRepository+"deployments: [{path: fine}]\n"),
		byCluster("config: with in place of entry", config, edited(t, clusters, "entry: [clusters/prod]", "with: [fine]")),
		byCluster("config: unknown key", config, clusters+"nothing: 1\n"),
		byCluster("config: two documents", config, clusters+"---\nfail-on: never\n"),
		byCluster("config: no YAML", config, clusters+"x: [\n"),
		byCluster("config: UTF-16", config, "\xff\xfe"+wide(clusters, true, 2)),
		byPath("config: deployment left out", config, "gitops: only\ndeployments:\n- {path: other}\n"),
		byPath("config: other values", config, edited(t, deployed, "prod.yaml", "dev.yaml")),
		byPath("config: value set", config, edited(t, deployed, "values: [prod.yaml]", "values: [prod.yaml], set: {enabled: false}")),
		bySource("config: other source", config, edited(t, sources, "path: charts", "path: empty")),
		bySource("config: source left out", config, ownRepository),
		bySource("config: source outside", config, edited(t, sources, "path: charts", "path: ../charts")),
		byName("config: other repository", config, "repository: [github.com/example/other]\n"),
		byName("config: no GitOps", config, ownRepository+"gitops: off\nexclude: [apps]\n"),
		byName("config: by a deployment", config, ownRepository+"gitops: only\ndeployments: [{path: app.yaml}]\nsources: [{url: https://github.com/example/repo, path: .preadmit}]\n"),
	}
}

// fetchedDisguises are the twins of an object that a chart of a repository has,
// which was fetched.
func fetchedDisguises(t *testing.T, h string) []twin {
	entry := store.Entry{Kind: render.HelmChart, URL: "https://charts.example.org", Name: "podinfo", Requested: "6.x", Resolved: "6.9.2"}
	packed := func(template string) []byte {
		return archived(t, map[string]string{
			"podinfo/Chart.yaml":       "apiVersion: v2\nname: podinfo\nversion: 6.9.2\n",
			"podinfo/templates/h.yaml": template,
		})
	}
	of := func(content []byte) []string {
		var pairs []string
		for name, text := range vendored(t, map[store.Entry][]byte{entry: content}) {
			pairs = append(pairs, name, text)
		}
		return pairs
	}
	denied, fine := of(packed(h)), of(packed(fineObject))
	blob := func(pairs []string) (name, text string) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] != store.LockFile {
				name, text = pairs[i], pairs[i+1]
			}
		}
		return name, text
	}
	name, _ := blob(denied)
	_, other := blob(fine)
	lock := files(denied...)[store.LockFile]
	release := changing(files(append(denied, "release.yaml", podinfoRelease, "fine.yaml", fineObject)...))
	later := func(tw twin) twin { tw.changeOnly = true; return tw }
	return []twin{
		later(release("fetched: other content, locked for the same version", fine...)),
		later(release("fetched: other content, the old removed", append(fine, name, "")...)),
		release("fetched: other content by the same name", name, other),
		release("fetched: content removed", name, ""),
		release("fetched: lock removed", store.LockFile, ""),
		release("fetched: entry removed", store.LockFile, "version: 1\nentries: []\n"),
		release("fetched: lock broken", store.LockFile, lock+"x: [\n"),
		release("fetched: lock of another version", store.LockFile, edited(t, lock, "requested: 6.x", "requested: 7.x")),
		release("fetched: two documents in the lock", store.LockFile, lock+"---\nversion: 1\nentries: []\n"),
		later(release("fetched: source that is a copy", ".preadmit/config.yaml", "sources: [{object: HelmRepository/flux-system/example, path: copy}]\n", "copy/podinfo/Chart.yaml", chartFile, "copy/podinfo/templates/x.yaml", fineObject)),
	}
}

func TestNoGeneratedTwinIsGreenAndSilent(t *testing.T) {
	t.Parallel()
	object := deniedObjects["pod"]
	compareTwins(t, exitDenied, generatedDisguises(t, object), configuredDisguises(t, object), fetchedDisguises(t, object))
}

// TestFetchedBecomesDenied holds that new content in a lock is evaluated.
func TestFetchedBecomesDenied(t *testing.T) {
	t.Parallel()
	for _, tw := range fetchedDisguises(t, deniedObjects["pod"])[:1] {
		tw.plain, tw.head = tw.head, tw.plain
		code, said := checkTree(tw.repository(t, exitOK), "--base", "HEAD")
		if code != exitDenied || !strings.Contains(said, "hostNetwork") || !strings.Contains(said, "other content") {
			t.Errorf("exit %d\n%s", code, said)
		}
	}
}
