package main

import (
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/render/store"
)

// gitServer serves bare copies of repositories below /git by git's own program.
func gitServer(t *testing.T, repositories map[string]map[string]string) (*depot, map[string]string) {
	t.Helper()
	name, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git program, whose http-backend is the server")
	}
	root := t.TempDir()
	commits := make(map[string]string)
	for repo, files := range repositories {
		work := t.TempDir()
		writeFiles(t, work, files)
		r, err := gittest.Init(work)
		rendertest.OK(t, err)
		if commits[repo], err = r.CommitAll("one"); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(name, "clone", "--quiet", "--bare", work, filepath.Join(root, repo+".git")).CombinedOutput()
		if err != nil {
			t.Fatalf("%v %s", err, out)
		}
		if out, err := exec.Command(name, "-C", filepath.Join(root, repo+".git"), "tag", "v1.2.3").CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	d := newDepot(t, false)
	backend := &cgi.Handler{Path: name, Stderr: io.Discard, Args: []string{"http-backend"}, Root: "/git", Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	d.serve = func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/git/") {
			backend.ServeHTTP(w, r)
			return
		}
		d.plain(w, r)
	}
	return d, commits
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: base}
spec:
  selector: {matchLabels: {app: base}}
  template:
    metadata: {labels: {app: base}}
    spec:
      hostNetwork: true
      containers: [{name: main, image: example.org/base:1}]
`

// TestFetchGit fetches bases of kustomizations, their charts and files, and the
// repositories that Flux and Argo CD deploy from.
func TestFetchGit(t *testing.T) {
	t.Parallel()
	d, commits := gitServer(t, map[string]map[string]string{
		"base": {
			"deploy/kustomization.yaml": "resources: [../common]\nnamePrefix: x-\n", "common/kustomization.yaml": "resources: [deployment.yaml]\n",
			"common/deployment.yaml": deployment,
		},
		"apps": {"web/deployment.yaml": strings.ReplaceAll(deployment, "base", "web"), "values/web.yaml": "privileged: true\n"},
	})
	d.chart("inflated", "1.2.3", standIn(t, "inflated", "1.2.3"))
	d.chart("released", "2.0.0", standIn(t, "released", "2.0.0"))
	d.files["/files/config.yaml"] = []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: far}\n")
	d.files["/files/values.yaml"] = []byte("image: example.org/other\n")
	dir := repositoryOf(t, map[string]string{
		configFile: allow(d.host()),
		"app/kustomization.yaml": "resources:\n- " + d.URL + "/git/base.git//deploy?ref=v1.2.3\n- " + d.URL + "/files/config.yaml\n" +
			"helmCharts:\n- {name: inflated, repo: " + d.URL + "/charts, version: 1.2.3, releaseName: inflated}\n",
		"flux.yaml": `apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: apps, namespace: flux-system}
spec: {url: ` + d.URL + `/git/apps.git, ref: {semver: 1.x}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec: {path: ./web, prune: true, sourceRef: {kind: GitRepository, name: apps}}
`,
		"argo.yaml": `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: released, namespace: argocd}
spec:
  project: default
  destination: {server: https://kubernetes.default.svc, namespace: apps}
  sources:
  - repoURL: ` + d.URL + `/charts
    chart: released
    targetRevision: 2.*
    helm: {valueFiles: [$values/values/web.yaml, ` + d.URL + `/files/values.yaml]}
  - {repoURL: ` + d.URL + `/git/apps.git, targetRevision: ` + commits["apps"] + `, ref: values}
`,
	})
	code, out, errs := program(t, dir, nil, "fetch")
	if code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	lock := readFileText(t, dir, store.LockFile)
	for want, n := range map[string]int{"kind: git\n": 3, "kind: helm\n": 2, "kind: url\n": 2, "resolved: " + commits["apps"]: 2, "resolved: " + commits["base"]: 1} {
		if got := strings.Count(lock, want); got != n {
			t.Errorf("the lock has %d times %q, want %d:\n%s", got, want, n, lock)
		}
	}
	code, out, errs = program(t, dir, nil, "render")
	for _, want := range []string{"name: x-base", "name: far", "name: inflated", "name: web", "image: example.org/other:2.0.0", "privileged: true"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q, exit code %d\n%s%s", want, code, out, errs)
		}
	}
	code, out, errs = program(t, dir, nil, "check", "app", "--pack", "pod-security-baseline")
	for _, want := range []string{"app/kustomization.yaml:2:3: Deployment default/x-base", "--> app/kustomization.yaml:5:10"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q, exit code %d\n%s%s", want, code, out, errs)
		}
	}

	// The git program brings the same content, byte for byte.
	rendertest.OK(t, os.RemoveAll(filepath.Join(dir, ".preadmit/vendor")))
	if code, out, errs := program(t, dir, nil, "fetch", "--locked", "--git"); code != exitOK {
		t.Errorf("--git: exit code %d\n%s%s", code, out, errs)
	}
}
