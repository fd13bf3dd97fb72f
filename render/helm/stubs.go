package helm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"reflect"
	"strings"
	"text/template"
	"time"
)

// clock is the time that templates see.
var clock = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	assumedLookup  = "template uses lookup, which finds nothing offline"
	assumedClock   = "template uses the clock, which stands still at 2020-01-01T00:00:00Z"
	assumedRandom  = "template uses random values; rendered with fixed ones in their place"
	assumedAddress = "template prints the address of a value; rendered with a fixed one in its place"
	assumedKeys    = "template makes keys, certificates or password hashes; rendered with fixed ones in their place"
)

// stubs replace functions that return something else at each call, since the
// same tree must give the same objects. Their use is reported.
func (r *run) stubs() template.FuncMap {
	fns := r.dates()
	for name, f := range r.certificates() {
		fns[name] = f
	}
	for name, f := range map[string]any{
		"randAlphaNum":   r.random(digits + upper + lower),
		"randAlpha":      r.random(upper + lower),
		"randNumeric":    r.random(digits),
		"randAscii":      r.random(ascii()),
		"randBytes":      r.randBytes,
		"randInt":        r.randInt,
		"shuffle":        r.shuffle,
		"uuidv4":         r.uuid,
		"bcrypt":         func(password string) string { return r.hash(password) },
		"htpasswd":       r.htpasswd,
		"derivePassword": r.derivePassword,
		"encryptAES":     r.encryptAES,
	} {
		fns[name] = f
	}
	return fns
}

const (
	digits = "0123456789"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower  = "abcdefghijklmnopqrstuvwxyz"
)

func ascii() string {
	var b strings.Builder
	for c := byte(32); c < 127; c++ {
		b.WriteByte(c)
	}
	return b.String()
}

// draw returns n bytes that depend only on the file and on how many were drawn
// for it before, so that other changes in the chart don't change them.
func (r *run) draw(n int) []byte {
	r.draws++
	out := make([]byte, 0, n+sha256.Size)
	for i := 0; len(out) < n; i++ {
		h := sha256.New()
		fmt.Fprintf(h, "%s\x00%d\x00%d", r.file, r.draws, i)
		out = h.Sum(out)
	}
	return out[:n]
}

func (r *run) random(alphabet string) func(int) (string, error) {
	return func(n int) (string, error) {
		r.assume(assumedRandom)
		if n < 0 {
			return "", nil
		}
		if err := room(n); err != nil {
			return "", err
		}
		b := r.draw(n)
		for i := range b {
			b[i] = alphabet[int(b[i])%len(alphabet)]
		}
		return r.text(string(b))
	}
}

func (r *run) randBytes(n int) (string, error) {
	r.assume(assumedRandom)
	if n < 0 {
		return "", errors.New("randBytes takes a count that is not negative")
	}
	if err := room(2 * n); err != nil {
		return "", err
	}
	return r.text(base64.StdEncoding.EncodeToString(r.draw(n)))
}

func (r *run) randInt(low, high int) (int, error) {
	r.assume(assumedRandom)
	if high <= low {
		return 0, errors.New("randInt takes a range that is not empty")
	}
	n := new(big.Int).SetBytes(r.draw(8))
	return low + int(n.Mod(n, big.NewInt(int64(high-low))).Int64()), nil
}

func (r *run) shuffle(s string) string {
	r.assume(assumedRandom)
	return s
}

