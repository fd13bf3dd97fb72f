package flux

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/tarball"
	mergevalues "github.com/preadmit/preadmit/render/internal/values"
)

// helmReleaseSpec is the spec of a HelmRelease, of any version.
type helmReleaseSpec struct {
	target `json:",inline"`
	Chart  *struct {
		Spec chartSpec `json:"spec"`
	} `json:"chart"`
	ChartRef        *reference        `json:"chartRef"`
	ReleaseName     string            `json:"releaseName"`
	TargetNamespace string            `json:"targetNamespace"`
	Values          map[string]any    `json:"values"`
	ValuesFrom      []valuesReference `json:"valuesFrom"`
	Install         struct {
		CRDs                     string `json:"crds"`
		SkipCRDs                 bool   `json:"skipCRDs"` // of v2beta1
		CreateNamespace          bool   `json:"createNamespace"`
		DisableHooks             bool   `json:"disableHooks"`
		DisableSchemaValidation  bool   `json:"disableSchemaValidation"`
		DisableOpenAPIValidation bool   `json:"disableOpenAPIValidation"`
	} `json:"install"`
	Test struct {
		Enable bool `json:"enable"`
	} `json:"test"`
	PostRenderers      []postRenderer `json:"postRenderers"`
	PostRenderStrategy string         `json:"postRenderStrategy"`
	CommonMetadata     commonMetadata `json:"commonMetadata"`
	DependsOn          []reference    `json:"dependsOn"`
}

// A chartSpec names a chart: that of a HelmRelease's template or of a HelmChart.
type chartSpec struct {
	Chart                    string    `json:"chart"`
	Version                  string    `json:"version"`
	SourceRef                reference `json:"sourceRef"`
	ValuesFile               string    `json:"valuesFile"` // of v2beta1
	ValuesFiles              []string  `json:"valuesFiles"`
	IgnoreMissingValuesFiles bool      `json:"ignoreMissingValuesFiles"`
}

// The names of the files that this package lays over an artifact.
const valuesName = ".preadmit-values.yaml"

// helmRelease renders what helm-controller installs for a HelmRelease.
func (t *task) helmRelease() error {
	t.unit.Renderer = "helm"
	var spec helmReleaseSpec
	if err := t.spec(&spec); err != nil {
		return err
	}
	t.aim(spec.target)
	t.unit.Release, t.unit.ByClient = releaseName(t.object, &spec), t.helmVersion() == ""
	t.unit.Namespace = cmp.Or(spec.TargetNamespace, t.object.GetNamespace())
	t.checkDependencies(spec.DependsOn)
	values, invalid := t.compose(spec.Values, spec.ValuesFrom)
	if invalid == nil {
		t.unit.Values = values.covered()
	}
	a, chart, err := t.chart(&spec) // also without values, so that the world knows what the release reads
	if err := errors.Join(invalid, err); err != nil {
		return err
	}
	t.unit.FS, t.unit.Path, t.unit.Chart = a.fsys, a.shown(chart), chartName(a, chart)
	objects, err := t.install(a, chart, values, &spec)
	if err != nil {
		return err
	}
	if objects, err = t.postRender(objects, &spec); err != nil {
		return err
	}
	if spec.Install.CreateNamespace && spec.TargetNamespace != "" {
		objects = append(objects, t.namespace())
	}
	t.unit.Objects = objects
	return nil
}

// chartName returns the name in the Chart.yaml of a directory or an archive, or "".
func chartName(a artifact, chart string) string {
	file := chart
	if a.isDir(chart) {
		file = path.Join(chart, "Chart.yaml")
	}
	data, err := render.ReadFile(a.fsys, file)
	if file == chart && err == nil {
		archive := data
		data = nil
		found := errors.New("found")
		err = tarball.Each(archive, extracted, func(name string, content []byte) error {
			if _, name, _ = strings.Cut(name, "/"); name != "Chart.yaml" {
				return nil
			}
			data = content
			return found
		})
		if err == found {
			err = nil
		}
	}
	var metadata struct{ Name string }
	if err != nil || yaml.Unmarshal(data, &metadata) != nil {
		return ""
	}
	return metadata.Name
}

// releaseName returns the name of the release, which Helm allows 53 characters.
func releaseName(o *render.Object, spec *helmReleaseSpec) string {
	name := spec.ReleaseName
	if name == "" {
		name = o.GetName()
		if spec.TargetNamespace != "" {
			name = spec.TargetNamespace + "-" + name
		}
	}
	const longest, kept = 53, 40
	if len(name) <= longest {
		return name
	}
	return fmt.Sprintf("%s-%.12s", name[:kept], fmt.Sprintf("%x", sha256.Sum256([]byte(name))))
}

