package jmespath

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

func TestX509(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	rendertest.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "web"}, DNSNames: []string{"a.example"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	rendertest.OK(t, err)
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: template.Subject}, key)
	rendertest.OK(t, err)
	data := map[string]any{
		"certificate": toPEM("CERTIFICATE", certificate), "request": toPEM("CERTIFICATE REQUEST", request),
		"broken": toPEM("CERTIFICATE", certificate[:40]), "other": toPEM("CERTIFICATE", ellipticCertificate(t, template)),
	}
	for expression, want := range map[string]any{
		"x509_decode(certificate).[Subject.CommonName, NotAfter, DNSNames[0], SerialNumber]": []any{"web", "2030-01-02T03:04:05Z", "a.example", 7.0},
		"x509_decode(certificate).PublicKey":                                                 map[string]any{"N": key.N.String(), "E": 65537.0},
		"x509_decode(request).[Subject.CommonName, PublicKey.E]":                             []any{"web", 65537.0},
	} {
		e, err := Compile(expression)
		rendertest.OK(t, err)
		got, err := e.Search(data, nil)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", expression, err, diff)
		}
	}
	for expression, want := range map[string]string{
		"x509_decode(broken)": "x509: malformed certificate",
		"x509_decode(other)":  "certificate should use rsa algorithm",
	} {
		e, err := Compile(expression)
		rendertest.OK(t, err)
		if _, err := e.Search(data, nil); message(err) != want {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

func toPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func ellipticCertificate(t *testing.T, template *x509.Certificate) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rendertest.OK(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	rendertest.OK(t, err)
	return der
}
