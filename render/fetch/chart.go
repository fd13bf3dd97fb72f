package fetch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v2"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/artifact"
)

// chart downloads a chart's archive from a Helm repository. If the lock has the
// archive's address, the repository's index is not requested.
func (f *Fetcher) chart(ctx context.Context, r *render.Remote, locked *Locked) (*Content, error) {
	if locked != nil && locked.Archive != "" {
		data, err := f.get(ctx, locked.Archive, artifact.MaxBlob)
		return &Content{Resolved: locked.Resolved, Archive: locked.Archive, Data: data}, err
	}
	index, err := f.index(ctx, r.URL)
	if err != nil {
		return nil, err
	}
	version := r.Version
	if locked != nil && locked.Resolved != "" {
		version = locked.Resolved
	}
	release, err := index.find(r.Name, version)
	if err != nil {
		return nil, err
	}
	archive, err := release.address(r.URL)
	if err != nil {
		return nil, err
	}
	data, err := f.get(ctx, archive, artifact.MaxBlob)
	if err != nil {
		return nil, err
	}
	if want := strings.ToLower(strings.TrimPrefix(release.Digest, "sha256:")); want != "" && "sha256:"+want != artifact.Digest(data) {
		return nil, errors.New("the archive does not have the digest that the repository's index says")
	}
	return &Content{Resolved: release.Version, Archive: archive, Data: data}, nil
}

// A repositoryIndex is the index.yaml of a Helm repository. It is requested
// once.
type repositoryIndex struct {
	once    sync.Once
	err     error
	Entries map[string][]chartRelease `yaml:"entries" json:"entries"`
}

// A chartRelease is a version of a chart in an index.
type chartRelease struct {
	Version string   `yaml:"version" json:"version"`
	URLs    []string `yaml:"urls" json:"urls"`
	Digest  string   `yaml:"digest" json:"digest"`
}

func (f *Fetcher) index(ctx context.Context, repository string) (*repositoryIndex, error) {
	f.mu.Lock()
	index := f.indexes[repository]
	if index == nil {
		index = &repositoryIndex{}
		f.indexes[repository] = index
	}
	f.mu.Unlock()
	index.once.Do(func() {
		u, err := url.Parse(repository)
		if err != nil {
			index.err = fmt.Errorf("%q is no address", repository)
			return
		}
		data, err := f.get(ctx, u.JoinPath("index.yaml").String(), maxIndex)
		if err != nil {
			index.err = fmt.Errorf("index.yaml: %w", reason(err))
			return
		}
		if index.parse(data) != nil || index.Entries == nil {
			index.err = errors.New("index.yaml is no index of a Helm repository")
		}
	})
	return index, index.err
}

func (r *repositoryIndex) parse(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return json.Unmarshal(data, r)
	}
	return yaml.Unmarshal(data, r)
}

// find returns the newest version of a chart within a range, as Helm does: the
// exact version if it exists, and no prerelease unless the range asks for one.
func (r *repositoryIndex) find(name, requested string) (*chartRelease, error) {
	releases := r.Entries[name]
	if len(releases) == 0 {
		return nil, fmt.Errorf("the repository has no chart %s", name)
	}
	var versions []string
	for i := range releases {
		versions = append(versions, releases[i].Version)
	}
	i, err := newest(versions, requested)
	if err != nil {
		return nil, err
	}
	return &releases[i], nil
}

// newest returns the index of the newest version within a range; "" allows any
// version.
func newest(versions []string, requested string) (int, error) {
	for i, v := range versions {
		if v == requested {
			return i, nil
		}
	}
	requested = cmp.Or(requested, "*")
	constraint, err := semver.NewConstraint(requested)
	if err != nil {
		return 0, fmt.Errorf("there is no version %s, and it is no range", requested)
	}
	found := -1
	var best *semver.Version
	for i, text := range versions {
		v, err := semver.NewVersion(text)
		if err == nil && constraint.Check(v) && (best == nil || v.GreaterThan(best)) {
			found, best = i, v
		}
	}
	if found < 0 {
		return 0, fmt.Errorf("no version of it is %s", requested)
	}
	return found, nil
}

// address returns the address of the archive, which an index may give relative
// to its own.
func (c *chartRelease) address(repository string) (string, error) {
	if len(c.URLs) == 0 {
		return "", errors.New("the repository's index has no address for it")
	}
	base, err := url.Parse(strings.TrimRight(repository, "/") + "/")
	if err != nil {
		return "", err
	}
	u, err := base.Parse(c.URLs[0])
	if err != nil {
		return "", errors.New("the repository's index has no valid address for it")
	}
	u.User = nil
	return u.String(), nil
}

// isExact reports whether a version is a single version rather than a range.
func isExact(version string) bool {
	_, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v"))
	return err == nil
}