// install renders the chart with the values of the release.
func (t *task) install(a artifact, chart string, values *composed, spec *helmReleaseSpec) ([]*render.Object, error) {
	overlay, over := a.over()
	file := a.path(valuesName)
	if err := overlay.WriteFrom(file, values.values, values); err != nil {
		return nil, t.error("/spec/values", "invalid-values", "values of HelmRelease %s can't be written", t.object.GetName())
	}
	c := t.targetCluster()
	objects, err := t.world.Render(t.ctx, render.Source{
		FS: over.fsys, Path: chart, Kind: "helm", Namespace: t.unit.Namespace, Owner: t.object,
		Helm: &render.Helm{
			Version: t.helmVersion(), ReleaseName: t.unit.Release, ValueFiles: []string{file}, KubeVersion: c.KubeVersion,
			APIVersions: t.world.APIVersions(c, t.object, a.fsys, chart),
			SkipCRDs:    spec.Install.CRDs == "Skip" || spec.Install.SkipCRDs, SkipSchema: spec.Install.DisableSchemaValidation,
			Dialect: render.YAML12, // post-rendering is kustomize's
		},
	})
	return t.traced(over, objects, err)
}

// helmVersion returns the version of Helm that is part of helm-controller: since Flux 2.8 it is 4.
func (t *task) helmVersion() string {
	if render.Since(t.world.Cluster.FluxVersion, 2, 8) {
		return "v4.2"
	}
	return ""
}

// traced replaces places of rendered objects in an artifact by places in the
// tree. It records warnings, and returns other errors. If these are only about sources
// that are not in the tree, it returns what was rendered without them, too.
func (t *task) traced(a artifact, objects []*render.Object, err error) ([]*render.Object, error) {
	err = a.errors(err)
	failures := render.Failures(err)
	switch {
	case len(failures) > 0 && !render.OnlyMissing(err):
		return nil, err
	case len(failures) == 0 && err != nil:
		t.warnings, err = append(t.warnings, err), nil
	}
	for i, o := range objects {
		copied := *o
		copied.Provenance = a.provenance(o.Provenance)
		objects[i] = &copied
	}
	return objects, err
}

// chart returns the artifact with the chart of a release, and its directory or
// archive there.
func (t *task) chart(spec *helmReleaseSpec) (artifact, string, error) {
	switch ref := spec.ChartRef; {
	case ref != nil && ref.Kind == "HelmChart":
		return t.helmChart(*ref)
	case ref != nil:
		return t.chartRef(*ref)
	case spec.Chart == nil:
		return artifact{}, "", t.error("/spec", "missing-chart", "HelmRelease %s names no chart", t.object.GetName())
	}
	return t.chartOf(spec.Chart.Spec, "/spec/chart/spec")
}

// helmChart returns the chart of a HelmChart object.
func (t *task) helmChart(ref reference) (artifact, string, error) {
	ref.Namespace = cmp.Or(ref.Namespace, t.object.GetNamespace())
	if _, declared := t.world.Source(ref.Kind, ref.Namespace, ref.Name); declared {
		return t.chartRef(ref)
	}
	o := t.world.Object(schema.GroupKind{Group: sourceGroup, Kind: ref.Kind}, ref.Namespace, ref.Name)
	if o == nil {
		return artifact{}, "", t.missing("/spec/chartRef", "missing-source", "there is no %s", ref)
	}
	var spec chartSpec
	if err := decodeSpec(o, &spec); err != nil {
		return artifact{}, "", err
	}
	spec.SourceRef.Namespace = ref.Namespace
	return t.chartOf(spec, "/spec/chartRef")
}

// chartRef returns a chart that is itself a source. In an OCI artifact's
// archive the chart is in a directory of its own.
func (t *task) chartRef(ref reference) (artifact, string, error) {
	a, err := t.source("/spec/chartRef", ref)
	if err != nil {
		return a, "", err
	}
	if exists(a.fsys, path.Join(a.root, "Chart.yaml")) {
		return a, a.root, nil
	}
	entries, _ := fs.ReadDir(a.fsys, a.root)
	for _, e := range entries {
		dir := path.Join(a.root, e.Name())
		if e.IsDir() && exists(a.fsys, path.Join(dir, "Chart.yaml")) {
			return a, dir, nil
		}
	}
	return a, "", t.error("/spec/chartRef", "missing-chart", "%s holds no chart", withNamespace(ref, t.object))
}

// chartOf returns the chart that a template names. pointer is the field of the
// HelmRelease that led there.
func (t *task) chartOf(spec chartSpec, pointer string) (artifact, string, error) {
	ref := withNamespace(spec.SourceRef, t.object)
	var a artifact
	var chart string
	var err error
	if ref.Kind == "HelmRepository" {
		a, chart, err = t.repositoryChart(spec, ref, pointer)
	} else {
		a, chart, err = t.sourceChart(spec, ref, pointer)
	}
	if err != nil {
		return a, "", err
	}
	if spec.ValuesFile != "" {
		spec.ValuesFiles = append(spec.ValuesFiles[:len(spec.ValuesFiles):len(spec.ValuesFiles)], spec.ValuesFile)
	}
	if len(spec.ValuesFiles) == 0 {
		return a, chart, nil
	}
	a, err = t.withValues(a, chart, spec, pointer)
	return a, chart, err
}

