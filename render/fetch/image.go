package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	godigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/artifact"
)

const maxTags = 50_000

// image downloads the manifest of a chart or artifact in an OCI registry, and
// the layer with its files.
func (f *Fetcher) image(ctx context.Context, w Want) (*Content, error) {
	r, locked := w.Remote, w.Locked
	name := strings.TrimPrefix(r.URL, "oci://")
	if r.Kind == render.HelmOCIChart {
		name += "/" + r.Name
	}
	repo, err := remote.NewRepository(name)
	if err != nil {
		return nil, fmt.Errorf("%q is no name in a registry", name)
	}
	repo.Client, repo.PlainHTTP = f.registry, isLoopback(repo.Reference.Registry)
	resolved, reference := "", ""
	if locked != nil {
		resolved, reference = locked.Resolved, locked.Digest
	} else if resolved, reference, err = findTag(ctx, repo, r); err != nil {
		return nil, registryError(err)
	}
	desc, err := repo.Resolve(ctx, reference)
	if err != nil {
		return nil, registryError(err)
	}
	if desc.MediaType == ocispec.MediaTypeImageIndex || strings.Contains(desc.MediaType, "manifest.list") {
		return nil, errors.New("it is an index of several images, not an artifact")
	}
	manifest, err := blob(ctx, repo, desc, maxManifest)
	if err != nil {
		return nil, err
	}
	layers, err := layersOf(r, manifest)
	if err != nil {
		return nil, err
	}
	c := &Content{Resolved: resolved, Data: manifest, More: make(map[string][]byte)}
	if c.Signatures, err = signatures(ctx, repo, desc, manifest, w.Signed); err != nil {
		return nil, err
	}
	for _, layer := range layers {
		if _, ok := c.More[layer.Digest]; ok || w.Has(layer.Digest) {
			continue
		}
		of := ocispec.Descriptor{MediaType: layer.MediaType, Digest: godigest.Digest(layer.Digest), Size: layer.Size}
		if c.More[layer.Digest], err = blob(ctx, repo, of, artifact.MaxBlob); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// layersOf returns the layers of an artifact to download: all files, or the one
// with an archive.
func layersOf(r *render.Remote, manifest []byte) ([]artifact.Descriptor, error) {
	if r.Kind == render.OCIArtifact {
		if files, err := artifact.Files(manifest); err != nil || len(files) > 0 {
			var all []artifact.Descriptor
			for _, f := range files {
				all = append(all, f.Descriptor)
			}
			return all, err
		}
	}
	layer, err := artifact.Layer(manifest)
	return []artifact.Descriptor{layer}, err
}

// isLoopback reports whether a registry is on this machine. Clients use it
// without encryption.
func isLoopback(registry string) bool {
	host := registry
	if h, _, err := net.SplitHostPort(registry); err == nil {
		host = h
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && a.IsLoopback()
}

// blob downloads content and compares it with its digest.
func blob(ctx context.Context, repo *remote.Repository, desc ocispec.Descriptor, most int64) ([]byte, error) {
	if desc.Size > most {
		return nil, fmt.Errorf("it is larger than %d MiB", most>>20)
	}
	from, err := repo.Fetch(ctx, desc)
	if err != nil {
		return nil, registryError(err)
	}
	defer from.Close()
	data, err := content.ReadAll(from, desc)
	switch {
	case errors.Is(err, content.ErrMismatchedDigest):
		return nil, fmt.Errorf("the downloaded content does not have the digest %s", desc.Digest)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, content.ErrTrailingData):
		return nil, errors.New("the downloaded content does not have the size that the registry gives")
	}
	return data, err
}

// findTag returns the tag or digest for a Remote, and its version.
func findTag(ctx context.Context, repo *remote.Repository, r *render.Remote) (resolved, reference string, err error) {
	version := r.Version
	ranged, isRange := strings.CutPrefix(version, "semver:")
	tag := strings.ReplaceAll(version, "+", "_") // Helm's form, since tags can't contain a plus
	switch {
	case strings.HasPrefix(version, "sha256:"):
		return version, version, nil
	case r.Kind == render.OCIArtifact && !isRange:
		tag = cmp.Or(tag, "latest")
		return tag, tag, nil
	case r.Kind == render.HelmOCIChart:
		if ranged = version; isExact(version) {
			return version, tag, nil
		}
	}
	var tags, versions []string
	err = repo.Tags(ctx, "", func(page []string) error {
		for _, t := range page {
			tags, versions = append(tags, t), append(versions, strings.ReplaceAll(t, "_", "+"))
		}
		if len(tags) > maxTags {
			return fmt.Errorf("it has more than %d tags", maxTags)
		}
		return nil
	})
	if err != nil {
		return "", "", err
	}
	i, err := newest(versions, ranged)
	if err != nil {
		return "", "", err
	}
	return versions[i], tags[i], nil
}

// registryError describes a registry's error response in a sentence.
func registryError(err error) error {
	if errors.Is(err, errdef.ErrNotFound) {
		return errors.New("the registry does not have it")
	}
	return reason(err)
}
