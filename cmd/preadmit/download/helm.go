package download

import (
	"cmp"
	"io"
	"os"
	"path/filepath"

	"helm.sh/helm/v3/pkg/helmpath"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/fetch"
	"github.com/preadmit/preadmit/render/store"
)

// helmCached returns the locked archive of an entry from Helm's own cache, with its provenance
// file. It returns nil if the cache does not have exactly that archive.
func helmCached(e *store.Entry) *fetch.Content {
	if e == nil || e.Kind != render.HelmChart {
		return nil
	}
	dir := cmp.Or(os.Getenv("HELM_REPOSITORY_CACHE"), helmpath.CachePath("repository"))
	name := e.Name + "-" + e.Resolved + ".tgz"
	if filepath.Base(name) != name {
		return nil
	}
	data := readCached(filepath.Join(dir, name))
	if data == nil || store.Digest(data) != e.Digest {
		return nil
	}
	c := &fetch.Content{Resolved: e.Resolved, Digest: e.Digest, Archive: e.Archive, Data: data}
	if signature := readCached(filepath.Join(dir, name+".prov")); signature != nil {
		c.Signatures = [][]byte{signature}
	}
	return c
}

// readCached returns the content of a regular file, nil if it can't be read or is
// larger than an archive may be.
func readCached(name string) []byte {
	const most = 100 << 20
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return nil
	}
	return data
}
