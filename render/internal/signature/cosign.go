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
)

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
