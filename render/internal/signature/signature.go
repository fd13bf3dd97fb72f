// Package signature verifies who signed fetched content: charts by Helm's
// provenance files and an OpenPGP keyring, content of OCI registries by cosign's
// signatures and a public key.
//
// Package store verifies content each time that it is read, so nothing here opens a connection or
// uses the current time: a signature is checked as of the time at which it was made, and
// transparency logs are not consulted.
package signature

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render/internal/artifact"
)

// A Kind is a format of signatures.
type Kind string

// The kinds of signatures.
const (
	Provenance Kind = "provenance" // Helm's, of an archive
	Cosign     Kind = "cosign"     // of a manifest in a registry
)

// MaxSize bounds the size of a signature.
const MaxSize = 1 << 20

// A Key is an OpenPGP keyring, or one or more public keys. A signature by any of
// them is accepted.
type Key struct {
	ring   openpgp.EntityList
	public []crypto.PublicKey
}

// ParseKey reads an OpenPGP keyring, binary or armored, or PEM public keys as
// cosign writes them.
func ParseKey(data []byte) (*Key, error) {
	if bytes.Contains(data, []byte("PRIVATE KEY")) {
		return nil, errors.New("it is a private key, which does not belong here: give the public one")
	}
	if block, _ := pem.Decode(data); block != nil && block.Type == "PUBLIC KEY" {
		public, err := parsePublic(data)
		return &Key{public: public}, err
	}
	ring, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(data))
	if err != nil {
		ring, err = openpgp.ReadKeyRing(bytes.NewReader(data))
	}
	if err != nil || len(ring) == 0 {
		return nil, errors.New("it is neither an OpenPGP keyring nor a PEM public key")
	}
	return &Key{ring: ring}, nil
}

// IsKeyring reports whether the key verifies Helm's provenance files, rather
// than cosign's signatures.
func (k *Key) IsKeyring() bool { return k.ring != nil }

// A Chart names the chart that a provenance file must describe.
type Chart struct{ Name, Version, Digest string }

// VerifyChart verifies a provenance file of a chart.
func (k *Key) VerifyChart(c Chart, provenance []byte) error {
	if len(provenance) > MaxSize {
		return fmt.Errorf("the provenance file is larger than %d MiB", MaxSize>>20)
	}
	block := decode(provenance)
	if block == nil {
		return errors.New("the provenance file has no signature")
	}
	armored := new(bytes.Buffer)
	if _, err := armored.ReadFrom(block.ArmoredSignature.Body); err != nil {
		return errors.New("the provenance file's signature can't be read")
	}
	made, err := signedAt(armored.Bytes())
	if err != nil {
		return err
	}
	config := &packet.Config{Time: func() time.Time { return made }}
	if _, err := openpgp.CheckDetachedSignature(k.ring, bytes.NewReader(block.Bytes), armored, config); err != nil {
		return fmt.Errorf("the provenance file is not signed by a key of the keyring: %w", err)
	}
	return c.isIn(block.Plaintext)
}

// decode returns the signed text of a provenance file, or nil. The library panics on
// some damaged ones.
func decode(provenance []byte) (block *clearsign.Block) {
	defer func() {
		if recover() != nil {
			block = nil
		}
	}()
	block, _ = clearsign.Decode(provenance)
	return block
}

// signedAt returns when a signature was made.
func signedAt(signature []byte) (time.Time, error) {
	p, err := packet.Read(bytes.NewReader(signature))
	if s, ok := p.(*packet.Signature); err == nil && ok {
		return s.CreationTime, nil
	}
	return time.Time{}, errors.New("the provenance file's signature can't be read")
}

// isIn checks that the text of a provenance file describes the chart. The text contains the
// Chart.yaml, followed by the digest of the archive.
func (c Chart) isIn(text []byte) error {
	head, sums, ok := bytes.Cut(text, []byte("\n...\n"))
	var chart struct {
		Name    string `yaml:"name"`
		Version string `yaml:"version"`
	}
	var files struct {
		Files map[string]string `yaml:"files"`
	}
	if !ok || yaml.Unmarshal(head, &chart) != nil || yaml.Unmarshal(sums, &files) != nil {
		return errors.New("the provenance file has no list of digests")
	}
	if chart.Name != c.Name || strings.TrimPrefix(chart.Version, "v") != strings.TrimPrefix(c.Version, "v") {
		return fmt.Errorf("the provenance file is that of %s %s", chart.Name, chart.Version)
	}
	for _, digest := range files.Files {
		if digest == c.Digest {
			return nil
		}
	}
	return errors.New("the provenance file is that of another archive: it does not have this one's digest")
}

// VerifyImage verifies cosign's signature of a manifest, which is a [Simple] or a sigstore bundle.
func (k *Key) VerifyImage(manifestDigest string, signature []byte) error {
	if _, err := artifact.ParseDigest(manifestDigest); err != nil {
		return err
	}
	if len(signature) > MaxSize {
		return fmt.Errorf("the signature is larger than %d MiB", MaxSize>>20)
	}
	return k.verifyCosign(manifestDigest, signature)
}

