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
	"encoding/pem"
	"errors"
	"fmt"
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
	if chart.Name != c.Name || !sameVersion(chart.Version, c.Version) {
		return fmt.Errorf("the provenance file is that of %s %s", chart.Name, chart.Version)
	}
	for _, digest := range files.Files {
		if digest == c.Digest {
			return nil
		}
	}
	return errors.New("the provenance file is that of another archive: it does not have this one's digest")
}

func sameVersion(a, b string) bool {
	return strings.TrimPrefix(a, "v") == strings.TrimPrefix(b, "v")
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
