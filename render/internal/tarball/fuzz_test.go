package tarball

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"
)

// FuzzEach holds that an archive has the regular files that archive/tar finds in it,
// under names within the archive's root and within the limits.
func FuzzEach(f *testing.F) {
	for _, name := range []string{"a", "../a", "/a//b", `..\..\a`, "", ".", "\xdf/a"} {
		var plain, packed bytes.Buffer
		w := tar.NewWriter(&plain)
		_ = w.WriteHeader(&tar.Header{Name: name, Size: 2, Mode: 0o644})
		_, _ = w.Write([]byte("hi"))
		_ = w.Close()
		z := gzip.NewWriter(&packed)
		_, _ = z.Write(plain.Bytes())
		_ = z.Close()
		f.Add(plain.Bytes())
		f.Add(packed.Bytes())
	}
	limits := Limits{Bytes: 1 << 16, Entries: 10}
	f.Fuzz(func(t *testing.T, data []byte) {
		var names []string
		var found [][]byte
		total := int64(0)
		err := Each(data, limits, func(name string, content []byte) error {
			if !fs.ValidPath(name) || name == "." {
				t.Errorf("a file %q", name)
			}
			total += int64(len(content))
			names, found = append(names, name), append(found, content)
			return nil
		})
		if total > limits.Bytes || len(names) > limits.Entries {
			t.Errorf("%d files of %d bytes", len(names), total)
		}
		if err != nil {
			return
		}
		in := io.Reader(bytes.NewReader(data))
		if z, err := gzip.NewReader(in); err == nil {
			in = z
		} else {
			in = bytes.NewReader(data)
		}
		for r := tar.NewReader(in); ; {
			h, err := r.Next()
			if err != nil {
				break
			}
			if h.Typeflag != tar.TypeReg {
				continue
			}
			content, _ := io.ReadAll(io.LimitReader(r, limits.Bytes+1))
			switch {
			case len(found) > 0 && bytes.Equal(found[0], content):
				found = found[1:]
			case path.Join("/", strings.ReplaceAll(h.Name, `\`, "/")) != "/":
				t.Fatalf("%q is left out", h.Name)
			}
		}
		if len(found) > 0 {
			t.Errorf("%d files too many", len(found))
		}
	})
}
