// Package tarball reads archives in memory, under limits. Chart archives have
// a reader of their own in render/helm, whose limit is for all archives of a
// chart; package store and render/flux use this one.
package tarball

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// Limits bound the unpacked content of an archive.
type Limits struct {
	Bytes   int64
	Entries int
}

// Each calls f for each regular file of a tar archive, which may be compressed
// by gzip. No name leads above the archive's root. Links, devices and
// directories are left out. The error is a sentence about the archive.
func Each(data []byte, max Limits, f func(name string, data []byte) error) error {
	in := io.Reader(bytes.NewReader(data))
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return errors.New("it is no gzip archive")
		}
		in = z
	}
	// The limit counts headers and padding as well, so that a stream without a
	// file in it ends too.
	left := max.Bytes
	limited := &io.LimitedReader{R: in, N: 2*max.Bytes + int64(max.Entries)*1024 + 1<<20}
	entries := 0
	for r := tar.NewReader(limited); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case limited.N <= 0:
			return fmt.Errorf("it is larger than %d MiB", max.Bytes>>20)
		case err != nil:
			return errors.New("it is no tar archive, or a damaged one")
		}
		if entries++; entries > max.Entries {
			return fmt.Errorf("it has more than %d entries", max.Entries)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(io.LimitReader(r, left+1))
		if left -= int64(len(content)); left < 0 || limited.N <= 0 {
			return fmt.Errorf("it is larger than %d MiB", max.Bytes>>20)
		}
		if err != nil {
			return errors.New("it ends too early")
		}
		name := strings.TrimPrefix(path.Join("/", strings.ReplaceAll(h.Name, `\`, "/")), "/")
		if name == "" {
			continue
		}
		if !fs.ValidPath(name) {
			return fmt.Errorf("the name %q in it is not UTF-8", name)
		}
		if err := f(name, content); err != nil {
			return err
		}
	}
}
