package store

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestTrustOf finds who has to sign content in whatever spelling its address is
// asked for, and leaves what lies beside it alone.
func TestTrustOf(t *testing.T) {
	t.Parallel()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	rendertest.OK(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	rendertest.OK(t, err)
	key := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	var trust Trust
	for _, address := range []string{"oci://ghcr.io/Example/charts/web", "https://charts.example.org/stable"} {
		s, err := NewSigner(address, "key.pub", key)
		rendertest.OK(t, err)
		trust = append(trust, s)
	}
	for _, test := range []struct {
		kind      render.RemoteKind
		url, name string
		want      bool
	}{
		{render.HelmOCIChart, "oci://ghcr.io/Example/charts", "web", true},
		{render.OCIArtifact, "oci://ghcr.io/Example/charts/web", "", true},
		{render.OCIArtifact, "oci://GHCR.io:443/Example/charts/web", "", true},
		{render.OCIArtifact, "oci://ghcr.io./Example//charts/./web", "", true},
		{render.OCIArtifact, "oci://ghcr.io/Example/charts/x/../web", "", true},
		{render.OCIArtifact, "oci://ghcr.io/Example/charts/web/sub", "", true},
		{render.OCIArtifact, "oci://ghcr.io/Example/charts/website", "", false},
		{render.OCIArtifact, "oci://ghcr.io/Example/charts", "", false},
		{render.OCIArtifact, "oci://ghcr.io.evil.example/Example/charts/web", "", false},
		{render.HelmChart, "https://charts.example.org/stable", "web", true},
		{render.HelmChart, "http://charts.example.org:80/%73table/", "web", true},
		{render.HelmChart, "https://user@charts.example.org/stable", "web", true},
		{render.HelmChart, "https://charts.example.org:8443/stable", "web", false},
		{render.HelmChart, "https://charts.example.org/incubator", "web", false},
	} {
		r := &render.Remote{Kind: test.kind, URL: test.url, Name: test.name}
		if got := trust.Of(r) != nil; got != test.want {
			t.Errorf("%s: %t", r, got)
		}
	}
	if _, err := NewSigner("charts", "key.pub", key); err != nil {
		t.Log(err)
	}
	for text, key := range map[string][]byte{"no key": []byte("x"), "a private key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
		if _, err := NewSigner("*", "key.pub", key); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
