package flux

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// maxExtracted bounds what an archive unpacks to.
const maxExtracted = 64 << 20

func isTarball(name string) bool {
	return strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz")
}

// extract unpacks an archive below a directory of the staging. Its files have no
// lines in the tree.
func (c *copier) extract(name, to string) error {
	if !isTarball(name) {
		return c.failure("%s is no archive: only .tar.gz and .tgz can be extracted", name)
	}
	data, err := render.ReadFile(c.from.fsys, c.from.path(name))
	if err == nil {
		err = unpack(data, func(file string, data []byte) {
			c.staging.files[path.Join(to, file)] = staged{from: c.from, data: data}
		})
	}
	if err != nil {
		return c.failure("%s can't be extracted: %w", name, err)
	}
	return nil
}

// unpack calls f for each regular file in an archive.
func unpack(data []byte, f func(name string, data []byte)) error {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return errors.New("it is no gzip archive")
	}
	left := int64(maxExtracted)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.New("it is no tar archive")
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(io.LimitReader(r, left+1))
		if err != nil {
			return errors.New("it ends too early")
		}
		if left -= int64(len(content)); left < 0 {
			return fmt.Errorf("it is larger than %d MiB", maxExtracted>>20)
		}
		f(strings.TrimPrefix(path.Join("/", h.Name), "/"), content)
	}
}
