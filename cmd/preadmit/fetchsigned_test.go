package main

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"helm.sh/helm/v3/pkg/provenance"

	"github.com/preadmit/preadmit/render/rendertest"
	"github.com/preadmit/preadmit/render/store"
)

// A pgpKey signs charts as `helm package --sign` does.
type pgpKey struct{ entity *openpgp.Entity }

func newPGPKey(t *testing.T) pgpKey {
	t.Helper()
	e, err := openpgp.NewEntity("Ann", "", "ann@example.org", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	rendertest.OK(t, err)
	return pgpKey{e}
}

// public is a keyring with the key, as `gpg --export` writes it.
func (p pgpKey) public(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	rendertest.OK(t, p.entity.Serialize(&b))
	return b.String()
}

// sign is the provenance file of an archive, as Helm makes it.
func (p pgpKey) sign(t *testing.T, name string, archive []byte) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	rendertest.OK(t, os.WriteFile(file, archive, 0o600))
	text, err := (&provenance.Signatory{Entity: p.entity}).ClearSign(file)
	rendertest.OK(t, err)
	return []byte(text)
}

// A cosignKey signs manifests as cosign does.
type cosignKey struct{ crypto.Signer }

func newCosignKey(t *testing.T) cosignKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rendertest.OK(t, err)
	return cosignKey{key}
}

func (c cosignKey) public(t *testing.T) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(c.Public())
	rendertest.OK(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func (c cosignKey) sign(t *testing.T, text []byte) string {
	t.Helper()
	sum, hash := sha256.Sum256(text), crypto.SHA256
	signed := sum[:]
	if _, ok := c.Signer.(ed25519.PrivateKey); ok {
		signed, hash = text, 0
	}
	signature, err := c.Sign(rand.Reader, signed, hash)
	rendertest.OK(t, err)
	return base64.StdEncoding.EncodeToString(signature)
}

// simple puts a signature of a manifest beside it, in cosign's first format.
func (c cosignKey) simple(t *testing.T, d *depot, name, digest, of string) {
	t.Helper()
	payload := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":"x"},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, of)
	d.pushLayers(name, strings.Replace(digest, ":", "-", 1)+".sig", ociLayer{
		"application/vnd.dev.cosign.simplesigning.v1+json", payload, map[string]string{"dev.cosignproject.cosign/signature": c.sign(t, payload)},
	})
}

const bundleMediaType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// bundle has a bundle with a signature of a manifest refer to it.
func (c cosignKey) bundle(t *testing.T, d *depot, name, digest, predicate string) {
	t.Helper()
	const kind = "application/vnd.in-toto+json"
	statement := fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":%q}}],"predicateType":%q,"predicate":{}}`, strings.TrimPrefix(digest, "sha256:"), predicate)
	text := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(statement), statement)
	data, err := json.Marshal(map[string]any{
		"mediaType": bundleMediaType, "verificationMaterial": map[string]any{"publicKey": map[string]any{"hint": "x"}},
		"dsseEnvelope": map[string]any{"payload": statement, "payloadType": kind, "signatures": []any{map[string]any{"sig": c.sign(t, text)}}},
	})
	rendertest.OK(t, err)
	d.refer(name, digest, bundleMediaType, d.pushLayers(name, "", ociLayer{mediaType: bundleMediaType, data: data}))
}

const signPredicate = "https://sigstore.dev/cosign/sign/v1"

// verifying is a configuration that asks for signatures.
func verifying(d *depot, address, key string) string {
	return allow(d.host()) + "  verify:\n  - {url: " + `"` + address + `"` + ", key: " + key + "}\n"
}

