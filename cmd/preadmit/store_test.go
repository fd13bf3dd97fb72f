package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/render/store"
)

// archived packs files as `helm package` does.
func archived(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		rendertest.OK(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}))
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	rendertest.OK(t, w.Close())
	rendertest.OK(t, z.Close())
	return b.Bytes()
}

// standIn is the archive of a small chart.
func standIn(t testing.TB, name, version string) []byte {
	return archived(t, map[string]string{
		name + "/Chart.yaml":  "apiVersion: v2\nname: " + name + "\nversion: " + version + "\n",
		name + "/values.yaml": "image: example.org/" + name + "\nprivileged: false\n",
		name + "/templates/deployment.yaml": `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}
  labels: {version: "{{ .Chart.Version }}"}
spec:
  selector: {matchLabels: {app: {{ .Release.Name }}}}
  template:
    metadata: {labels: {app: {{ .Release.Name }}}}
    spec:
      hostNetwork: true
      containers:
      - name: main
        image: {{ .Values.image }}:{{ .Chart.Version }}
        securityContext:
          privileged: {{ .Values.privileged }}
`,
	})
}

const podinfoRelease = `apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: example, namespace: flux-system}
spec: {url: https://charts.example.org}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: apps}
spec:
  chart:
    spec:
      chart: podinfo
      version: 6.x
      sourceRef: {kind: HelmRepository, name: example, namespace: flux-system}
  values:
    privileged: true
`

// repositoryOf writes files into a new directory with an empty .git.
func repositoryOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	rendertest.OK(t, os.Mkdir(filepath.Join(dir, ".git"), 0o755))
	writeFiles(t, dir, files)
	return dir
}

// vendored are the files of a lock and its content.
func vendored(t *testing.T, entries map[store.Entry][]byte) map[string]string {
	t.Helper()
	files := make(map[string]string)
	lock := &store.Lock{}
	for e, data := range entries {
		e.Digest, e.Size = store.Digest(data), int64(len(data))
		lock.Put(e)
		files[store.VendorDir+"/"+store.BlobName(e.Digest)] = string(data)
	}
	data, err := lock.Marshal()
	rendertest.OK(t, err)
	files[store.LockFile] = string(data)
	return files
}

// ran runs the program, and returns its exit code and what it wrote.
func ran(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// TestVendoredChart renders a chart from committed files of the store. Places are in
// the values of the repository, and behind them in the chart.
func TestVendoredChart(t *testing.T) {
	t.Parallel()
	entry := store.Entry{Kind: render.HelmChart, URL: "https://charts.example.org", Name: "podinfo", Requested: "6.x", Resolved: "6.9.2"}
	files := vendored(t, map[store.Entry][]byte{entry: standIn(t, "podinfo", "6.9.2")})
	files["release.yaml"] = podinfoRelease
	dir := repositoryOf(t, files)

	code, out, errs := ran(t, "check", dir, "--pack", "pod-security-baseline")
	for _, want := range []string{"release.yaml:16:17", "in chart podinfo 6.9.2, templates/deployment.yaml:16", "in chart podinfo 6.9.2, templates/deployment.yaml:11"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s%s", want, out, errs)
		}
	}
	if code != exitDenied {
		t.Errorf("exit code %d", code)
	}
	report := filepath.Join(t.TempDir(), "report.sarif")
	ran(t, "check", dir, "-o", "sarif="+report)
	data := rendertest.ReadFile(t, report)
	if bytes.Contains(data, []byte("templates/deployment.yaml\"")) {
		t.Errorf("a location of SARIF is in the chart:\n%s", data)
	}

	// What is not as locked is never used.
	blob := filepath.Join(dir, filepath.FromSlash(store.VendorDir), "sha256")
	names, err := os.ReadDir(blob)
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	blob = filepath.Join(blob, names[0].Name())
	rendertest.OK(t, os.WriteFile(blob, standIn(t, "podinfo", "6.9.3"), 0o644))
	code, out, _ = ran(t, "check", dir, "--pack", "pod-security-baseline")
	if code != exitIncomplete || !strings.Contains(out, "has other content: its digest is") {
		t.Errorf("wrong content: exit code %d\n%s", code, out)
	}
	rendertest.OK(t, os.Remove(blob))
	code, out, _ = ran(t, "check", dir, "--pack", "pod-security-baseline")
	if code != exitIncomplete || !strings.Contains(out, "run `preadmit fetch --locked`") {
		t.Errorf("no content: exit code %d\n%s", code, out)
	}
}

