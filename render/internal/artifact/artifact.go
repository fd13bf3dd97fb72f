// Package artifact reads the addresses of fetched content: its digest, and for OCI registries the
// manifest that lists its layers. Package fetch writes content and package store reads it.
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

// ParseDigest returns the hexadecimal digits of a digest such as sha256:0a1b….
func ParseDigest(digest string) (hexDigits string, err error) {
	digits, ok := strings.CutPrefix(digest, "sha256:")
	if raw, err := hex.DecodeString(digits); !ok || err != nil || len(raw) != 32 || strings.ToLower(digits) != digits {
		return "", fmt.Errorf("digest %q: want sha256: and 64 digits", digest)
	}
	return digits, nil
}

// A Descriptor is an entry of an OCI manifest: the digest, size and media type of a layer.
type Descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
}

// A File is a layer with a single file. Policies are stored in registries in this form.
type File struct {
	Name string
	Descriptor
}

// maxFiles limits the layers of an artifact.
const maxFiles = 2000

// Files returns the files of an OCI manifest whose layers are single files. It returns none if the
// layers are archives.
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
		for seen[name] { // names of policies, which are used for layers without a file name, may repeat
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

// fileName returns the name of layer i. conftest and oras set it as the title, Kyverno as the name
// of the policy.
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

// Layer returns the layer of an OCI manifest that contains the files: the chart's layer if there is
// one, else the first layer.
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
