package store

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/artifact"
	"github.com/preadmit/preadmit/render/internal/signature"
)

// A Signer holds keys, one of which must have signed the content at and below
// an address.
type Signer struct {
	KeyFile string // the file name for errors

	address string // see plainAddress; "" fits any
	key     *signature.Key
}

// NewSigner returns a Signer for an address, or for "*" of all addresses. key
// is the content of KeyFile: an OpenPGP keyring for Helm's provenance files, or
// cosign's public keys.
func NewSigner(address, keyFile string, key []byte) (*Signer, error) {
	k, err := signature.ParseKey(key)
	if err != nil {
		return nil, err
	}
	s := &Signer{KeyFile: keyFile, key: k}
	if address != "*" {
		if s.address = plainAddress(address); s.address == "" {
			return nil, fmt.Errorf("%q is no address such as oci://ghcr.io/example", address)
		}
	}
	return s, nil
}

// Kind returns the kind of signature for a Remote, or an error if its kind has
// none.
func (s *Signer) Kind(r *render.Remote) (signature.Kind, error) {
	chart := r.Kind == render.HelmChart || r.Kind == render.HelmOCIChart
	switch {
	case s.key.IsKeyring() && chart:
		return signature.Provenance, nil
	case !s.key.IsKeyring() && (r.Kind == render.HelmOCIChart || r.Kind == render.OCIArtifact):
		return signature.Cosign, nil
	case s.key.IsKeyring():
		return "", fmt.Errorf("%s is a keyring, which verifies charts alone", s.KeyFile)
	}
	return "", fmt.Errorf("%s is a key of cosign, which verifies content of OCI registries alone", s.KeyFile)
}

// Trust holds the Signers of the configuration. The first one that fits an
// address counts.
type Trust []*Signer

// Of returns the Signer of a Remote, or nil if no signature is required.
func (t Trust) Of(r *render.Remote) *Signer {
	address := plainAddress(r.URL)
	if r.Kind == render.HelmChart || r.Kind == render.HelmOCIChart {
		address = path.Join(address, r.Name)
	}
	for _, s := range t {
		if s.address == "" || address == s.address || strings.HasPrefix(address, s.address+"/") {
			return s
		}
	}
	return nil
}

// plainAddress returns host and path of an address in one spelling, so that no
// other spelling avoids verification.
func plainAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" { // the form of scp, user@host:path
		address = address[strings.LastIndexByte(address, '@')+1:]
		return strings.Trim(path.Clean("/"+strings.Replace(address, ":", "/", 1)), "/")
	}
	host, port := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	if port != "" && port != "443" && port != "80" {
		host += ":" + port
	}
	return strings.TrimSuffix(path.Join(host, path.Clean("/"+u.Path)), "/")
}

// Verify checks the signature that an entry names, if a Signer is configured for it.
// The caller must have checked that the content has its digest.
func (t Trust) Verify(e *Entry, blob func(digest string) ([]byte, error)) error {
	s := t.Of(e.Remote())
	if s == nil {
		return nil
	}
	if e.Signature == "" {
		return &SignatureError{s, errors.New("the lock names no signature of it")}
	}
	data, err := blob(e.Signature)
	if err != nil {
		return &SignatureError{s, fmt.Errorf("its signature can't be read: %w", err)}
	}
	return s.Verify(e, data, blob)
}

// Verify checks that the signature in data is by one of the Signer's keys and
// covers the entry's content. blob returns content by its digest.
func (s *Signer) Verify(e *Entry, data []byte, blob func(digest string) ([]byte, error)) error {
	if err := s.verify(e, data, blob); err != nil {
		return &SignatureError{s, err}
	}
	return nil
}

func (s *Signer) verify(e *Entry, data []byte, blob func(digest string) ([]byte, error)) error {
	kind, err := s.Kind(e.Remote())
	if err != nil {
		return err
	}
	if kind == signature.Cosign {
		return s.key.VerifyImage(e.Digest, data)
	}
	chart := signature.Chart{Name: e.Name, Version: e.Resolved, Digest: e.Digest}
	if e.Kind == render.HelmOCIChart {
		manifest, err := blob(e.Digest)
		if err != nil {
			return err
		}
		layer, err := artifact.Layer(manifest)
		if err != nil {
			return err
		}
		chart.Digest = layer.Digest
	}
	return s.key.VerifyChart(chart, data)
}

// A SignatureError says why content with the right digest is rejected.
type SignatureError struct {
	Signer *Signer
	Err    error
}

func (s *SignatureError) Error() string {
	return fmt.Sprintf("it is not verified by %s: %s", s.Signer.KeyFile, s.Err)
}

// Unwrap returns the reason.
func (s *SignatureError) Unwrap() error { return s.Err }
