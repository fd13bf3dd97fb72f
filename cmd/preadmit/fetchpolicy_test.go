package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/render/store"
)

const kyvernoNoHost = `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: no-host-network}
spec:
  validationFailureAction: Enforce
  rules:
  - name: host
    match: {any: [{resources: {kinds: [Deployment]}}]}
    validate:
      message: by Kyverno
      pattern: {spec: {template: {spec: {=(hostNetwork): false}}}}
`

const gatekeeperLabels = `apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: needsteam}
spec:
  crd: {spec: {names: {kind: NeedsTeam}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package needsteam
      violation[{"msg": "by Gatekeeper"}] { not input.review.object.metadata.labels.team }
`

const gatekeeperConstraint = `apiVersion: constraints.gatekeeper.sh/v1beta1
kind: NeedsTeam
metadata: {name: team}
spec: {match: {kinds: [{apiGroups: [apps], kinds: [Deployment]}]}}
`

// pushPolicies puts policies into the registry as their tools do: `kyverno oci
// push`, `conftest push`, and a directory by oras, as Gatekeeper's bundles are.
func (d *depot) pushPolicies(t *testing.T) {
	d.pushLayers("policies/kyverno", "1", ociLayer{
		"application/vnd.cncf.kyverno.policy.layer.v1+yaml", []byte(kyvernoNoHost), map[string]string{"io.kyverno.image.kind": "ClusterPolicy", "io.kyverno.image.name": "no-host-network"},
	})
	title := func(name string) map[string]string { return map[string]string{"org.opencontainers.image.title": name} }
	d.pushLayers("policies/conftest", "latest",
		ociLayer{"application/vnd.cncf.openpolicyagent.policy.layer.v1+rego", []byte("package main\n\nimport rego.v1\n\ndeny contains data.texts.message if input.kind == \"Deployment\"\n\ntest_message if deny[\"by conftest\"] with input as {\"kind\": \"Deployment\"}\n"), title("policy/main.rego")},
		ociLayer{"application/vnd.cncf.openpolicyagent.data.layer.v1+json", []byte(`{"texts": {"message": "by conftest"}}`), title("texts.json")},
	)
	d.push("policies/gatekeeper", "v3", "application/vnd.oci.image.layer.v1.tar+gzip", archived(t, map[string]string{
		"library/template.yaml": gatekeeperLabels, "library/constraint.yaml": gatekeeperConstraint,
	}))
}