// TestDefaultsOfCharts points from the default of a fetched chart at the place
// where its user would set another: at what there is of the maps around it.
func TestDefaultsOfCharts(t *testing.T) {
	t.Parallel()
	entry := store.Entry{Kind: render.HelmChart, URL: "https://charts.example.org", Name: "web", Requested: "1.0.0", Resolved: "1.0.0"}
	chart := archived(t, map[string]string{
		"web/Chart.yaml":                  "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"web/values.yaml":                 "pod:\n  network:\n    host: true\n",
		"web/templates/a.yaml":            strings.Replace(strings.ReplaceAll(deployment, "base", "{{ .Release.Name }}"), "hostNetwork: true", "hostNetwork: {{ .Values.pod.network.host }}", 1),
		"web/charts/sub/Chart.yaml":       "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
		"web/charts/sub/values.yaml":      "pod: {pid: true}\n",
		"web/charts/sub/templates/a.yaml": strings.Replace(strings.ReplaceAll(deployment, "base", "sub"), "hostNetwork: true", "hostPID: {{ .Values.pod.pid }}", 1),
	})
	flux := strings.NewReplacer("podinfo", "web", "6.x", "1.0.0").Replace(strings.Split(podinfoRelease, "  values:")[0])
	argo := "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: web, namespace: argocd}\nspec:\n  project: default\n  destination: {server: https://kubernetes.default.svc, namespace: apps}\n"
	for name, test := range map[string]struct{ text, main, sub string }{
		"no values":         {flux, "release.yaml:11:5", "release.yaml:11:5"},
		"other values":      {flux + "  values:\n    other: 1\n", "release.yaml:15:3", "release.yaml:15:3"},
		"the map":           {flux + "  values:\n    pod:\n      other: 1\n    sub: {x: 1}\n", "release.yaml:16:5", "release.yaml:18:5"},
		"the inner map":     {flux + "  values:\n    pod:\n      network: {x: 1}\n    sub: {pod: {x: 1}}\n", "release.yaml:17:7", "release.yaml:18:11"},
		"an Application":    {argo + "  source:\n    repoURL: https://charts.example.org\n    chart: web\n    targetRevision: 1.0.0\n    helm:\n      valuesObject:\n        pod: {x: 1}\n", "release.yaml:13:9", "release.yaml:12:7"},
		"of several":        {argo + "  sources:\n  - repoURL: https://charts.example.org\n    chart: web\n    targetRevision: 1.0.0\n    helm:\n      valuesObject:\n        pod: {x: 1}\n", "release.yaml:13:9", "release.yaml:12:7"},
		"without an object": {argo + "  source:\n    repoURL: https://charts.example.org\n    chart: web\n    targetRevision: 1.0.0\n    helm:\n      releaseName: web\n", "release.yaml:11:5", "release.yaml:11:5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := vendored(t, map[store.Entry][]byte{entry: chart})
			files["release.yaml"] = test.text
			code, out, errs := ran(t, "check", repositoryOf(t, files), "--pack", "pod-security-baseline", "-o", "concise")
			for _, want := range []string{test.main, test.sub} {
				if code != exitDenied || !strings.Contains(out, want+":") {
					t.Errorf("no %q, exit code %d\n%s%s", want, code, out, errs)
				}
			}
		})
	}
}
