package supervise

import (
	"bytes"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// FuzzFrames holds that the frames which a child sent are those that the parent reads,
// and that bytes which are none end in an error.
func FuzzFrames(f *testing.F) {
	for _, s := range []string{"", "o\x02\x00\x00\x00hi", "x\x01\x00\x00\x00\x03o", "o\xff\xff\xff\xff", "d\x00\x00\x00\x04x", "z\x00\x00\x00\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var sent bytes.Buffer
		p, r := NewPipe(&sent), NewReader(bytes.NewReader(data))
		for {
			kind, payload, err := r.Next()
			if err != nil {
				break
			}
			rendertest.OK(t, p.Send(kind, payload))
		}
		if rest := len(data) - sent.Len(); !bytes.HasPrefix(data, sent.Bytes()) || rest >= 5 && uint32(data[sent.Len()+1])|uint32(data[sent.Len()+2])<<8|uint32(data[sent.Len()+3])<<16|uint32(data[sent.Len()+4])<<24 <= uint32(rest-5) {
			t.Errorf("%q was read as the frames %q", data, sent.Bytes())
		}
	})
}
