package kyvernolib

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// decodeCertificate parses a PEM certificate or certificate request. Fields
// have the names of crypto/x509, and the public key's modulus is a string. Like
// Kyverno it refuses keys other than RSA.
func decodeCertificate(text string) ref.Val {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return types.NewErr("failed to decode PEM block")
	}
	var certificate any
	var key any
	switch block.Type {
	case "CERTIFICATE":
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return types.NewErr("failed to parse certificate")
		}
		certificate, key, c.PublicKey = c, c.PublicKey, nil
	case "CERTIFICATE REQUEST":
		c, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			return types.NewErr("failed to parse certificate request")
		}
		certificate, key, c.PublicKey = c, c.PublicKey, nil
	default:
		return types.NewErr("PEM block is neither a certificate nor a certificate request")
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return types.NewErr("unsupported public key type: not RSA")
	}
	return certificateTree(certificate, public)
}

// certificateTree converts a certificate to a value, with the modulus as a
// string because it is too large for a number.
func certificateTree(certificate any, key *rsa.PublicKey) ref.Val {
	var tree map[string]any
	data, err := json.Marshal(certificate)
	if err == nil {
		err = json.Unmarshal(data, &tree)
	}
	if err != nil {
		return types.NewErr("failed to read certificate")
	}
	tree["PublicKey"] = map[string]any{"N": key.N.String(), "E": int64(key.E)}
	return Frozen(tree)
}
