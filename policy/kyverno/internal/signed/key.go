package signed

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// ParseKey reads a public key as cosign writes it: PEM of ECDSA, RSA or Ed25519.
func ParseKey(text string) (crypto.PublicKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("the public key is not PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the public key can't be read: %w", err)
	}
	switch key.(type) {
	case *ecdsa.PublicKey, *rsa.PublicKey, ed25519.PublicKey:
		return key, nil
	}
	return nil, fmt.Errorf("a public key of type %T verifies nothing here", key)
}

// Verify returns nil if the key made one of the signatures, and an
// [UndecidedError] if that depends on a transparency log.
func (m *Message) Verify(key crypto.PublicKey) error {
	signed := func(s signature) bool { return !s.logged && verify(key, m.raw, s.raw) }
	if slices.ContainsFunc(m.signatures, signed) {
		return nil
	}
	if i := slices.IndexFunc(m.signatures, func(s signature) bool { return s.logged }); i >= 0 {
		return &UndecidedError{"verifying " + m.signatures[i].annotation + " needs a transparency log"}
	}
	return errors.New("the key made none of the signatures of the message")
}

func verify(key crypto.PublicKey, text, signature []byte) bool {
	sum := sha256.Sum256(text)
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum[:], signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	case ed25519.PublicKey:
		return len(signature) == ed25519.SignatureSize && ed25519.Verify(key, text, signature)
	}
	return false
}
