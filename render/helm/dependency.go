package helm

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/preadmit/preadmit/render"
)

// A missingDependency has no chart in the tree. It is an error only if conditions and tags enable
// it.
type missingDependency struct {
	dep *chart.Dependency
	err *render.Error
}

// local adds the charts of a chart's file:// dependencies, as `helm dependency build` would, and
// records the missing ones. dir is the chart's directory, or "" for a chart in an archive, whose
// dependencies must all be vendored.
func (r *reader) local(c *chart.Chart, dir string, chain []string) error {
	for _, sub := range c.Dependencies() {
		if err := r.local(sub, "", nil); err != nil {
			return err
		}
	}
	for i, dep := range c.Metadata.Dependencies {
		if dep == nil || vendored(c, dep) {
			continue
		}
		sub, err := r.localChart(c, i, dir, chain)
		var missing *render.Error
		switch {
		case errors.As(err, &missing) && missing.Rule == "missing-dependency":
			r.missing = append(r.missing, missingDependency{dep, missing})
		case err != nil:
			return err
		default:
			c.AddDependency(sub)
		}
	}
	return nil
}

func vendored(c *chart.Chart, dep *chart.Dependency) bool {
	return slices.ContainsFunc(c.Dependencies(), func(sub *chart.Chart) bool { return sub.Name() == dep.Name })
}

func (r *reader) localChart(c *chart.Chart, i int, dir string, chain []string) (*chart.Chart, error) {
	dep := c.Metadata.Dependencies[i]
	repository, ok := strings.CutPrefix(dep.Repository, "file://")
	if dir != "" && remoteRepository(dep.Repository) {
		return r.fetchedChart(c, i)
	}
	if !ok || dir == "" {
		e := r.atDependency(c, i, "dependency %s is not vendored", dep.Name)
		e.Hint, e.Missing = "run `helm dependency build` and commit charts/", true
		return nil, e
	}
	target, ok := localPath(dir, dep.Repository)
	switch {
	case !ok:
		return nil, r.atDependency(c, i, "dependency %s is outside of the tree: file://%s", dep.Name, sentence(repository))
	case len(chain) > maxLocal:
		return nil, r.atDependency(c, i, "file:// dependencies are nested more than %d deep", maxLocal)
	}
	for _, above := range chain {
		if above == target {
			return nil, r.atDependency(c, i, "dependency %s is a chart that depends on this one", dep.Name)
		}
	}
	if data, err := render.ReadFile(r.fsys, path.Join(target, "Chart.yaml")); err != nil || len(data) == 0 {
		return nil, r.atDependency(c, i, "dependency %s: no chart at %s", dep.Name, target)
	}
	sub, err := r.load(target, chain)
	switch {
	case err != nil:
		return nil, err
	case sub.Name() != dep.Name:
		return nil, r.atDependency(c, i, "dependency %s: the chart at %s has another name", dep.Name, target)
	case !satisfies(dep.Version, sub.Metadata.Version):
		return nil, r.atDependency(c, i, "dependency %s: the chart at %s has version %s, which is not %s", dep.Name, target, sub.Metadata.Version, dep.Version)
	}
	return sub, nil
}

func remoteRepository(repository string) bool {
	return strings.HasPrefix(repository, "https://") || strings.HasPrefix(repository, "http://") || strings.HasPrefix(repository, "oci://")
}

// fetchedChart loads a fetched dependency, in the version of the chart's lock
// if there is one.
func (r *reader) fetchedChart(c *chart.Chart, i int) (*chart.Chart, error) {
	dep := c.Metadata.Dependencies[i]
	remote := render.NewChart(dep.Repository, dep.Name, dep.Version)
	if c.Lock != nil {
		for _, locked := range c.Lock.Dependencies {
			if locked != nil && locked.Name == dep.Name && locked.Repository == dep.Repository {
				remote.Version = locked.Version
			}
		}
	}
	repo, err := render.Source{Store: r.store}.Fetched(remote)
	if err != nil {
		return nil, r.atDependency(c, i, "dependency %s is not vendored", dep.Name).Needs(remote, err, "`helm dependency build` and commit charts/")
	}
	was := r.fsys
	r.fsys = repo.FS
	defer func() { r.fsys = was }()
	sub, err := r.load(repo.Root, nil)
	if err == nil && sub.Name() != dep.Name {
		return nil, r.atDependency(c, i, "dependency %s: the chart that was fetched has another name", dep.Name)
	}
	return sub, err
}