// chartField returns the field with the chart's name, for the field that led to
// the chart.
func chartField(pointer string) string {
	if pointer == "/spec/chart/spec" {
		return pointer + "/chart"
	}
	return pointer
}

// sourceChart returns a chart that is a directory of a source.
func (t *task) sourceChart(spec chartSpec, ref reference, pointer string) (artifact, string, error) {
	a, err := t.source(pointer, ref)
	if err != nil {
		return a, "", err
	}
	if path.IsAbs(spec.Chart) {
		return a, "", t.error(chartField(pointer), "missing-chart", "chart %s of %s must be a relative path", spec.Chart, ref)
	}
	chart := a.path(spec.Chart)
	if !exists(a.fsys, chart) {
		return a, "", t.error(chartField(pointer), "missing-chart", "%s has no chart %s", ref, spec.Chart)
	}
	return a, chart, nil
}

// repositoryChart returns a chart of a HelmRepository: from the folder that the
// configuration declares, else as it was fetched.
func (t *task) repositoryChart(spec chartSpec, ref reference, pointer string) (artifact, string, error) {
	o := t.world.Object(schema.GroupKind{Group: sourceGroup, Kind: ref.Kind}, ref.Namespace, ref.Name)
	var repository sourceSpec
	if o != nil {
		if err := decodeSpec(o, &repository); err != nil {
			return artifact{}, "", err
		}
	}
	repo, found := t.world.Source(ref.Kind, ref.Namespace, ref.Name)
	if !found && repository.URL != "" {
		repo, found = t.world.Declared(repository.URL)
	}
	if found {
		for _, name := range []string{spec.Chart, spec.Chart + "-" + spec.Version + ".tgz"} {
			if chart := repo.Path(name); exists(repo.FS, chart) {
				return artifact{fsys: repo.FS, root: path.Clean(cmp.Or(repo.Root, "."))}, chart, nil
			}
		}
	}
	from := cmp.Or(repository.URL, ref.String())
	e := t.missing(chartField(pointer), "missing-chart", "chart %s %s of %s is not in the tree", spec.Chart, cmp.Or(spec.Version, "*"), from)
	const instead = "put the chart into a folder and declare that folder for the repository under `sources` in .preadmit/config.yaml"
	if repository.URL == "" {
		e.Hint = instead
		return artifact{}, "", e
	}
	remote := render.NewChart(repository.URL, spec.Chart, spec.Version)
	fetched, err := t.world.Fetched(remote)
	if err != nil {
		return artifact{}, "", e.Needs(remote, err, instead)
	}
	return artifact{fsys: fetched.FS, root: fetched.Root}, fetched.Root, nil
}

// withValues returns the artifact with other default values of the chart, those
// of valuesFiles.
func (t *task) withValues(a artifact, chart string, spec chartSpec, pointer string) (artifact, error) {
	if !a.isDir(chart) {
		return a, t.error(pointer, "unsupported", "valuesFiles for a chart that is an archive are not rendered: unpack the chart")
	}
	all := &composed{values: map[string]any{}}
	for _, name := range spec.ValuesFiles {
		file := a.path(name)
		data, err := render.ReadFile(a.fsys, file)
		if errors.Is(err, fs.ErrNotExist) {
			if spec.IgnoreMissingValuesFiles {
				continue
			}
			return a, t.error(pointer+"/valuesFiles", "missing-values", "there is no values file %s", name)
		}
		if err != nil {
			return a, a.errors(err)
		}
		docs, err := render.Documents(file, data, render.YAML11)
		var values map[string]any
		if len(render.Failures(err)) > 0 || yaml.Unmarshal(data, &values) != nil {
			return a, errors.Join(a.errors(err), t.error(pointer+"/valuesFiles", "invalid-values", "values file %s is no YAML document of values", name))
		}
		layer := valuesLayer{values: values, places: fixed{}}
		if len(docs) > 0 {
			layer.places = a.provenance(docs[0].Positions)
		}
		all.values = mergevalues.Merge(all.values, values)
		all.layers = append(all.layers, layer)
	}
	all.values, _ = plain(all.values).(map[string]any)
	overlay, over := a.over()
	return over, overlay.WriteFrom(path.Join(chart, "values.yaml"), all.values, all)
}

// namespace returns the Namespace that install.createNamespace makes.
func (t *task) namespace() *render.Object {
	o := &render.Object{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": t.unit.Namespace, "labels": map[string]any{"name": t.unit.Namespace}},
	}}}
	o.Provenance = fixed(render.WithRole(t.object.At("/spec/install/createNamespace"), render.Generated))
	return o
}

// inCRDs reports whether an object is from a crds directory of a chart or its
// subcharts, which are no templates. Post-renderers don't get those.
func inCRDs(o *render.Object) bool {
	manifest := false
	for _, at := range o.At("/kind") {
		if at.Role == render.Template {
			return false
		}
		manifest = manifest || at.Role == render.Manifest
	}
	return manifest
}