// Types of cosign's signatures, from cosign's SIGNATURE_SPEC and BUNDLE_SPEC.
const (
	simpleType    = "cosign container image signature"
	statementType = "application/vnd.in-toto+json"
	signPredicate = "https://sigstore.dev/cosign/sign/v1"
	bundleType    = "application/vnd.dev.sigstore.bundle"
)

// A Simple is a signature in cosign's first format, in which a registry stores the signed payload
// and its signature separately.
type Simple struct {
	Payload   []byte `json:"payload"`
	Signature []byte `json:"signature"`
}

// A bundle is a sigstore bundle with the fields needed to verify it with a public key.
type bundle struct {
	MediaType string `json:"mediaType"`
	Envelope  *struct {
		Payload     []byte `json:"payload"`
		PayloadType string `json:"payloadType"`
		Signatures  []struct {
			Sig []byte `json:"sig"`
		} `json:"signatures"`
	} `json:"dsseEnvelope"`
}

func parsePublic(data []byte) ([]crypto.PublicKey, error) {
	var keys []crypto.PublicKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, errors.New("it is no PEM public key as cosign writes them")
		}
		switch key := key.(type) {
		case *ecdsa.PublicKey, ed25519.PublicKey:
		case *rsa.PublicKey:
			if key.N.BitLen() < 2048 {
				return nil, errors.New("its RSA key is shorter than 2048 bits")
			}
		default:
			return nil, fmt.Errorf("its key is a %T; want ECDSA, RSA or Ed25519", key)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func (k *Key) verifyCosign(manifestDigest string, signature []byte) error {
	var b bundle
	if err := json.Unmarshal(signature, &b); err != nil {
		return errors.New("the signature is neither one of cosign nor a bundle of sigstore")
	}
	if strings.HasPrefix(b.MediaType, bundleType) {
		return k.verifyBundle(manifestDigest, &b)
	}
	var s Simple
	if err := json.Unmarshal(signature, &s); err != nil || len(s.Signature) == 0 {
		return errors.New("the signature is neither one of cosign nor a bundle of sigstore")
	}
	if !k.signed(s.Payload, s.Signature) {
		return errors.New("the signature was not made by the key")
	}
	var payload struct {
		Critical struct {
			Type  string `json:"type"`
			Image struct {
				Digest string `json:"docker-manifest-digest"`
			} `json:"image"`
		} `json:"critical"`
	}
	if json.Unmarshal(s.Payload, &payload) != nil || payload.Critical.Type != simpleType {
		return errors.New("the signed content is not a cosign image signature")
	}
	if got := payload.Critical.Image.Digest; got != manifestDigest {
		return fmt.Errorf("the signature is that of another artifact, %s", got)
	}
	return nil
}

// verifyBundle verifies a bundle whose statement is a signature. Attestations have the same form
// but another predicate type.
func (k *Key) verifyBundle(manifestDigest string, b *bundle) error {
	if b.Envelope == nil || b.Envelope.PayloadType != statementType {
		return errors.New("the bundle has no statement about an artifact")
	}
	signed := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(b.Envelope.PayloadType), b.Envelope.PayloadType, len(b.Envelope.Payload), b.Envelope.Payload)
	made := false
	for _, s := range b.Envelope.Signatures {
		made = made || k.signed(signed, s.Sig)
	}
	if !made {
		return errors.New("the bundle was not signed by the key")
	}
	var statement struct {
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if json.Unmarshal(b.Envelope.Payload, &statement) != nil || statement.PredicateType != signPredicate {
		return fmt.Errorf("the bundle is an attestation of another type, %q", statement.PredicateType)
	}
	for _, s := range statement.Subject {
		if "sha256:"+s.Digest["sha256"] == manifestDigest {
			return nil
		}
	}
	return errors.New("the bundle is that of another artifact")
}

// signed reports whether signature is a signature of text by one of the keys.
func (k *Key) signed(text, signature []byte) bool {
	sum := sha256.Sum256(text)
	return slices.ContainsFunc(k.public, func(key crypto.PublicKey) bool {
		switch key := key.(type) {
		case *ecdsa.PublicKey:
			return ecdsa.VerifyASN1(key, sum[:], signature)
		case ed25519.PublicKey:
			return len(signature) == ed25519.SignatureSize && ed25519.Verify(key, text, signature)
		case *rsa.PublicKey:
			return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil ||
				rsa.VerifyPSS(key, crypto.SHA256, sum[:], signature, nil) == nil
		}
		return false
	})
}

// IsBundle reports whether a media type is that of sigstore's bundles.
func IsBundle(mediaType string) bool { return strings.HasPrefix(mediaType, bundleType) }

// Marshal returns the signature as it is stored.
func (s *Simple) Marshal() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return b.Bytes(), err
}
