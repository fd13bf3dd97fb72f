// Package artifact knows how fetched content is addressed: by its digest, and
// for OCI registries by a manifest that names layers. Package fetch writes by
// it what package store reads.
package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// MaxBlob bounds the size of one piece of content.
const MaxBlob = 100 << 20

// Digest returns the digest of content.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ParseDigest returns the digits of a digest.
func ParseDigest(digest string) (hexDigits string, err error) {
	digits, ok := strings.CutPrefix(digest, "sha256:")
	if raw, err := hex.DecodeString(digits); !ok || err != nil || len(raw) != 32 || strings.ToLower(digits) != digits {
		return "", fmt.Errorf("digest %q: want sha256: and 64 digits", digest)
	}
	return digits, nil
}

// A Descriptor is content that an OCI manifest names.
type Descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// Layer returns the layer of an OCI manifest that holds the files: that of a
// chart, else the first.
func Layer(manifest []byte) (Descriptor, error) {
	var m struct {
		Layers []Descriptor `json:"layers"`
	}
	if json.Unmarshal(manifest, &m) != nil || len(m.Layers) == 0 {
		return Descriptor{}, errors.New("it is no manifest of an artifact with files")
	}
	layer := m.Layers[0]
	for _, l := range m.Layers {
		if strings.HasPrefix(l.MediaType, "application/vnd.cncf.helm.chart.content.") {
			layer = l
			break
		}
	}
	if _, err := ParseDigest(layer.Digest); err != nil {
		return layer, err
	}
	if layer.Size < 0 || layer.Size > MaxBlob {
		return layer, fmt.Errorf("its layer is larger than %d MiB", MaxBlob>>20)
	}
	return layer, nil
}
