package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/git"
	"github.com/preadmit/preadmit/render/git/gittest"
	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/render/store"
	"github.com/preadmit/preadmit/report"
)

// fluxRelease is a HelmRelease of a chart in a Helm repository.
func fluxRelease(name, url, version string) string {
	return fmt.Sprintf(`apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: %[1]s, namespace: flux-system}
spec: {url: %[2]s}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: %[1]s, namespace: apps}
spec:
  chart:
    spec:
      chart: %[1]s
      version: %[3]q
      sourceRef: {kind: HelmRepository, name: %[1]s, namespace: flux-system}
`, name, url, version)
}

// artifactRelease is a HelmRelease of an OCI artifact.
func artifactRelease(name, url, tag string) string {
	return fmt.Sprintf(`apiVersion: source.toolkit.fluxcd.io/v1
kind: OCIRepository
metadata: {name: %[1]s, namespace: apps}
spec: {url: %[2]s, ref: {tag: %[3]q}, layerSelector: {mediaType: %[4]q, operation: copy}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: %[1]s, namespace: apps}
spec: {chartRef: {kind: OCIRepository, name: %[1]s}}
`, name, url, tag, chartLayer)
}

func allow(hosts ...string) string {
	return "fetch:\n  hosts: [" + `"` + strings.Join(hosts, `", "`) + `"` + "]\n"
}

