package artifact

import (
	"io/fs"
	"strings"
	"testing"
)

// FuzzFiles holds that the files of a manifest stay in the directory that they are
// written to, each by a name of its own, with digests and within the limits.
func FuzzFiles(f *testing.F) {
	digest := `"digest": "sha256:` + strings.Repeat("0", 64) + `"`
	titled := func(names ...string) string {
		var layers []string
		for _, name := range names {
			layers = append(layers, "{"+digest+`, "annotations": {"org.opencontainers.image.title": "`+name+`"}}`)
		}
		return `{"layers": [` + strings.Join(layers, ", ") + "]}"
	}
	for _, s := range []string{
		`{"layers": [{` + digest + `, "size": 1, "annotations": {"org.opencontainers.image.title": "../a"}}]}`, `{"layers": [{` + digest + `}, {` + digest + `}]}`,
		`{"layers": [{` + digest + `, "annotations": {"io.kyverno.image.kind": "A", "io.kyverno.image.name": "a/b"}}]}`, `{"layers": [{` + digest + `, "size": -1}]}`, titled("2/x", "x", "x"), "[]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := Files(data)
		if err != nil {
			return
		}
		seen, size := map[string]bool{}, int64(0)
		for _, file := range files {
			if !fs.ValidPath(file.Name) || file.Name == "." || seen[file.Name] {
				t.Errorf("%s: a file %q", data, file.Name)
			}
			seen[file.Name] = true
			if _, err := ParseDigest(file.Digest); err != nil || file.Size < 0 {
				t.Errorf("%s: %+v, %v", data, file, err)
			}
			if size += file.Size; size > MaxBlob {
				t.Errorf("%s: %d bytes", data, size)
			}
		}
	})
}
