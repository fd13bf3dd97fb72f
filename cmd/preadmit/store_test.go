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
	"github.com/preadmit/preadmit/render/store"
)

// archived packs files as `helm package` does.
func archived(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
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
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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

// TestVendored renders a chart from what is committed of the store: with the
// lines of the values in the repository, and those of the chart behind them.
func TestVendored(t *testing.T) {
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
	data, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(blob, standIn(t, "podinfo", "6.9.3"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, _ = ran(t, "check", dir, "--pack", "pod-security-baseline")
	if code != exitIncomplete || !strings.Contains(out, "holds something else") {
		t.Errorf("wrong content: exit code %d\n%s", code, out)
	}
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	code, out, _ = ran(t, "check", dir, "--pack", "pod-security-baseline")
	if code != exitIncomplete || !strings.Contains(out, "run `preadmit fetch --locked`") {
		t.Errorf("no content: exit code %d\n%s", code, out)
	}
}
