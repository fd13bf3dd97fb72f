package kyvernocel

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render"
)

func TestReference(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("a", 64)
	for _, c := range []struct {
		text string
		want reference // zero: no reference
	}{
		{"nginx", reference{"index.docker.io", "library/nginx", "latest", ""}},
		{"nginx:1.25", reference{"index.docker.io", "library/nginx", "1.25", ""}},
		{"docker.io/nginx", reference{"index.docker.io", "library/nginx", "latest", ""}},
		{"me/app:v1", reference{"index.docker.io", "me/app", "v1", ""}},
		{"ghcr.io/a/b/c", reference{"ghcr.io", "a/b/c", "latest", ""}},
		{"localhost/app", reference{"localhost", "app", "latest", ""}},
		{"localhost:5000/app:1", reference{"localhost:5000", "app", "1", ""}},
		{"reg:5000/app", reference{"reg:5000", "app", "latest", ""}},
		{"app@" + digest, reference{"index.docker.io", "library/app", "", digest}},
		{"a.b/app:1@" + digest, reference{"a.b", "app", "1", digest}},
		{"", reference{}},
		{"a", reference{}},
		{"UPPER", reference{}},
		{"a b", reference{}},
		{"app:ta/g", reference{"app:ta", "g", "latest", ""}},
		{"app:t@g", reference{}},
		{"app@sha256:abc", reference{}},
		{"app@md5:" + strings.Repeat("a", 32), reference{}},
		{"app:" + strings.Repeat("a", 128), reference{}},
		{strings.Repeat("a", 256), reference{}},
	} {
		got, err := parseReference(c.text)
		switch {
		case c.want == reference{}:
			if err == nil {
				t.Errorf("%q: %+v", c.text, *got)
			}
		case strings.HasSuffix(c.text, "ta/g"): // a repository of one character
			if err == nil {
				t.Errorf("%q: %+v", c.text, *got)
			}
		case err != nil || *got != c.want:
			t.Errorf("%q: %+v %v, want %+v", c.text, got, err, c.want)
		}
	}
}

// FuzzReference holds that a reference written out in full is itself.
func FuzzReference(f *testing.F) {
	for _, s := range []string{"nginx", "a/b:c", "h:1/x@sha256:" + strings.Repeat("0", 64), "@", ":", "a:b:c", "a//b", "localhost/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseReference(s)
		if err != nil {
			return
		}
		again, err := parseReference(r.registry + "/" + r.repository + r.identifierWithSeparator())
		if err != nil || *again != *r {
			t.Errorf("%q is %+v, and in full %+v %v", s, *r, again, err)
		}
	})
}

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

// FuzzGlob holds our glob against one that tries everything.
func FuzzGlob(f *testing.F) {
	f.Add("a*b?", "axxbc")
	f.Add("**", "")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 12 || len(text) > 12 {
			return
		}
		if got, want := glob(pattern, text), slowGlob(pattern, text); got != want {
			t.Errorf("%q on %q: %v", pattern, text, got)
		}
	})
}

func slowGlob(pattern, text string) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		return slowGlob(pattern[1:], text) || text != "" && slowGlob(pattern, text[1:])
	default:
		return text != "" && (pattern[0] == '?' || pattern[0] == text[0]) && slowGlob(pattern[1:], text[1:])
	}
}

// TestCertificates holds what x509.decode tells.
func TestCertificates(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "web"}, DNSNames: []string{"web.example"},
		NotBefore: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2034, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
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
