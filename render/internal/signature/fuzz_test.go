package signature

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"

	"github.com/preadmit/preadmit/render/rendertest"
)

// FuzzSignature holds that nothing but what the key signed is accepted, whatever a
// provenance file or a signature of cosign is changed to: one that is accepted has the
// signed text.
func FuzzSignature(f *testing.F) {
	digest := strings.Repeat("0", 64)
	entity, err := openpgp.NewEntity("a", "", "a@example.org", nil)
	rendertest.OK(f, err)
	chart := "name: c\nversion: 1.0.0\n\n...\nfiles:\n  c-1.0.0.tgz: sha256:" + digest + "\n"
	var signed bytes.Buffer
	w, err := clearsign.Encode(&signed, entity.PrivateKey, nil)
	rendertest.OK(f, err)
	_, _ = w.Write([]byte(chart))
	rendertest.OK(f, w.Close())
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rendertest.OK(f, err)
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	rendertest.OK(f, err)
	payload := []byte(`{"critical": {"type": "` + simpleType + `", "image": {"docker-manifest-digest": "sha256:` + digest + `"}}}`)
	sum := sha256.Sum256(payload)
	made, err := ecdsa.SignASN1(rand.Reader, private, sum[:])
	rendertest.OK(f, err)
	simple, err := json.Marshal(Simple{Payload: payload, Signature: made})
	rendertest.OK(f, err)
	ring := &Key{ring: openpgp.EntityList{entity}}
	key, err := ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	rendertest.OK(f, err)
	wanted := Chart{Name: "c", Version: "1.0.0", Digest: "sha256:" + digest}
	rendertest.OK(f, ring.VerifyChart(wanted, signed.Bytes()))
	rendertest.OK(f, key.verifyCosign("sha256:"+digest, simple))
	// An input is a change of the signed file: bytes that replace those at a place.
	f.Add(0, 0, []byte(""))
	f.Add(10, 20, []byte("version: 2.0.0\n"))
	f.Add(0, 5, []byte("x"))
	f.Fuzz(func(t *testing.T, from, length int, by []byte) {
		changed := func(data []byte) []byte {
			start := min(max(from, 0), len(data))
			end := min(start+max(length, 0), len(data))
			if end < start {
				end = start
			}
			return bytes.Join([][]byte{data[:start], by, data[end:]}, nil)
		}
		other := Chart{Name: "c", Version: "2.0.0", Digest: "sha256:" + strings.Repeat("1", 64)}
		file := changed(signed.Bytes())
		if ring.VerifyChart(other, file) == nil {
			t.Errorf("another chart is accepted:\n%s", file)
		}
		if block := decode(file); block != nil && ring.VerifyChart(wanted, file) == nil && strings.Join(strings.Fields(string(block.Plaintext)), " ") != strings.Join(strings.Fields(chart), " ") {
			t.Errorf("another text is accepted:\n%s", file)
		}
		file = changed(simple)
		if key.verifyCosign("sha256:"+strings.Repeat("1", 64), file) == nil {
			t.Errorf("another artifact is accepted:\n%s", file)
		}
		var s Simple
		if key.verifyCosign("sha256:"+digest, file) == nil && (json.Unmarshal(file, &s) != nil || !bytes.Equal(s.Payload, payload)) {
			t.Errorf("another payload is accepted:\n%s", file)
		}
	})
}