func (r *run) uuid() string {
	r.assume(assumedRandom)
	b := r.draw(16)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// hash returns a text in the form of a bcrypt hash, without its cost.
func (r *run) hash(parts ...string) string {
	r.assume(assumedKeys)
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	text := base64.RawStdEncoding.EncodeToString(append(sum[:], sum[:8]...))
	return "$2a$10$" + strings.NewReplacer("+", ".").Replace(text[:53])
}

func (r *run) htpasswd(user, password string) string {
	if strings.Contains(user, ":") {
		return fmt.Sprintf("invalid username: %s", user)
	}
	return user + ":" + r.hash(user, password)
}

func (r *run) derivePassword(counter uint32, kind, password, user, site string) string {
	r.assume(assumedKeys)
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte(strings.Join([]string{kind, password, user, site}, "\x00")), counter))
	n := map[string]int{"maximum": 20, "long": 14, "medium": 8, "basic": 8, "short": 4, "pin": 4}[kind]
	if n == 0 {
		return fmt.Sprintf("cannot find password template %s", kind)
	}
	if kind == "pin" {
		for i := range sum {
			sum[i] = '0' + sum[i]%10
		}
		return string(sum[:n])
	}
	return base64.RawURLEncoding.EncodeToString(sum[:])[:n]
}

// encryptAES is sprig's, with a fixed initialization vector.
func (r *run) encryptAES(password, text string) (string, error) {
	r.assume(assumedKeys)
	if text == "" {
		return "", nil
	}
	key := make([]byte, 32)
	copy(key, password)
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", err
	}
	pad := aes.BlockSize - len(text)%aes.BlockSize
	content := append([]byte(text), strings.Repeat(string(rune(pad)), pad)...)
	out := make([]byte, aes.BlockSize+len(content))
	cipher.NewCBCEncrypter(block, out[:aes.BlockSize]).CryptBlocks(out[aes.BlockSize:], content)
	return r.text(base64.StdEncoding.EncodeToString(out))
}

// dates are sprig's functions that ask for the time or the time zone.
func (r *run) dates() template.FuncMap {
	return template.FuncMap{
		"now":            func() time.Time { r.assume(assumedClock); return clock },
		"ago":            func(v any) string { r.assume(assumedClock); return clock.Sub(r.moment(v)).Round(time.Second).String() },
		"date":           func(layout string, v any) string { return r.date(layout, v, "") },
		"dateInZone":     r.date,
		"date_in_zone":   r.date,
		"htmlDate":       func(v any) string { return r.date(time.DateOnly, v, "") },
		"htmlDateInZone": func(v any, zone string) string { return r.date(time.DateOnly, v, zone) },
		"durationRound":  r.durationRound,
		"toDate": func(layout, s string) time.Time {
			t, _ := time.ParseInLocation(layout, s, time.UTC)
			return t
		},
		"mustToDate": func(layout, s string) (time.Time, error) { return time.ParseInLocation(layout, s, time.UTC) },
	}
}

// moment returns the time that sprig would take a value for, or clock for other values.
func (r *run) moment(v any) time.Time {
	switch v := v.(type) {
	case time.Time:
		return v
	case *time.Time:
		return *v
	case int64:
		return time.Unix(v, 0)
	case int:
		return time.Unix(int64(v), 0)
	case int32:
		return time.Unix(int64(v), 0)
	}
	r.assume(assumedClock)
	return clock
}

// date formats in UTC, since other zones depend on the machine.
func (r *run) date(layout string, v any, zone string) string {
	if zone != "" && zone != "UTC" && zone != "Local" {
		r.assume("template asks for a time zone; rendered in UTC")
	}
	return r.moment(v).UTC().Format(layout)
}

func (r *run) durationRound(v any) string {
	if t, ok := v.(time.Time); ok {
		r.assume(assumedClock)
		v = int64(clock.Sub(t))
	}
	return library()["durationRound"].(func(any) string)(v)
}

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
		"buildCustomCert": func(cert, key string) (any, error) {
			if cert == foundText || key == foundText { // a Secret that lookup found may hold a certificate
				return r.certificate(request{cn: "lookup", ca: true})
			}
			out := reflect.ValueOf(library()["buildCustomCert"]).Call([]reflect.Value{reflect.ValueOf(cert), reflect.ValueOf(key)})
			err, _ := out[1].Interface().(error)
			return out[0].Interface(), err
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