// TestFetch fetches a chart by HTTP, one from a registry, and an artifact, in
// ranges; then the lock says which they are, and everything is rendered.
func TestFetch(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	for _, version := range []string{"6.9.1", "6.9.2", "6.10.0-rc.1", "7.0.0"} {
		d.chart("podinfo", version, standIn(t, "podinfo", version))
		d.push("charts/backend", version, chartLayer, standIn(t, "backend", version))
	}
	d.push("apps/frontend", "stable", chartLayer, standIn(t, "frontend", "1.2.3"))
	dir := repositoryOf(t, map[string]string{
		"podinfo.yaml":  fluxRelease("podinfo", d.URL+"/charts", "6.x"),
		"backend.yaml":  strings.ReplaceAll(fluxRelease("backend", "oci://"+d.host()+"/charts", ">=6 <7"), "spec: {url", "spec: {type: oci, url"),
		"frontend.yaml": artifactRelease("frontend", "oci://"+d.host()+"/apps/frontend", "stable"),
		configFile:      allow(d.host()),
	})
	code, out, errs := program(t, dir, nil, "fetch")
	if code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	lock := readFileText(t, dir, store.LockFile)
	if !strings.HasPrefix(lock, "# yaml-language-server: $schema=") {
		t.Errorf("the lock does not begin with its schema:\n%s", lock)
	}
	for _, want := range []string{"requested: 6.x\n    resolved: 6.9.2", "resolved: 6.9.2\n", "requested: stable\n    resolved: stable", "kind: helm-oci", "kind: oci", "archive: " + d.URL + "/charts/podinfo-6.9.2.tgz"} {
		if !strings.Contains(lock, want) {
			t.Errorf("the lock has no %q:\n%s", want, lock)
		}
	}
	if code, out, errs := program(t, dir, nil, "graph"); code != exitOK || !strings.Contains(out, "chart podinfo 6.9.2") {
		t.Errorf("graph: exit code %d\n%s%s", code, out, errs)
	}
	if code, out, _ := program(t, dir, nil, "render"); code != exitOK || strings.Count(out, "kind: Deployment") != 3 {
		t.Errorf("render: exit code %d\n%s", code, out)
	}

	// A second time there is nothing to ask, with --locked neither.
	before := d.requests.Load()
	for _, args := range [][]string{{"fetch"}, {"fetch", "--locked"}, {"fetch", "--check"}} {
		if code, out, errs := program(t, dir, nil, args...); code != exitOK {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
	}
	if n := d.requests.Load() - before; n != 0 {
		t.Errorf("%d requests for what is there", n)
	}
	if got := readFileText(t, dir, store.LockFile); got != lock {
		t.Errorf("the lock changed:\n%s", got)
	}

	// Another version is taken when asked for, by name.
	d.chart("podinfo", "6.9.3", standIn(t, "podinfo", "6.9.3"))
	d.push("charts/backend", "6.9.3", chartLayer, standIn(t, "backend", "6.9.3"))
	if code, out, errs = program(t, dir, nil, "fetch", "--update=podinfo"); code != exitOK || !strings.Contains(out, "6.9.2 to 6.9.3") {
		t.Errorf("--update: exit code %d\n%s%s", code, out, errs)
	}
	if lock = readFileText(t, dir, store.LockFile); strings.Count(lock, "resolved: 6.9.3") != 1 {
		t.Errorf("--update=podinfo:\n%s", lock)
	}
	vendor, _ := os.ReadDir(filepath.Join(dir, ".preadmit/vendor/sha256"))
	if len(vendor) != 5 { // an archive, and a manifest and a layer twice
		t.Errorf("%d files in the store", len(vendor))
	}

	// What nothing needs any more is found, and goes.
	rendertest.OK(t, os.Remove(filepath.Join(dir, "backend.yaml")))
	writeFiles(t, dir, map[string]string{"podinfo.yaml": fluxRelease("podinfo", d.URL+"/charts", "7.x")})
	code, out, _ = program(t, dir, nil, "fetch", "--check")
	if code != exitDenied || !strings.Contains(out, "not locked: chart podinfo 7.x") || !strings.Contains(out, "not needed: chart backend") {
		t.Errorf("--check: exit code %d\n%s", code, out)
	}
	code, out, _ = program(t, dir, nil, "fetch", "--dry-run", "-o", "json")
	if code != exitOK || strings.Count(out, `"requested"`) != 1 || !strings.Contains(out, `"file": "podinfo.yaml"`) {
		t.Errorf("--dry-run: exit code %d\n%s", code, out)
	}
	if code, out, errs = program(t, dir, nil, "fetch"); code != exitOK {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if lock = readFileText(t, dir, store.LockFile); strings.Contains(lock, "backend") || !strings.Contains(lock, "resolved: 7.0.0") {
		t.Errorf("after a change:\n%s", lock)
	}
}

func readFileText(t *testing.T, dir, name string) string {
	t.Helper()
	data := rendertest.ReadFile(t, filepath.Join(dir, filepath.FromSlash(name)))
	return string(data)
}

// commitFiles commits the files of a directory.
func commitFiles(t *testing.T, dir string) {
	t.Helper()
	repo, err := gittest.Init(dir)
	rendertest.OK(t, err)
	if _, err := repo.CommitAll("all"); err != nil {
		t.Fatal(err)
	}
}

// TestFetchTen asks for the ten charts of seventy that are not in the store, and
// for nothing else; from two stores the report is the same.
func TestFetchTen(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	files := map[string]string{configFile: allow(d.host())}
	for i := range 70 {
		name := fmt.Sprintf("chart%02d", i)
		d.chart(name, "1.0.0", standIn(t, name, "1.0.0"))
		files[name+".yaml"] = fluxRelease(name, d.URL+"/charts", "1.x")
	}
	dir := repositoryOf(t, files)
	if code, _, errs := program(t, dir, nil, "fetch"); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if n := d.requests.Load(); n != 71 {
		t.Errorf("%d requests for seventy charts of one repository", n)
	}
	vendor := filepath.Join(dir, ".preadmit/vendor/sha256")
	blobs, err := os.ReadDir(vendor)
	if err != nil || len(blobs) != 70 {
		t.Fatal(len(blobs), err)
	}
	_, whole, _ := program(t, dir, nil, "check", "-o", "json")
	for _, b := range blobs[:10] {
		rendertest.OK(t, os.Remove(filepath.Join(vendor, b.Name())))
	}
	before := d.requests.Load()
	code, _, errs := program(t, dir, nil, "fetch")
	if n := d.requests.Load() - before; code != exitOK || n != 10 {
		t.Errorf("exit code %d, %d requests\n%s", code, n, errs)
	}
	elsewhere := t.TempDir()
	rendertest.OK(t, os.RemoveAll(filepath.Join(dir, ".preadmit/vendor")))
	if code, _, errs := program(t, dir, nil, "fetch", "--locked", "--store", elsewhere); code != exitOK {
		t.Fatalf("--store: exit code %d\n%s", code, errs)
	}
	code, again, errs := program(t, dir, nil, "check", "-o", "json", "--store", elsewhere)
	if code != exitOK || again != whole || strings.Count(whole, `"Deployment"`) == 0 {
		t.Errorf("from another store: exit code %d, the same is %t\n%s", code, again == whole, errs)
	}
}

// TestFetchBump evaluates a version bump by each side's own lock: what changes is
// that release alone.
func TestFetchBump(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		for _, name := range []string{"bumped", "kept"} {
			d.chart(name, version, standIn(t, name, version))
		}
	}
	dir := repositoryOf(t, map[string]string{
		"kept.yaml": fluxRelease("kept", d.URL+"/charts", "1.0.0"), "bumped.yaml": fluxRelease("bumped", d.URL+"/charts", "1.0.0"), configFile: allow(d.host()),
	})
	rendertest.OK(t, os.Remove(filepath.Join(dir, ".git")))
	for _, version := range []string{"1.0.0", "1.1.0"} {
		writeFiles(t, dir, map[string]string{"bumped.yaml": fluxRelease("bumped", d.URL+"/charts", version)})
		if code, _, errs := program(t, dir, nil, "fetch"); code != exitOK {
			t.Fatalf("exit code %d\n%s", code, errs)
		}
		commitFiles(t, dir)
	}
	policy := `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-update}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [UPDATE], resources: [deployments]}]}
  validations: [{expression: "object.metadata.labels == oldObject.metadata.labels", messageExpression: "object.metadata.name + ' changes to ' + object.metadata.labels.version"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-update}
spec: {policyName: no-update, validationActions: [Deny]}
`
	file := filepath.Join(t.TempDir(), "policy.yaml")
	rendertest.OK(t, os.WriteFile(file, []byte(policy), 0o644))
	base := parentOf(t, dir)
	code, out, errs := program(t, dir, nil, "check", "--base", base, "-p", file)
	if code != exitDenied || !strings.Contains(out, "bumped changes to 1.1.0") || strings.Contains(out, "kept changes") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if !strings.Contains(out, "in chart bumped 1.1.0, templates/deployment.yaml") {
		t.Errorf("the chart is not named:\n%s", out)
	}

	// A job that keeps the content elsewhere brings that of both sides.
	elsewhere := t.TempDir()
	rendertest.OK(t, os.RemoveAll(filepath.Join(dir, ".preadmit/vendor")))
	commitFiles(t, dir)
	code, said, errs := program(t, dir, nil, "fetch", "--locked", "--store", elsewhere, "--base", base)
	if code != exitOK || !strings.Contains(said, "3 fetched") {
		t.Errorf("exit code %d\n%s%s", code, said, errs)
	}
	if _, again, _ := program(t, dir, nil, "check", "--base", base, "-p", file, "--store", elsewhere); again != out {
		t.Errorf("from another store:\n%s", again)
	}
}

// parentOf returns the commit before the last of a repository.
func parentOf(t *testing.T, dir string) string {
	t.Helper()
	repo, err := git.Open(dir)
	rendertest.OK(t, err)
	defer repo.Close()
	c, err := repo.Resolve("HEAD~1")
	rendertest.OK(t, err)
	return c.Hash
}

// TestFetchHomeOps serves stand-ins for every chart of a large home-lab
// repository, by the names and versions that it asks for: what was not rendered
// at all then is.
func TestFetchHomeOps(t *testing.T) {
	t.Parallel()
	const home = "../../../shared/repos/home-ops"
	if _, err := os.Stat(home); err != nil {
		t.Skip("no ../shared/repos/home-ops here")
	}
	dir := t.TempDir()
	rendertest.OK(t, os.CopyFS(dir, os.DirFS(home)))
	rendertest.OK(t, os.MkdirAll(filepath.Join(dir, ".git"), 0o755))
	var was struct {
		Remotes []store.Need
		Units   []report.Unit
	}
	_, out, errs := program(t, dir, nil, "graph", "-o", "json")
	if err := json.Unmarshal([]byte(out), &was); err != nil {
		t.Fatal(err, errs)
	}
	d := newDepot(t, false)
	wanted := 0
	for _, r := range was.Remotes {
		if r.Kind == render.OCIArtifact {
			wanted++
			d.standIn(t, strings.TrimPrefix(r.URL, "oci://"), r.Version)
		}
	}
	if wanted < 40 {
		t.Fatalf("%d artifacts are asked for", wanted)
	}
	// The registries are other ones there: their names lead to the depot.
	rendertest.OK(t, replaceIn(dir, "oci://", "oci://"+d.host()+"/"))
	writeFiles(t, dir, map[string]string{configFile: allow(d.host())})
	code, out, errs := program(t, dir, nil, "fetch")
	fetched := strings.Count(out, "locked: artifact")
	if fetched != wanted {
		t.Errorf("exit code %d, %d of %d artifacts fetched\n%s", code, fetched, wanted, errs)
	}
	_, out, errs = program(t, dir, nil, "graph", "-o", "json")
	var now struct{ Units []report.Unit }
	if err := json.Unmarshal([]byte(out), &now); err != nil {
		t.Fatal(err, errs)
	}
	releases := func(units []report.Unit) (rendered, all int) {
		for _, u := range units {
			if strings.Contains(u.ID, "helmrelease/") {
				if all++; u.Status == "rendered" {
					rendered++
				}
			}
		}
		return rendered, all
	}
	before, _ := releases(was.Units)
	after, all := releases(now.Units)
	t.Logf("releases rendered: %d of %d before, %d after", before, all, after)
	if before != 0 || all < 60 || after != all {
		for _, u := range now.Units {
			if u.Status != "rendered" {
				t.Logf("%s %s: %s", u.ID, u.Status, u.Reason)
			}
		}
		t.Errorf("releases rendered: %d of %d before, %d after", before, all, after)
	}
}

// standIn pushes a chart in the place of one that a repository asks for.
func (d *depot) standIn(t *testing.T, name, version string) {
	if digest, ok := strings.CutPrefix(version, "sha256:"); ok {
		t.Fatalf("%s is asked for by the digest %s", name, digest)
	}
	d.push(name, version, chartLayer, standIn(t, path.Base(name), "1.0.0"))
}

// replaceIn replaces a text in all files of a directory.
func replaceIn(dir, old, now string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || filepath.Ext(name) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(data, []byte(old)) {
			return err
		}
		return os.WriteFile(name, bytes.ReplaceAll(data, []byte(old), []byte(now)), 0o644)
	})
}