// TestFetchSigned fetches what is signed by the key that the configuration names,
// and keeps nothing of what is not.
func TestFetchSigned(t *testing.T) {
	t.Parallel()
	pgp, other := newPGPKey(t), newPGPKey(t)
	cosign, another := newCosignKey(t), newCosignKey(t)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	rendertest.OK(t, err)
	ed := cosignKey{private}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	rendertest.OK(t, err)
	big := cosignKey{long}
	archive := standIn(t, "web", "1.0.0")
	provenanceOf := func(data []byte) func(d *depot) {
		return func(d *depot) { d.files["/charts/web-1.0.0.tgz.prov"] = data }
	}
	oci := func(sign func(d *depot, digest string)) func(d *depot) {
		return func(d *depot) { sign(d, d.tags["apps/web:1.0.0"]) }
	}
	tampered := bytes.Replace(pgp.sign(t, "web-1.0.0.tgz", archive), []byte("web-1.0.0.tgz: sha256:"), []byte("web-1.0.0.tgz: sha256:0"), 1)
	const http, registry, charts = "http", "oci", "helm-oci"
	layered := func(data []byte) func(d *depot) {
		return func(d *depot) {
			d.pushLayers("apps/web", "1.0.0", ociLayer{mediaType: chartLayer, data: archive}, ociLayer{mediaType: "application/vnd.cncf.helm.chart.provenance.v1.prov", data: data})
		}
	}
	for name, test := range map[string]struct {
		from, key string
		sign      func(d *depot)
		want      string // of the error; "" is that it is verified
	}{
		"provenance":             {http, pgp.public(t), provenanceOf(pgp.sign(t, "web-1.0.0.tgz", archive)), ""},
		"no provenance":          {http, pgp.public(t), func(*depot) {}, "provenance file: "},
		"another's provenance":   {http, pgp.public(t), provenanceOf(other.sign(t, "web-1.0.0.tgz", archive)), "not signed by a key of the keyring"},
		"provenance of another":  {http, pgp.public(t), provenanceOf(pgp.sign(t, "web-1.0.0.tgz", standIn(t, "evil", "1.0.0"))), "that of evil 1.0.0"},
		"provenance of its like": {http, pgp.public(t), provenanceOf(pgp.sign(t, "web-1.0.0.tgz", append(archive, 0))), "another archive"},
		"tampered provenance":    {http, pgp.public(t), provenanceOf(tampered), "not signed by a key of the keyring"},
		"no signature in it":     {http, pgp.public(t), provenanceOf([]byte("name: web\nversion: 1.0.0\n\n...\nfiles: {}\n")), "has no signature"},
		"cosign of an archive":   {http, cosign.public(t), func(*depot) {}, "content of OCI registries alone"},
		"cosign":                 {registry, cosign.public(t), oci(func(d *depot, digest string) { cosign.simple(t, d, "apps/web", digest, digest) }), ""},
		"Ed25519":                {registry, ed.public(t), oci(func(d *depot, digest string) { ed.simple(t, d, "apps/web", digest, digest) }), ""},
		"RSA":                    {registry, big.public(t), oci(func(d *depot, digest string) { big.bundle(t, d, "apps/web", digest, signPredicate) }), ""},
		"bundle":                 {registry, cosign.public(t), oci(func(d *depot, digest string) { cosign.bundle(t, d, "apps/web", digest, signPredicate) }), ""},
		"Ed25519 bundle":         {registry, ed.public(t), oci(func(d *depot, digest string) { ed.bundle(t, d, "apps/web", digest, signPredicate) }), ""},
		"one of two keys":        {registry, another.public(t) + cosign.public(t), oci(func(d *depot, digest string) { cosign.bundle(t, d, "apps/web", digest, signPredicate) }), ""},
		"no cosign":              {registry, cosign.public(t), func(*depot) {}, "there is no signature of it"},
		"another's cosign":       {registry, cosign.public(t), oci(func(d *depot, digest string) { another.simple(t, d, "apps/web", digest, digest) }), "was not made by the key"},
		"another's bundle":       {registry, cosign.public(t), oci(func(d *depot, digest string) { another.bundle(t, d, "apps/web", digest, signPredicate) }), "was not signed by the key"},
		"cosign of another":      {registry, cosign.public(t), oci(func(d *depot, digest string) { cosign.simple(t, d, "apps/web", digest, store.Digest(nil)) }), "that of another artifact"},
		"an attestation": {registry, cosign.public(t), oci(func(d *depot, digest string) {
			cosign.bundle(t, d, "apps/web", digest, "https://slsa.dev/provenance/v1")
		}), "attestation of another type"},
		"provenance layer":        {charts, pgp.public(t), layered(pgp.sign(t, "web-1.0.0.tgz", archive)), ""},
		"another's layer":         {charts, pgp.public(t), layered(other.sign(t, "web-1.0.0.tgz", archive)), "not signed by a key of the keyring"},
		"layer of another":        {charts, pgp.public(t), layered(pgp.sign(t, "web-1.0.0.tgz", append(archive, 0))), "another archive"},
		"no layer":                {charts, pgp.public(t), func(*depot) {}, "there is no signature of it"},
		"cosign of a chart":       {charts, cosign.public(t), oci(func(d *depot, digest string) { cosign.bundle(t, d, "apps/web", digest, signPredicate) }), ""},
		"a keyring for artifacts": {registry, pgp.public(t), func(*depot) {}, "verifies charts alone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDepot(t, false)
			d.chart("web", "1.0.0", archive)
			d.push("apps/web", "1.0.0", chartLayer, archive)
			test.sign(d)
			release := fluxRelease("web", d.URL+"/charts", "1.0.0")
			switch test.from {
			case charts:
				release = strings.ReplaceAll(fluxRelease("web", "oci://"+d.host()+"/apps", "1.0.0"), "spec: {url", "spec: {type: oci, url")
			case registry:
				release = artifactRelease("web", "oci://"+d.host()+"/apps/web", "1.0.0")
			}
			dir := repositoryOf(t, map[string]string{"web.yaml": release, configFile: verifying(d, "*", "keys/web.pub"), "keys/web.pub": test.key})
			code, out, errs := program(t, dir, nil, "fetch")
			files, _ := os.ReadDir(filepath.Join(dir, ".preadmit/vendor/sha256"))
			lock := storeIsSound(t, dir)
			if test.want != "" {
				if code != exitIncomplete || !strings.Contains(errs, test.want) || !strings.Contains(errs, "web") || lock != nil || len(files) > 0 {
					t.Errorf("exit code %d, want %q, %d files\n%s%s", code, test.want, len(files), out, errs)
				}
				return
			}
			if code != exitOK || lock == nil || lock.Entries[0].Signature == "" {
				t.Fatalf("exit code %d\n%s%s", code, out, errs)
			}
			if code, out, _ := program(t, dir, nil, "render"); code != exitOK || !strings.Contains(out, "kind: Deployment") {
				t.Errorf("render: exit code %d\n%s", code, out)
			}
			if code, out, _ := program(t, dir, nil, "fetch", "--check"); code != exitOK {
				t.Errorf("--check: exit code %d\n%s", code, out)
			}
			// Brought again it is verified again.
			rendertest.OK(t, os.RemoveAll(filepath.Join(dir, ".preadmit/vendor")))
			if code, _, errs := program(t, dir, nil, "fetch", "--locked"); code != exitOK {
				t.Errorf("--locked: exit code %d\n%s", code, errs)
			}
			// Another key verifies nothing of what is there.
			writeFiles(t, dir, map[string]string{"keys/web.pub": newCosignKey(t).public(t)})
			if code, out, _ := program(t, dir, nil, "check"); code != exitIncomplete || !strings.Contains(out, "not verified by keys/web.pub") {
				t.Errorf("another key: exit code %d\n%s", code, out)
			}
		})
	}
}

