package fetch

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/preadmit/preadmit/render/internal/artifact"
	"github.com/preadmit/preadmit/render/internal/signature"
)

// maxSignatures limits the signatures that are checked for one artifact.
const maxSignatures = 50

// provenance downloads the provenance file beside a chart's archive.
func (f *Fetcher) provenance(ctx context.Context, c *Content) error {
	u, err := url.Parse(c.Archive)
	if err != nil {
		return fmt.Errorf("%q is no address of a file", c.Archive)
	}
	u.Path, u.RawPath = u.Path+".prov", ""
	data, err := f.get(ctx, u.String(), signature.MaxSize)
	if err != nil {
		return fmt.Errorf("its provenance file: %w", reason(err))
	}
	c.Signatures = [][]byte{data}
	return nil
}

// signatures downloads the signatures of a manifest from its registry.
func signatures(ctx context.Context, repo *remote.Repository, of ocispec.Descriptor, manifest []byte, kind signature.Kind) ([][]byte, error) {
	switch kind {
	case signature.Provenance:
		return provenanceLayer(ctx, repo, manifest)
	case signature.Cosign:
		simple, err := simpleSignatures(ctx, repo, of)
		if err != nil {
			return nil, err
		}
		bundles, err := bundles(ctx, repo, of)
		return append(simple, bundles...), err
	}
	return nil, nil
}

// provenanceLayer downloads the provenance file that a chart's manifest names.
func provenanceLayer(ctx context.Context, repo *remote.Repository, manifest []byte) ([][]byte, error) {
	var m ocispec.Manifest
	if json.Unmarshal(manifest, &m) != nil {
		return nil, errors.New("its manifest can't be read")
	}
	for _, layer := range m.Layers {
		if layer.MediaType == "application/vnd.cncf.helm.chart.provenance.v1.prov" {
			data, err := blob(ctx, repo, layer, signature.MaxSize)
			return [][]byte{data}, err
		}
	}
	return nil, nil
}

// simpleSignatures downloads the signatures that cosign stores beside an
// artifact, under a tag made from the artifact's digest.
func simpleSignatures(ctx context.Context, repo *remote.Repository, of ocispec.Descriptor) ([][]byte, error) {
	m, err := manifestOf(ctx, repo, "sha256-"+of.Digest.Encoded()+".sig")
	if m == nil || err != nil {
		return nil, err
	}
	var all [][]byte
	for _, layer := range m.Layers[:min(len(m.Layers), maxSignatures)] {
		var s signature.Simple
		s.Signature, err = base64.StdEncoding.DecodeString(layer.Annotations["dev.cosignproject.cosign/signature"])
		if err != nil || len(s.Signature) == 0 {
			continue
		}
		if s.Payload, err = blob(ctx, repo, layer, signature.MaxSize/2); err != nil {
			return nil, err
		}
		data, err := s.Marshal()
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// bundles downloads the sigstore bundles that refer to an artifact.
func bundles(ctx context.Context, repo *remote.Repository, of ocispec.Descriptor) ([][]byte, error) {
	var all [][]byte
	enough := errors.New("enough")
	err := repo.Referrers(ctx, of, "", func(referrers []ocispec.Descriptor) error {
		for _, r := range referrers {
			if !signature.IsBundle(r.ArtifactType) {
				continue
			}
			if len(all) == maxSignatures {
				return enough
			}
			m, err := manifestOf(ctx, repo, r.Digest.String())
			if err != nil {
				return err
			}
			if m == nil || len(m.Layers) != 1 || !signature.IsBundle(m.Layers[0].MediaType) {
				continue
			}
			data, err := blob(ctx, repo, m.Layers[0], signature.MaxSize)
			if err != nil {
				return err
			}
			all = append(all, data)
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return nil, fmt.Errorf("its signatures: %w", registryError(err))
	}
	return all, nil
}

// manifestOf downloads a manifest. It returns nil if the registry does not have
// it.
func manifestOf(ctx context.Context, repo *remote.Repository, reference string) (*ocispec.Manifest, error) {
	desc, err := repo.Resolve(ctx, reference)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("its signatures: %w", registryError(err))
	}
	data, err := blob(ctx, repo, desc, maxManifest)
	if err != nil {
		return nil, err
	}
	m := &ocispec.Manifest{}
	if json.Unmarshal(data, m) != nil {
		return nil, fmt.Errorf("the manifest %s can't be read", reference)
	}
	for _, layer := range m.Layers {
		if _, err := artifact.ParseDigest(layer.Digest.String()); err != nil {
			return nil, err
		}
	}
	return m, nil
}
