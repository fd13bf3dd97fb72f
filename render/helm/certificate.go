package helm

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"reflect"
	"text/template"
	"time"
)

// A certificate is the result of genCA and similar functions.
type certificate struct{ Cert, Key string }

// certificates are the functions that make keys and certificates. The
// certificates are valid, but their key is not secret: it depends only on the
// common name and costs nothing to generate.
func (r *run) certificates() template.FuncMap {
	return template.FuncMap{
		"genPrivateKey": func(string) string { r.assume(assumedKeys); return privateKey("genPrivateKey").pem },
		"genCA": func(cn string, days int) (certificate, error) {
			return r.certificate(request{cn: cn, days: days, ca: true})
		},
		"genCAWithKey": func(cn string, days int, _ string) (certificate, error) {
			return r.certificate(request{cn: cn, days: days, ca: true})
		},
		"genSelfSignedCert": func(cn string, ips, names []any, days int) (certificate, error) {
			return r.certificate(request{cn: cn, ips: ips, names: names, days: days})
		},
		"genSelfSignedCertWithKey": func(cn string, ips, names []any, days int, _ string) (certificate, error) {
			return r.certificate(request{cn: cn, ips: ips, names: names, days: days})
		},
		"genSignedCert": func(cn string, ips, names []any, days int, ca any) (certificate, error) {
			return r.certificate(request{cn: cn, ips: ips, names: names, days: days, signer: ca})
		},
		"genSignedCertWithKey": func(cn string, ips, names []any, days int, ca any, _ string) (certificate, error) {
			return r.certificate(request{cn: cn, ips: ips, names: names, days: days, signer: ca})
		},
	}
}

type request struct {
	cn         string
	ips, names []any
	days       int
	ca         bool
	signer     any // a certificate, ours or sprig's; nil for self-signed
}

type key struct {
	ed25519.PrivateKey
	pem string
}

func privateKey(name string) key {
	seed := sha256.Sum256([]byte("preadmit placeholder key\x00" + name))
	k := key{PrivateKey: ed25519.NewKeyFromSeed(seed[:])}
	der, err := x509.MarshalPKCS8PrivateKey(k.PrivateKey)
	if err != nil {
		panic(err) // Ed25519 keys are always accepted
	}
	k.pem = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	return k
}

func (r *run) certificate(q request) (certificate, error) {
	r.assume(assumedKeys)
	if err := r.step(100); err != nil {
		return certificate{}, err
	}
	cert, err := q.template()
	if err != nil {
		return certificate{}, err
	}
	own := privateKey(q.cn)
	parent, signer := cert, own
	if q.signer != nil {
		if parent, err = issuer(q.signer); err != nil {
			return certificate{}, err
		}
		signer = privateKey(parent.Subject.CommonName)
		parent.PublicKey = nil // it may be a real certificate's key, with which we can't sign
	}
	der, err := x509.CreateCertificate(bytes.NewReader(nil), cert, parent, own.Public(), signer.PrivateKey)
	if err != nil {
		return certificate{}, errors.New("certificate can't be made of these names")
	}
	return certificate{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), own.pem}, nil
}

func (r request) template() (*x509.Certificate, error) {
	serial := sha256.Sum256([]byte(r.cn))
	cert := &x509.Certificate{
		SerialNumber:          new(big.Int).SetBytes(serial[:15]),
		Subject:               pkix.Name{CommonName: r.cn},
		NotBefore:             clock,
		NotAfter:              clock.Add(24 * time.Hour * time.Duration(r.days)),
		KeyUsage:              x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if r.ca {
		cert.IsCA = true
		cert.KeyUsage |= x509.KeyUsageCertSign
	}
	for _, v := range r.ips {
		s, _ := v.(string)
		ip := net.ParseIP(s)
		if ip == nil {
			return nil, fmt.Errorf("a list of IP addresses has %T in it that is none", v)
		}
		cert.IPAddresses = append(cert.IPAddresses, ip)
	}
	for _, v := range r.names {
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("a list of DNS names has %T in it", v)
		}
		cert.DNSNames = append(cert.DNSNames, s)
	}
	return cert, nil
}

// issuer parses the signing certificate, which is ours or from buildCustomCert.
func issuer(ca any) (*x509.Certificate, error) {
	v := reflect.Indirect(reflect.ValueOf(ca))
	if v.Kind() != reflect.Struct || v.FieldByName("Cert").Kind() != reflect.String {
		return nil, fmt.Errorf("wrong type for value; expected a certificate; got %T", ca)
	}
	block, _ := pem.Decode([]byte(v.FieldByName("Cert").String()))
	if block == nil {
		return nil, errors.New("unable to decode certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, errors.New("unable to decode certificate")
	}
	return cert, nil
}
