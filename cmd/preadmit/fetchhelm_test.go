package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestFetchHelmCache takes the archive that is locked from Helm's cache, without
// asking anybody, and no other that lies there under its name.
func TestFetchHelmCache(t *testing.T) {
	t.Parallel()
	d, key := newDepot(t, false), newPGPKey(t)
	archive := standIn(t, "web", "1.0.0")
	d.chart("web", "1.0.0", archive)
	d.files["/charts/web-1.0.0.tgz.prov"] = key.sign(t, "web-1.0.0.tgz", archive)
	for _, config := range []string{allow(d.host()), verifying(d, "*", "key.gpg")} {
		dir := repositoryOf(t, map[string]string{"web.yaml": fluxRelease("web", d.URL+"/charts", "1.x"), configFile: config, "key.gpg": key.public(t)})
		if code, _, errs := program(t, dir, nil, "fetch"); code != exitOK {
			t.Fatalf("exit code %d\n%s", code, errs)
		}
		helm := t.TempDir()
		again := func() (requests int64, errs string) {
			rendertest.OK(t, os.RemoveAll(filepath.Join(dir, ".preadmit/vendor")))
			before := d.requests.Load()
			code, out, errs := program(t, dir, []string{"HELM_REPOSITORY_CACHE=" + helm}, "fetch", "--locked")
			if code != exitOK || !strings.Contains(out, "1 fetched") {
				t.Errorf("--locked: exit code %d\n%s%s", code, out, errs)
			}
			storeIsSound(t, dir)
			return d.requests.Load() - before, errs
		}
		writeFiles(t, helm, map[string]string{"web-1.0.0.tgz": string(archive), "web-1.0.0.tgz.prov": string(d.files["/charts/web-1.0.0.tgz.prov"])})
		if n, errs := again(); n != 0 {
			t.Errorf("%d requests for what Helm has\n%s", n, errs)
		}
		writeFiles(t, helm, map[string]string{"web-1.0.0.tgz": string(standIn(t, "web", "6.6.6"))})
		if n, errs := again(); n == 0 {
			t.Errorf("another archive of Helm's cache was taken\n%s", errs)
		}
	}
}

// TestStoreLayout reads what is locked from an OCI image layout, and brings what
// that lacks into it.
func TestStoreLayout(t *testing.T) {
	t.Parallel()
	d := newDepot(t, false)
	d.push("apps/web", "1.0.0", chartLayer, standIn(t, "web", "1.0.0"))
	dir := repositoryOf(t, map[string]string{"web.yaml": artifactRelease("web", "oci://"+d.host()+"/apps/web", "1.0.0"), configFile: allow(d.host())})
	layout := t.TempDir()
	writeFiles(t, layout, map[string]string{"oci-layout": `{"imageLayoutVersion":"1.0.0"}`, "index.json": `{"schemaVersion":2,"manifests":[]}`})
	for name, data := range d.files {
		kind, digest := filepath.Base(filepath.Dir(name)), strings.TrimPrefix(filepath.Base(name), "sha256:")
		if kind == "blobs" || kind == "manifests" {
			writeFiles(t, layout, map[string]string{"blobs/sha256/" + digest: string(data)})
		}
	}
	if code, _, errs := program(t, dir, nil, "fetch", "--store", layout); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, ".preadmit/vendor")); err == nil {
		t.Error("content is in the repository, too")
	}
	before := d.requests.Load()
	if code, out, errs := program(t, dir, nil, "render", "--store", layout); code != exitOK || !strings.Contains(out, "kind: Deployment") {
		t.Errorf("render: exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs := program(t, dir, nil, "fetch", "--locked", "--store", layout); code != exitOK || !strings.Contains(out, "0 fetched") {
		t.Errorf("--locked: exit code %d\n%s%s", code, out, errs)
	}
	rendertest.OK(t, os.RemoveAll(filepath.Join(layout, "blobs")))
	if code, _, _ := program(t, dir, nil, "render", "--store", layout); code != exitIncomplete || d.requests.Load() != before {
		t.Errorf("without blobs: exit code %d, %d requests", code, d.requests.Load()-before)
	}
	if code, out, errs := program(t, dir, nil, "fetch", "--locked", "--store", layout); code != exitOK || !strings.Contains(out, "1 fetched") {
		t.Errorf("brought again: exit code %d\n%s%s", code, out, errs)
	}
	if blobs, _ := os.ReadDir(filepath.Join(layout, "blobs/sha256")); len(blobs) != 2 {
		t.Errorf("%d blobs in the layout", len(blobs))
	}
}