// localPath resolves a file:// repository against the chart that names it.
func localPath(dir, repository string) (string, bool) {
	rel := strings.TrimPrefix(repository, "file://")
	if path.IsAbs(rel) || strings.Contains(rel, `\`) {
		return "", false
	}
	target := path.Join(dir, rel)
	return target, target != ".." && !strings.HasPrefix(target, "../")
}

func satisfies(constraint, version string) bool {
	return constraint == "" || chartutil.IsCompatibleRange(constraint, version)
}

// unmet returns errors for the enabled dependencies that are missing.
// ProcessDependencies has dropped the disabled ones. A missing dependency of
// the chart itself prevents the installation; Helm ignores one of a subchart.
func (r *reader) unmet(root *chart.Chart) (fatal, warnings []error) {
	for _, w := range r.missing {
		owner := listing(root, w.dep)
		if owner == nil {
			continue
		}
		if owner == root {
			fatal = append(fatal, w.err)
			continue
		}
		e := *w.err
		e.Warning = true
		warnings = append(warnings, &e)
	}
	return fatal, warnings
}

// listing returns the chart at or below c that lists a dependency, or nil.
func listing(c *chart.Chart, dep *chart.Dependency) *chart.Chart {
	if slices.Contains(c.Metadata.Dependencies, dep) {
		return c
	}
	for _, sub := range c.Dependencies() {
		if found := listing(sub, dep); found != nil {
			return found
		}
	}
	return nil
}

// mismatched returns errors for dependencies whose vendored chart has another
// version than requested. Helm silently drops those with an alias, and uses the
// others anyway.
func (r *reader) mismatched(c *chart.Chart) (errs []error) {
	for i, dep := range c.Metadata.Dependencies {
		if dep == nil || !vendored(c, dep) {
			continue
		}
		if v := matching(c, dep); v != "" {
			e := r.atDependency(c, i, "dependency %s: the vendored chart has version %s, which is not %s", dep.Name, v, dep.Version)
			e.Rule, e.Warning = "dependency-version", true
			e.Hint = "run `helm dependency build` and commit charts/"
			errs = append(errs, e)
		}
	}
	for _, sub := range c.Dependencies() {
		errs = append(errs, r.mismatched(sub)...)
	}
	return errs
}

// matching returns the version of the vendored chart if it does not satisfy
// dep.
func matching(c *chart.Chart, dep *chart.Dependency) (version string) {
	for _, sub := range c.Dependencies() {
		if sub.Name() != dep.Name {
			continue
		}
		if chartutil.IsCompatibleRange(dep.Version, sub.Metadata.Version) {
			return ""
		}
		version = sub.Metadata.Version
	}
	return version
}

// atDependency returns an error at the i-th dependency of a chart.
func (r *reader) atDependency(c *chart.Chart, i int, format string, args ...any) *render.Error {
	name := "Chart.yaml"
	if _, _, ok := r.chartFile(c, "requirements.yaml"); ok {
		name = "requirements.yaml"
	}
	at, data, _ := r.chartFile(c, name)
	var line, column int
	if n := yamlPath(data, "dependencies", i); n != nil {
		line, column = n.Line, n.Column
	}
	return at.errorAt("missing-dependency", line, column, fmt.Errorf(format, args...))
}

// yamlPath returns the node at a path of keys and indices, or nil.
func yamlPath(data []byte, path ...any) *yamlv3.Node {
	var doc yamlv3.Node
	if yamlv3.Unmarshal(data, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	n := doc.Content[0]
	for _, step := range path {
		if n = child(n, step); n == nil {
			return nil
		}
	}
	return n
}

func child(n *yamlv3.Node, step any) *yamlv3.Node {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	switch step := step.(type) {
	case int:
		if n.Kind == yamlv3.SequenceNode && step >= 0 && step < len(n.Content) {
			return n.Content[step]
		}
	case string:
		if n.Kind != yamlv3.MappingNode {
			return nil
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1]
			}
		}
	}
	return nil
}
