// Package helm renders Helm charts as `helm template` does. For each field it
// knows the line of the values that supplied it and the lines of the chart's
// templates that wrote it.
//
// A chart is loaded from the tree only (load.go, archive.go, dependency.go).
// Helm's own library composes its values (release.go). The templates are
// executed by this package instead of Helm's engine (template.go, run.go), with
// limits and with the same output each time. Execution records which template
// and which value each byte of the output comes from (provenance.go). A value
// is recognised by its address wherever templates pass it on (identity.go,
// valueindex.go), and traced to the file that set it (chartvalues.go, leaf.go). Charts that Argo
// CD and Flux deploy are rendered as by their Helm 4 (helm4.go). Tests compare the output with
// Helm's engine.
package helm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
)

// A Renderer renders charts: directories with a Chart.yaml, and archives of
// them. The zero value is ready. It is safe for concurrent use. It keeps parsed
// templates, which later renderings reuse.
type Renderer struct{ caches caches }

// Options describe the cluster that charts are rendered for.
type Options struct {
	// APIVersions lists the API versions and kinds that a cluster of a version
	// serves, such as apps/v1 and apps/v1/Deployment. If it is nil or returns
	// nothing, the list is that of Helm's libraries, which includes removed
	// versions.
	APIVersions func(kubeVersion string) []string
}

// New returns a Renderer.
func New(o Options) *Renderer { return &Renderer{caches{options: o}} }

// caches hold what releases share. Nothing in them depends on a single release.
type caches struct {
	options Options
	sources sources
	schemas schemas
}

// Kind is "helm".
func (*Renderer) Kind() string { return "helm" }

// Detect claims a directory with a Chart.yaml. The claim's Uses are the charts of its file://
// dependencies, which are then no units of their own.
func (*Renderer) Detect(fsys fs.FS, dir string) (render.Claim, bool) {
	name := path.Join(dir, "Chart.yaml")
	if info, err := fs.Stat(fsys, name); err != nil || info.IsDir() {
		return render.Claim{}, false
	}
	claim := render.Claim{Unit: true, Whole: true, Files: []string{name}}
	md, err := metadata(fsys, dir)
	if err != nil {
		return claim, true // Render reports the error
	}
	if strings.EqualFold(md.Type, "library") {
		claim.Unit, claim.Note = false, "library chart"
	}
	for _, dep := range md.Dependencies {
		if dep == nil || !strings.HasPrefix(dep.Repository, "file://") {
			continue
		}
		if target, ok := localPath(dir, dep.Repository); ok && !slices.Contains(claim.Uses, target) {
			claim.Uses = append(claim.Uses, target)
		}
	}
	return claim, true
}

// metadata reads the metadata of a chart's directory.
func metadata(fsys fs.FS, dir string) (*chart.Metadata, error) {
	md := new(chart.Metadata)
	for _, name := range []string{"Chart.yaml", "requirements.yaml"} {
		data, err := render.ReadFile(fsys, path.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) && name != "Chart.yaml" {
			continue
		} else if err != nil {
			return nil, err
		}
		if _, err := guardYAML(data); err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(data, md); err != nil {
			return nil, err
		}
	}
	return md, nil
}

// Name returns the name of the release: the one that the source sets, else the
// chart's name.
func (r *Renderer) Name(src render.Source) string {
	if name := params(src).ReleaseName; name != "" {
		return name
	}
	if info, err := fs.Stat(src.FS, src.Path); err == nil && info.IsDir() {
		if md, err := metadata(src.FS, src.Path); err == nil && md.Name != "" {
			return md.Name
		}
	} else if c, err := newReader(src.FS).loadArchive(src.Path); err == nil {
		return c.Name()
	}
	return strings.TrimSuffix(path.Base(src.Path), ".tgz")
}

// Render renders the chart at src.Path, with hooks and CRDs, in the order of
// `helm template`. Errors are *[render.Error] values with the rules
// "helm-chart", "helm-archive", "helm-values", "helm-schema", "helm-template"
// and "helm-output", "missing-dependency", "missing-values", and those of
// [render.ReadFile] and [render.Documents]. After an error of a template there
// are no objects, since Helm deploys nothing of such a release.
func (r *Renderer) Render(ctx context.Context, src render.Source) (objects []*render.Object, err error) {
	// text/template does not recover panics of Go's runtime, such as those of
	// reflect. Helm's engine turns them into errors too.
	defer func() {
		if p := recover(); p != nil {
			objects, err = nil, sourceError(src, "helm-template", fmt.Errorf("rendering breaks with a fault of type %T", p))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, maxWall)
	defer cancel()
	rel, err := r.caches.prepare(src)
	if err != nil && rel != nil {
		return nil, errors.Join(append(rel.warnings, err)...)
	} else if err != nil {
		return nil, err
	}
	outputs, err := rel.execute(ctx)
	if err != nil {
		return nil, errors.Join(append(rel.warnings, err)...)
	}
	objects, err = rel.objects(outputs)
	return objects, errors.Join(append(rel.warnings, err)...)
}
