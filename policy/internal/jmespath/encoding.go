package jmespath

import (
	"crypto/md5" //nolint:gosec // a function of the language, not a safeguard
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // as above
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math"
	"net"
	"net/url"
	"strconv"

	"go.yaml.in/yaml/v2"
)

func base64Decode(s *search, a []val) (val, error) {
	if err := s.grow(len(a[0].v.(string))); err != nil {
		return val{}, err
	}
	text, err := base64.StdEncoding.DecodeString(a[0].v.(string))
	if err != nil {
		return val{}, plain("base64_decode", err)
	}
	return val{v: string(text)}, nil
}

func base64Encode(s *search, a []val) (val, error) {
	in := a[0].v.(string)
	if err := s.grow(base64.StdEncoding.EncodedLen(len(in))); err != nil {
		return val{}, err
	}
	return val{v: base64.StdEncoding.EncodeToString([]byte(in))}, nil
}

func md5Sum(s *search, a []val) (val, error) {
	in := a[0].v.(string)
	digest := md5.Sum([]byte(in)) //nolint:gosec // as above
	return val{v: hex.EncodeToString(digest[:])}, s.spend(len(in) / 8)
}

func sha1Sum(s *search, a []val) (val, error) {
	in := a[0].v.(string)
	digest := sha1.Sum([]byte(in)) //nolint:gosec // as above
	return val{v: hex.EncodeToString(digest[:])}, s.spend(len(in) / 8)
}

func sha256Sum(s *search, a []val) (val, error) {
	in := a[0].v.(string)
	digest := sha256.Sum256([]byte(in))
	return val{v: hex.EncodeToString(digest[:])}, s.spend(len(in) / 8)
}

func parseJSON(s *search, a []val) (val, error) {
	in := a[0].v.(string)
	// In `[[[` almost every byte becomes a value.
	if err := s.spend(len(in)); err != nil {
		return val{}, err
	}
	var v any
	if err := json.Unmarshal([]byte(in), &v); err != nil {
		return val{}, plain("parse_json", err)
	}
	return val{v: v}, nil
}

func x509Decode(s *search, a []val) (val, error) {
	in := a[0].v.(string)
	if err := s.grow(16 * len(in)); err != nil {
		return val{}, err
	}
	fields, err := Certificate(in)
	if err != nil {
		return val{}, plain("x509_decode", err)
	}
	return val{v: fields}, nil
}

// Certificate returns Go's fields of a PEM certificate, or of a certificate request, with
// an RSA key. The error is worded as Kyverno's.
func Certificate(text string) (fields map[string]any, err error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("failed to decode PEM block")
	}
	parsed, err := parseX509(block)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(parsed)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	return fields, err
}

func parseX509(block *pem.Block) (any, error) {
	switch block.Type {
	case "CERTIFICATE":
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		c.PublicKey, err = rsaKey(c.PublicKeyAlgorithm, c.PublicKey)
		return c, err
	case "CERTIFICATE REQUEST":
		c, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil {
			return nil, err
		}
		c.PublicKey, err = rsaKey(c.PublicKeyAlgorithm, c.PublicKey)
		return c, err
	}
	return nil, errors.New("PEM block neither contains a CERTIFICATE or CERTIFICATE REQUEST")
}

// rsaKey returns a key as Kyverno shows it: the modulus as text.
func rsaKey(algorithm x509.PublicKeyAlgorithm, key any) (any, error) {
	if algorithm != x509.RSA {
		return nil, errors.New("certificate should use rsa algorithm")
	}
	public, ok := key.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("failed to parse subject public key info")
	}
	return struct {
		N string
		E int
	}{public.N.String(), public.E}, nil
}

// isExternalURL decides by IP addresses; host names can't be resolved offline.
func isExternalURL(_ *search, a []val) (val, error) {
	u, err := url.Parse(a[0].v.(string))
	if err != nil {
		return val{}, plain("is_external_url", err)
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); ip != nil {
		return val{v: !ip.IsLoopback() && !ip.IsPrivate()}, nil
	}
	if host == "" {
		return val{}, plainf("is_external_url", "lookup : no such host")
	}
	return val{}, &UndecidedError{Function: "is_external_url", Reason: "the address of a name is not known offline"}
}

// parseYAML parses the first document. It is sigs.k8s.io/yaml's YAMLToJSON without
// JSON as an intermediate step, so that expanded aliases are counted.
func parseYAML(s *search, a []val) (val, error) {
	in := a[0].v.(string)
	if err := s.spend(4 * len(in)); err != nil {
		return val{}, err
	}
	var v any
	if err := yaml.Unmarshal([]byte(in), &v); err != nil {
		return val{}, plain("parse_yaml", err)
	}
	out, err := s.fromYAML(v)
	return val{v: out}, err
}

// fromYAML converts a value of the YAML library to a JSON value.
func (s *search) fromYAML(v any) (any, error) {
	if err := s.spend(4); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case map[any]any:
		return s.fromYAMLMap(v)
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			var err error
			if list[i], err = s.fromYAML(x); err != nil {
				return nil, err
			}
		}
		return list, nil
	case int:
		return float64(v), nil
	case int64:
		return float64(v), nil
	case uint64:
		return float64(v), nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, plainf("parse_yaml", "json: unsupported value: %v", v)
		}
		return v, nil
	case string, bool, nil:
		return v, nil
	}
	return nil, plainf("parse_yaml", "a value of YAML has no form in JSON")
}

func (s *search) fromYAMLMap(m map[any]any) (any, error) {
	fields := make(map[string]any, len(m))
	for k, x := range m {
		key, err := yamlKey(k)
		if err != nil {
			return nil, err
		}
		if fields[key], err = s.fromYAML(x); err != nil {
			return nil, err
		}
	}
	return fields, nil
}

// yamlKey converts a key to JSON's form.
func yamlKey(k any) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case int:
		return strconv.Itoa(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case bool:
		return strconv.FormatBool(k), nil
	case float64:
		text := strconv.FormatFloat(k, 'g', -1, 32)
		if special, ok := map[string]string{"+Inf": ".inf", "-Inf": "-.inf", "NaN": ".nan"}[text]; ok {
			text = special
		}
		return text, nil
	}
	return "", plainf("parse_yaml", "unsupported map key of type: %T", k)
}
