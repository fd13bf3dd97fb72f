package kyvernocel

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// FuzzPlaceholder holds that what is read of a placeholder, and what follows,
// is what was written.
func FuzzPlaceholder(f *testing.F) {
	for _, s := range []string{" a )) b", "f(x) )) )", `")" ))`, `'\'' ))`, "((", ")", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		expression, rest, ok := placeholder(s)
		if ok && expression+"))"+rest != s {
			t.Errorf("%q: %q and %q", s, expression, rest)
		}
	})
}

// TestCertificates holds what x509.decode tells.
func TestCertificates(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	rendertest.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "web"}, DNSNames: []string{"web.example"},
		NotBefore: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2034, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	rendertest.OK(t, err)
	mocks := libraryMocks(t)
	secret := parsed(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: tls, namespace: prod}, data: {}}")[0]
	secret.Object["data"] = map[string]any{"crt": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))}
	mocks.Resources = append(mocks.Resources, []*render.Object{secret}...)
	spec := "variables: [{name: c, expression: \"x509.decode(string(resource.Get('v1', 'configmaps', 'prod', 'tls').data.crt))\"}]\n" +
		validating("variables.c.Subject.CommonName == 'web' && variables.c.DNSNames == ['web.example'] && variables.c.PublicKey.E == 65537 && timestamp(variables.c.NotAfter) > time.now() && variables.c.SerialNumber == 7.0")
	if got := respond(t, policyOf(t, Validating, spec), aPod, mocks); got[0].Status != StatusPass {
		t.Error(said(got))
	}
}