// TestFetchSignedBase trusts the keys of the base: a change neither drops the rule
// nor brings content of its own, with a lock that says nothing of signatures.
func TestFetchSignedBase(t *testing.T) {
	t.Parallel()
	d, key, mine := newDepot(t, false), newCosignKey(t), newCosignKey(t)
	for _, version := range []string{"1.0.0", "6.6.6"} {
		d.push("apps/web", version, chartLayer, standIn(t, "web", version))
	}
	digest := d.tags["apps/web:1.0.0"]
	key.simple(t, d, "apps/web", digest, digest)
	address := "oci://" + d.host() + "/apps/web"
	dir := repositoryOf(t, map[string]string{"web.yaml": artifactRelease("web", address, "1.0.0"), configFile: verifying(d, "oci://"+d.host()+"/apps", "web.pub"), "web.pub": key.public(t)})
	rendertest.OK(t, os.Remove(filepath.Join(dir, ".git")))
	if code, _, errs := program(t, dir, nil, "fetch"); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	commitFiles(t, dir)
	evil := artifactRelease("web", address, "6.6.6")
	for name, config := range map[string]string{"no rule": allow(d.host()), "another key": verifying(d, "*", "web.pub")} {
		writeFiles(t, dir, map[string]string{"web.yaml": evil, configFile: config, "web.pub": mine.public(t)})
		if code, out, errs := program(t, dir, nil, "fetch", "--base", "HEAD"); code != exitIncomplete || !strings.Contains(errs, "not verified by web.pub") {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out, errs)
		}
	}
	// Content that the change brings with it.
	writeFiles(t, dir, map[string]string{configFile: allow(d.host())})
	if code, _, errs := program(t, dir, nil, "fetch"); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	if code, out, _ := program(t, dir, nil, "check"); code != exitOK {
		t.Errorf("by its own configuration: exit code %d\n%s", code, out)
	}
	code, out, _ := program(t, dir, nil, "check", "--base", "HEAD")
	if code != exitIncomplete || !strings.Contains(out, "not verified by web.pub: the lock names no signature of it") {
		t.Errorf("by the base's: exit code %d\n%s", code, out)
	}
	code, out, errs := program(t, dir, nil, "fetch", "--locked", "--base", "HEAD")
	if code != exitIncomplete || !strings.Contains(errs, "not verified by web.pub") {
		t.Errorf("--locked: exit code %d\n%s%s", code, out, errs)
	}
}