// TestFetchPolicies fetches the policies that the configuration names in a
// registry, and evaluates them offline.
func TestFetchPolicies(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	d.pushPolicies(t)
	at := "oci://" + d.host() + "/policies/"
	dir := repositoryOf(t, map[string]string{
		"web.yaml": deployment,
		configFile: allow(d.host()) + "policy: [" + at + "kyverno:1, " + at + "gatekeeper:v3]\n",
	})
	code, out, errs := program(t, dir, nil, "check")
	if code != exitIncomplete || !strings.Contains(errs, "artifact "+at+"kyverno 1 is not in the tree") || !strings.Contains(errs, "run `preadmit fetch`, with -p or --with if") {
		t.Errorf("before: exit code %d\n%s%s", code, out, errs)
	}
	flags := []string{"-p", at + "conftest", "--data", at + "conftest"}
	for _, command := range []string{"check", "test"} {
		code, out, errs := program(t, dir, nil, append([]string{command}, flags...)...)
		if code != exitIncomplete || !strings.Contains(errs, "run `preadmit fetch`, with -p or --with if "+configFile+" does not name it") {
			t.Errorf("%s before: exit code %d\n%s%s", command, code, out, errs)
		}
	}
	if code, out, errs = program(t, dir, nil, "fetch", "-p", at+"conftest"); code != exitOK || !strings.Contains(out, "3 sources needed, 3 fetched") {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	before := d.requests.Load()
	code, out, errs = program(t, dir, nil, "check")
	for _, want := range []string{"by Kyverno", "by Gatekeeper", "rule: no-host-network/host in artifact " + d.host() + "/policies/kyverno 1, clusterpolicy-no-host-network.yaml:7:5", "policies/gatekeeper v3, library/constraint.yaml:3"} {
		if code != exitDenied || !strings.Contains(out, want) {
			t.Errorf("no %q, exit code %d\n%s%s", want, code, out, errs)
		}
	}
	if code, out, errs = program(t, dir, nil, append([]string{"check", "."}, flags...)...); code != exitDenied || !strings.Contains(out, "by conftest") || strings.Contains(out, "by Kyverno") {
		t.Errorf("conftest's: exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs = program(t, dir, nil, append([]string{"test"}, flags...)...); code != exitOK || !strings.Contains(out, "test_message") {
		t.Errorf("tests of conftest's: exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs = program(t, dir, nil, "fetch", "--check", "-p", at+"conftest"); code != exitOK {
		t.Errorf("--check: exit code %d\n%s%s", code, out, errs)
	}
	if n := d.requests.Load() - before; n > 0 {
		t.Errorf("%d requests of an evaluation", n)
	}

	// Without its content, or with another, there is no verdict.
	blobs := filepath.Join(dir, ".preadmit/vendor/sha256")
	files, _ := os.ReadDir(blobs)
	for _, f := range files {
		name := filepath.Join(blobs, f.Name())
		data, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(data), "by Kyverno") {
			err = os.WriteFile(name, []byte(strings.Replace(string(data), "Enforce", "Audit", 1)), 0o644)
		}
		rendertest.OK(t, err)
	}
	if code, out, errs = program(t, dir, nil, "check"); code != exitIncomplete || !strings.Contains(errs, "has other content: its digest is") {
		t.Errorf("changed content: exit code %d\n%s%s", code, out, errs)
	}
}

// TestFetchPoliciesBase holds that a change is evaluated by the policies in the
// base's lock, although their tag has moved.
func TestFetchPoliciesBase(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	d.pushPolicies(t)
	at := "oci://" + d.host() + "/policies/kyverno:1"
	dir := repositoryOf(t, map[string]string{configFile: allow(d.host()) + "policy: [" + at + "]\n"})
	rendertest.OK(t, os.Remove(filepath.Join(dir, ".git")))
	if code, _, errs := program(t, dir, nil, "fetch"); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	commitFiles(t, dir)
	d.pushLayers("policies/kyverno", "1", ociLayer{mediaType: "application/vnd.cncf.kyverno.policy.layer.v1+yaml", data: []byte(strings.Replace(kyvernoNoHost, "Enforce", "Audit", 1))})
	writeFiles(t, dir, map[string]string{"web.yaml": deployment})
	elsewhere := t.TempDir()
	if code, out, errs := program(t, dir, nil, "fetch", "--update"); code != exitOK || !strings.Contains(out, "moved: artifact") {
		t.Fatalf("--update: exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs := program(t, dir, nil, "check"); code != exitOK {
		t.Errorf("by the change's: exit code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := program(t, dir, nil, "fetch", "--locked", "--base", "HEAD", "--store", elsewhere); code != exitIncomplete && code != exitOK {
		t.Errorf("--locked: exit code %d\n%s", code, errs)
	}
	code, out, errs := program(t, dir, nil, "check", "--base", "HEAD", "--store", elsewhere)
	if code != exitDenied || !strings.Contains(out, "by Kyverno") {
		t.Errorf("by the base's: exit code %d\n%s%s", code, out, errs)
	}

	// A lock of the change alone evaluates nothing.
	rendertest.OK(t, os.RemoveAll(filepath.Join(dir, ".git")))
	lock := readFileText(t, dir, store.LockFile)
	rendertest.OK(t, os.Remove(filepath.Join(dir, filepath.FromSlash(store.LockFile))))
	commitFiles(t, dir)
	writeFiles(t, dir, map[string]string{store.LockFile: lock})
	if code, out, errs = program(t, dir, nil, "check", "--base", "HEAD"); code != exitIncomplete || !strings.Contains(errs, "--base") || !strings.Contains(errs, "is not in the tree") {
		t.Errorf("without a lock there: exit code %d\n%s%s", code, out, errs)
	}
}
