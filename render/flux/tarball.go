package flux

import (
	"path"
	"strings"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/tarball"
)

// extracted limits the unpacked size of an archive.
var extracted = tarball.Limits{Bytes: 64 << 20, Entries: 10_000}

func isTarball(name string) bool {
	return strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".tgz")
}

// extract unpacks an archive into a directory of the staging. Its files have no
// lines in the tree.
func (c *copier) extract(name, to string) error {
	if !isTarball(name) {
		return c.failure("%s is no archive: only .tar.gz and .tgz can be extracted", name)
	}
	data, err := render.ReadFile(c.from.fsys, c.from.path(name))
	if err == nil {
		err = tarball.Each(data, extracted, func(file string, data []byte) error {
			c.staging.files[path.Join(to, file)] = staged{from: c.from, data: data}
			return nil
		})
	}
	if err != nil {
		return c.failure("%s can't be extracted: %w", name, err)
	}
	return nil
}
