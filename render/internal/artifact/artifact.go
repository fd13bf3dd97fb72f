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
	"io/fs"
	"path"
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
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
}

// A File is a layer that is one file, as policies are in registries.
type File struct {
	Name string
	Descriptor
}

// maxFiles are the layers of an artifact at most.
const maxFiles = 2000

// Files returns the files of an OCI manifest whose layers are files, not an
// archive; none for another.
func Files(manifest []byte) ([]File, error) {
	var m struct {
		Layers []Descriptor `json:"layers"`
	}
	if json.Unmarshal(manifest, &m) != nil || len(m.Layers) == 0 || isArchive(m.Layers[0].MediaType) {
		return nil, nil
	}
	if len(m.Layers) > maxFiles {
		return nil, fmt.Errorf("it has more than %d layers", maxFiles)
	}
	var files []File
	left, seen := int64(MaxBlob), make(map[string]bool)
	for i, l := range m.Layers {
		if _, err := ParseDigest(l.Digest); err != nil {
			return nil, err
		}
		if left -= l.Size; l.Size < 0 || left < 0 {
			return nil, fmt.Errorf("its layers are larger than %d MiB", MaxBlob>>20)
		}
		name := l.fileName(i)
		for seen[name] { // as names of policies may be, which have none of files
			name = path.Join(fmt.Sprint(i), name)
		}
		seen[name] = true
		files = append(files, File{name, l})
	}
	return files, nil
}

func isArchive(mediaType string) bool {
	return strings.Contains(mediaType, "tar") || strings.Contains(mediaType, "gzip") || strings.Contains(mediaType, "zip")
}

// fileName is the name that a tool gave to a layer: conftest and oras by title,
// Kyverno by the policy.
func (d *Descriptor) fileName(i int) string {
	name := path.Clean(d.Annotations["org.opencontainers.image.title"])
	if fs.ValidPath(name) && name != "." {
		return name
	}
	suffix := ".yaml"
	if _, kind, ok := strings.Cut(d.MediaType, "+"); ok && (kind == "rego" || kind == "json") {
		suffix = "." + kind
	}
	name = strings.ToLower(d.Annotations["io.kyverno.image.kind"]) + "-" + d.Annotations["io.kyverno.image.name"] + suffix
	if fs.ValidPath(name) && len(name) > len("-.yaml") && !strings.Contains(name, "/") {
		return name
	}
	return fmt.Sprintf("layer-%d%s", i+1, suffix)
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
