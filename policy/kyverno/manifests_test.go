package kyverno

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// A signedCase is an object with its signed manifest. Its outcome is that of the
// same case in Kyverno 1.19.1, unless it is undecided here.
type signedCase struct {
	name            string
	object          string            // what follows `metadata: {name: web`
	manifest        string            // likewise; "" for object
	text            []byte            // what is signed instead of a manifest
	signers         []crypto.Signer   // nil: ec
	notes           map[string]string // annotations besides, or in place of, those of the signature
	attestors, rest string            // in validate.manifests, YAML; "" for ec's key
	outcome         policy.Outcome
	says            string // in the message
}

// TestSignedManifests holds the outcomes of validate.manifests.
func TestSignedManifests(t *testing.T) {
	t.Parallel()
	ec, other, large := newECDSA(t, elliptic.P256()), newECDSA(t, elliptic.P256()), newECDSA(t, elliptic.P384())
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	rendertest.OK(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	rendertest.OK(t, err)
	const a, b = "}, spec: {image: a, m: 1}", "}, spec: {image: b, m: 1}"
	both := entries(publicKey(t, ec), publicKey(t, other))
	text := publicKey(t, ec) + publicKey(t, other)
	for _, c := range []signedCase{
		{name: "good", object: a, outcome: policy.Pass},
		{name: "rsa", object: a, signers: []crypto.Signer{rsaKey}, attestors: entries(publicKey(t, rsaKey)), outcome: policy.Pass},
		{name: "ed25519", object: a, signers: []crypto.Signer{edKey}, attestors: entries(publicKey(t, edKey)), outcome: policy.Pass},
		{name: "p384", object: a, signers: []crypto.Signer{large}, attestors: entries(publicKey(t, large)), outcome: policy.Pass},
		{name: "tampered", object: b, manifest: a, outcome: policy.Fail, says: `"key":"spec.image","values":{"after":"b","before":"a"}`},
		{name: "added", object: "}, spec: {image: a, m: 1, z: true}", manifest: a, outcome: policy.Fail, says: "spec.z"},
		{name: "removed", object: "}, spec: {image: a}", manifest: a, outcome: policy.Fail, says: "spec.m"},
		{name: "wrong key", object: a, signers: []crypto.Signer{other}, outcome: policy.Error, says: "made none of the signatures"},
		{name: "unsigned", object: a, signers: []crypto.Signer{}, outcome: policy.Fail, says: "signature not found"},
		{name: "no message", object: a, text: []byte{}, outcome: policy.Fail, says: "message not found"},
		{name: "not base64", object: a, notes: map[string]string{"message": "!"}, outcome: policy.Error},
		{name: "no YAML", object: a, text: []byte("{{{"), outcome: policy.Error},
		{name: "other kind", object: a, text: []byte("{kind: Secret, apiVersion: v1}"), outcome: policy.Fail, says: "no manifest of this kind"},
		{name: "other name", object: a, text: []byte("{kind: Pod, apiVersion: v1, metadata: {name: db" + a + "}"), outcome: policy.Fail, says: "metadata.name"},
		{
			name: "other name ignored", object: a, text: []byte("{kind: Pod, apiVersion: v1, metadata: {name: db" + a + "}"),
			rest: "ignoreFields: [{fields: [metadata.name]}]", outcome: policy.Pass,
		},
		{
			name: "several", object: a, outcome: policy.Pass,
			text: []byte("{kind: Pod, apiVersion: v1, metadata: {name: db" + b + "}\n---\n{kind: Pod, apiVersion: v1, metadata: {name: web" + a + "}\n"),
		},
		{name: "archive", object: a, text: archive(t, "x/pod.yaml", "{kind: Pod, apiVersion: v1, metadata: {name: web"+a+"}"), outcome: policy.Pass},
		{name: "larger than a message may be", object: a, text: make([]byte, 17<<20), outcome: policy.Unknown, says: "larger than 16 MiB"},
		{name: "empty text", object: "}, spec: {image: a, m: 1, z: ''}", manifest: a, outcome: policy.Pass},
		{name: "false", object: "}, spec: {image: a, m: 1, z: false}", manifest: a, outcome: policy.Fail},
		{name: "image with a tag", object: "}, spec: {image: 'a:latest', m: 1}", manifest: a, outcome: policy.Pass},
		{name: "image with its registry", object: "}, spec: {image: docker.io/a, m: 1}", manifest: a, outcome: policy.Pass},
		{name: "moved in a list", object: "}, spec: {l: [{w: b}, {x: a}]}", manifest: "}, spec: {l: [{x: a}, {w: b}]}", outcome: policy.Pass},
		{name: "reordered", object: "}, spec: {l: [{x: b}, {x: a}]}", manifest: "}, spec: {l: [{x: a}, {x: b}]}", outcome: policy.Fail},
		{name: "ignored by Kyverno", object: ", uid: u}, spec: {image: a, m: 1}, status: {phase: x}", manifest: a, outcome: policy.Pass},
		{name: "ignored", object: b, manifest: a, rest: "ignoreFields: [{fields: [spec.image], objects: [{kind: 'P*'}]}]", outcome: policy.Pass},
		{name: "ignored elsewhere", object: b, manifest: a, rest: "ignoreFields: [{fields: [spec.image], objects: [{kind: Job}]}]", outcome: policy.Fail},
		{name: "one of two", object: a, attestors: "[{count: 1, " + both[2:], outcome: policy.Pass},
		{name: "one of two, of two needed", object: a, attestors: both, outcome: policy.Error},
		{name: "both of two", object: a, signers: []crypto.Signer{other, ec}, attestors: both, outcome: policy.Pass},
		{name: "two keys in a text", object: a, signers: []crypto.Signer{ec, other}, attestors: entries(text), outcome: policy.Error, says: "no second one"},
		{name: "the first of two in a text", object: a, attestors: "[{count: 1, " + entries(text)[2:], outcome: policy.Pass},
		{name: "no key", object: a, attestors: entries("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), outcome: policy.Error},
		{name: "nested", object: a, attestors: "[{entries: [{attestor: " + strings.Trim(entries(publicKey(t, ec)), "[]") + "}]}]", outcome: policy.Pass},
		{name: "annotations", object: a, attestors: strings.Replace(entries(publicKey(t, ec)), "[{keys", "[{annotations: {team: web}, keys", 1), outcome: policy.Error, says: "annotations mismatch"},
		{name: "domain", object: a, rest: "annotationDomain: example.org", outcome: policy.Pass},
		{name: "keyless", object: a, attestors: "[{entries: [{keyless: {roots: x}}]}]", outcome: policy.Unknown, says: "can only be verified online"},
		{name: "keyless or a key", object: a, attestors: "[{count: 1, entries: [{keyless: {roots: x}}, " + entries(publicKey(t, ec))[len("[{entries: ["):], outcome: policy.Pass},
		{name: "key elsewhere", object: a, attestors: entries("k8s://ns/key"), outcome: policy.Unknown, says: "not in the policy"},
		{name: "in a registry", object: a, notes: map[string]string{"resourceBundleRef": "ghcr.io/x"}, outcome: policy.Unknown, says: "in a registry"},
		{name: "logged", object: a, signers: []crypto.Signer{other}, notes: map[string]string{"bundle": "x"}, outcome: policy.Unknown, says: "transparency log"},
		{name: "dry run", object: b, manifest: a, rest: "dryRun: {enable: true}", outcome: policy.Unknown, says: "dry run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.signers == nil {
				c.signers = []crypto.Signer{ec}
			}
			if c.attestors == "" {
				c.attestors = entries(publicKey(t, ec))
			}
			c.hold(t)
		})
	}
}

func (s *signedCase) hold(t *testing.T) {
	t.Helper()
	rule := "validate:\n  failureAction: Enforce\n  manifests:\n    attestors: " + s.attestors + "\n    " + s.rest
	engine := engineOf(t, onPods(rule), Options{})
	req := &policy.Request{Operation: policy.Create, Object: s.signed(t)}
	admitRequest(t, req)
	results, err := engine.Validator().Validate(context.Background(), req)
	if err != nil || len(results) != 1 {
		t.Fatalf("%d results: %v", len(results), err)
	}
	if r := results[0]; r.Outcome != s.outcome || !strings.Contains(r.Message, s.says) {
		t.Errorf("%s: %s; want %s: %q", r.Outcome, r.Message, s.outcome, s.says)
	}
}

// signed is the object with its annotations.
func (s *signedCase) signed(t *testing.T) *render.Object {
	t.Helper()
	const head = "{kind: Pod, apiVersion: v1, metadata: {name: web"
	text := s.text
	if text == nil {
		text = []byte(head + s.object + "}")
		if s.manifest != "" {
			text = []byte(head + s.manifest + "}")
		}
	}
	domain := "cosign.sigstore.dev/"
	if d, ok := strings.CutPrefix(s.rest, "annotationDomain: "); ok {
		domain = d + "/"
	}
	notes := map[string]any{domain + "message": base64.StdEncoding.EncodeToString(compressed(t, text))}
	if len(text) == 0 {
		delete(notes, domain+"message")
	}
	for i, signer := range s.signers {
		notes[domain+"signature"+[]string{"", "_1"}[i]] = signatureOf(t, signer, text)
	}
	for name, value := range s.notes {
		notes[domain+name] = value
	}
	o := rendertest.Parse(t, "pod.yaml", head+s.object+"}")[0]
	meta := o.Object["metadata"].(map[string]any)
	meta["annotations"] = notes
	return o
}

// entries is a set of attestors with keys, as flow YAML.
func entries(keys ...string) string {
	var list []string
	for _, key := range keys {
		list = append(list, "{keys: {publicKeys: "+asJSON(key)+"}}")
	}
	return "[{entries: [" + strings.Join(list, ", ") + "]}]"
}

func newECDSA(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	rendertest.OK(t, err)
	return key
}

func publicKey(t *testing.T, s crypto.Signer) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.Public())
	rendertest.OK(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func signatureOf(t *testing.T, s crypto.Signer, text []byte) string {
	t.Helper()
	sum := sha256.Sum256(text)
	digest, hash := sum[:], crypto.SHA256
	if _, ok := s.(ed25519.PrivateKey); ok {
		digest, hash = text, crypto.Hash(0)
	}
	signature, err := s.Sign(rand.Reader, digest, hash)
	rendertest.OK(t, err)
	return base64.StdEncoding.EncodeToString(signature)
}

func compressed(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	if err == nil {
		err = w.Close()
	}
	rendertest.OK(t, err)
	return out.Bytes()
}

func archive(t *testing.T, name, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.Write([]byte(content))
	}
	if err == nil {
		err = w.Close()
	}
	rendertest.OK(t, err)
	return compressed(t, out.Bytes())
}
