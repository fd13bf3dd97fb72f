package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/component-base/version"

	"github.com/preadmit/preadmit/render"
)

// A release is one chart with the values that it is rendered with.
type release struct {
	src    render.Source
	reader *reader
	cache  *caches
	chart  *chart.Chart
	layers []layer // the release's files of values
	values chartutil.Values
	kube   string          // the version of Kubernetes that is given or assumed
	served map[string]bool // groups whose served versions are known
	// warnings are errors that don't keep it from being rendered.
	warnings []error
}

// prepare loads the chart and composes the values, as `helm template` does:
// first dependencies, which change the chart, then values, then the schema.
func (c *caches) prepare(src render.Source) (*release, error) {
	rel := &release{src: src, reader: newReader(src.FS), cache: c}
	rel.reader.store, rel.reader.helm4 = src.Store, isHelm4(src)
	var err error
	if rel.chart, err = rel.reader.load(path.Clean(src.Path), nil); err != nil {
		return nil, err
	}
	at := rel.reader.manifestOf(rel.chart)
	if t := rel.chart.Metadata.Type; t != "" && t != "application" {
		return nil, at.errorAt("helm-chart", 0, 0, fmt.Errorf("charts of type %s can't be installed", sentence(t)))
	}
	user, layers, err := userValues(src)
	if err != nil {
		return nil, err
	}
	rel.layers = layers
	rel.warnings = rel.reader.mismatched(rel.chart)
	if isHelm4(src) {
		if err := rel.asHelm4(user); err != nil {
			return nil, err
		}
		dropNulls(rel.chart, user, map[*chart.Chart]map[string]any{})
	} else if err := chartutil.ProcessDependenciesWithMerge(rel.chart, user); err != nil {
		return nil, rel.reader.unfit(rel.chart)
	}
	fatal, warnings := rel.reader.unmet(rel.chart)
	if len(fatal) > 0 {
		return nil, errors.Join(fatal...)
	}
	rel.warnings = append(rel.warnings, warnings...)
	return rel, rel.fill(user, at)
}

// fill composes the values that templates see.
func (r *release) fill(user map[string]any, at place) error {
	caps, err := r.cache.options.capabilities(params(r.src))
	if err != nil {
		return sourceError(r.src, "helm-values", err)
	}
	r.served = servedGroups(chartutil.DefaultVersionSet, caps.APIVersions)
	caps.APIVersions = append(caps.APIVersions, r.src.Variant.APIVersions...)
	r.kube = caps.KubeVersion.Version
	if patch := r.src.Variant.Patch; patch != "" {
		caps.KubeVersion.Version = fmt.Sprintf("v%s.%s.%s", caps.KubeVersion.Major, caps.KubeVersion.Minor, patch)
	}
	if want := r.chart.Metadata.KubeVersion; want != "" && !chartutil.IsCompatibleRange(want, caps.KubeVersion.String()) {
		return at.errorAt("helm-chart", line(r.reader, r.chart, "kubeVersion"), 0,
			fmt.Errorf("chart requires Kubernetes %s, and this is %s", sentence(want), caps.KubeVersion.Version))
	}
	opts := chartutil.ReleaseOptions{Name: r.name(), Namespace: r.src.Namespace, Revision: 1, IsInstall: true}
	if r.src.Variant.Upgrade {
		opts.Revision, opts.IsInstall, opts.IsUpgrade = 2, false, true
	}
	if r.src.Variant.Later {
		opts.Revision = 3
	}
	opts.Namespace = cmp.Or(opts.Namespace, "default")
	if err := chartutil.ValidateReleaseName(opts.Name); err != nil && params(r.src).ReleaseName != "" {
		return sourceError(r.src, "helm-values", fmt.Errorf("%s is no name for a release", sentence(opts.Name)))
	}
	r.values, err = chartutil.ToRenderValuesWithSchemaValidation(r.chart, user, opts, caps, true)
	if err != nil {
		return at.errorAt("helm-values", 0, 0, errors.New("values of the chart and its subcharts don't fit together"))
	}
	if params(r.src).SkipSchema {
		return nil
	}
	values, _ := r.values["Values"].(chartutil.Values)
	return errors.Join(r.validateChart(r.chart, values, nil)...)
}

func (r *release) name() string {
	if name := params(r.src).ReleaseName; name != "" {
		return name
	}
	return r.chart.Name()
}

// line returns the line of a key in a chart's Chart.yaml, or 0 if it is not
// found.
func line(r *reader, c *chart.Chart, key string) int {
	_, data, _ := r.chartFile(c, "Chart.yaml")
	if n := yamlPath(data, key); n != nil {
		return n.Line
	}
	return 0
}

// capabilities returns those of the newest Kubernetes that the libraries know,
// unless the release sets a version. Helm's own default is the oldest.
func (o Options) capabilities(h render.Helm) (*chartutil.Capabilities, error) {
	caps := chartutil.DefaultCapabilities.Copy()
	want := cmp.Or(h.KubeVersion, version.DefaultKubeBinaryVersion+".0")
	kube, err := chartutil.ParseKubeVersion(want)
	if err != nil {
		return nil, fmt.Errorf("%s is no version of Kubernetes", sentence(want))
	}
	caps.KubeVersion = *kube
	if strings.ContainsAny(want, "+-") { // what a distribution appends, which clusters tell and Helm's parser drops
		caps.KubeVersion.Version = "v" + strings.TrimPrefix(want, "v")
	}
	caps.HelmVersion.Version = cmp.Or(h.Version, caps.HelmVersion.Version)
	if o.APIVersions != nil {
		if served := o.APIVersions(h.KubeVersion); len(served) > 0 {
			caps.APIVersions = served
		}
	}
	caps.APIVersions = append(slices.Clone(caps.APIVersions), h.APIVersions...)
	return caps, nil
}

// An output is the rendered text of a template file.
type output struct {
	file    *templateFile
	text    string
	trace   *trace
	cut     []int // offsets in the trace's text at which "<no value>" was removed
	assumed []string
	dialect render.Dialect
	x       *execution
}

// execute renders the templates. The first error ends it, since Helm deploys
// nothing of a release with a failing template.
func (r *release) execute(ctx context.Context) ([]*output, error) {
	x := &execution{
		run: &run{
			ctx: ctx, cache: &r.cache.sources, traces: map[*byte]*trace{}, names: map[string]int{},
			regex: map[string]*pattern{}, assumed: map[string]bool{},
			src: r.src, served: r.served, raised: map[[3]string]asked{}, branches: map[int]*branch{},
		},
		files: map[string]*templateFile{}, defined: map[string]*templateFile{}, bySrc: map[*source]*templateFile{},
	}
	x.addTree(&tree{}, r.values["Values"])
	x.valueIndex = newValueIndex(x, r)
	if caps, ok := r.values["Capabilities"].(*chartutil.Capabilities); ok {
		x.kube, x.plainKube = caps.KubeVersion.Version, r.kube
	}
	x.pointers = append(x.pointers, fmt.Sprintf("%p", r.values["Capabilities"]))
	x.collect(r.reader, r.chart, table(r.values))
	if err := x.parse(); err != nil {
		return nil, err
	}
	if r.src.Variant.Lookup == render.LookupObject {
		x.read = x.paths()
	}
	var outputs []*output
	for _, name := range x.order {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		out, err := x.file(x.files[name])
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, out)
	}
	x.set = nil // frees its copy of all functions; places are found without it
	r.reportQuestions(x)
	r.reportBranches(x)
	return outputs, nil
}

// collect finds the templates of a chart and of its subcharts, each with the
// values of its own chart. It returns the chart's data for templates.
func (e *execution) collect(r *reader, c *chart.Chart, above table) map[string]any {
	subcharts := map[string]any{}
	files := newFiles(c.Files)
	e.valueIndex.files(r, c.Files)
	for _, m := range c.Metadata.Maintainers {
		e.pointers = append(e.pointers, fmt.Sprintf("%p", m))
	}
	for _, d := range c.Metadata.Dependencies {
		e.pointers = append(e.pointers, fmt.Sprintf("%p", d))
	}
	metadata := e.metadata(e.valueIndex.charts[c], *c.Metadata)
	scope := map[string]any{
		"Chart": struct {
			chart.Metadata
			IsRoot bool
		}{metadata, c.IsRoot()},
		"Files":        files,
		"Release":      above["Release"],
		"Capabilities": above["Capabilities"],
		"Values":       table{},
		"Subcharts":    subcharts,
	}
	if isHelm4(e.src) {
		scope["Chart"] = chartFields(metadata, c.IsRoot())
	}
	if values, ok := above["Values"].(chartutil.Values); c.IsRoot() && ok {
		scope["Values"] = table(values)
	} else if values, err := above.Table("Values." + c.Name()); err == nil {
		scope["Values"] = values
	}
	for _, sub := range c.Dependencies() {
		subcharts[sub.Name()] = e.collect(r, sub, scope)
	}
	home := c.ChartFullPath()
	for _, t := range c.Templates {
		if strings.EqualFold(c.Metadata.Type, "library") && !strings.HasPrefix(path.Base(t.Name), "_") {
			continue
		}
		name := path.Join(home, t.Name)
		e.files[name] = &templateFile{name: name, at: r.places[t], values: scope, base: path.Join(home, "templates"), templateText: newTemplateText(t.Data)}
	}
	return scope
}

// parse parses all templates into one set, in Helm's order: of two definitions
// the last counts.
func (e *execution) parse() error {
	e.order = slices.SortedFunc(maps.Keys(e.files), deeperFirst)
	e.set = template.New(rootName).Option("missingkey=zero").Funcs(e.functions())
	e.fields = e.doubtfulFields()
	var errs []error
	for _, name := range e.order {
		f := e.files[name]
		src, err := e.cache.parse(f.templateText, e.fields, params(e.src).Version)
		if err != nil {
			errs = append(errs, parseError(f, err))
			continue
		}
		f.src = src
		e.add(src)
		e.bySrc[src] = f
		if _, err := install(e.set, name, src); err != nil {
			errs = append(errs, parseError(f, err))
		}
		if len(errs) == maxErrors {
			break
		}
	}
	slices.Reverse(errs)
	return errors.Join(errs...)
}

// doubtfulFields returns the fields that hold the commit, and those that templates set to doubtful
// values or to values made from such fields.
func (e *execution) doubtfulFields() map[string]doubt {
	fields := map[string]doubt{}
	for _, name := range params(e.src).AtCommit {
		fields[name] = byCommit
	}
	e.doubtfulResults(fields)
	for {
		more := maps.Clone(fields)
		for _, f := range e.files {
			if !strings.Contains(f.text, "set") && !strings.Contains(f.text, "erge") {
				continue
			}
			src, err := e.cache.parse(f.templateText, fields, params(e.src).Version)
			if err != nil {
				continue
			}
			for name, d := range src.sets {
				more[name] = max(d, more[name])
			}
		}
		if len(more) == len(fields) {
			return more
		}
		fields = more
	}
}

const maxErrors = 20

// deeperFirst is the order in which Helm parses and executes templates.
func deeperFirst(a, b string) int {
	if d := strings.Count(b, "/") - strings.Count(a, "/"); d != 0 {
		return d
	}
	return strings.Compare(b, a)
}

// file executes one template file.
func (e *execution) file(f *templateFile) (*output, error) {
	e.run.file, e.draws, e.inFile = f.name, 0, e.counts
	clear(e.assumed)
	f.values["Template"] = table{"Name": f.name, "BasePath": f.base}
	frame, err := e.enter()
	if err != nil {
		return nil, f.at.errorAt("helm-template", 0, 0, err)
	}
	err = e.set.ExecuteTemplate(frame, f.name, f.values)
	t := e.leave(frame)
	if err != nil {
		return nil, e.failed(f, err)
	}
	if e.src.Variant.Upgrade {
		delete(e.assumed, questions[asksUpgrade].assumed)
	}
	out := &output{file: f, text: t.text, trace: t, assumed: sortedKeys(e.assumed), dialect: params(e.src).Dialect, x: e}
	if strings.Contains(t.text, noValue) {
		out.text = out.withoutNoValue()
	}
	return out, nil
}

// withoutNoValue removes the text that text/template writes for a missing
// value, as Helm does, and records where it was.
func (o *output) withoutNoValue() string {
	parts := strings.Split(o.trace.text, noValue)
	off := 0
	for _, part := range parts[:len(parts)-1] {
		off += len(part)
		o.cut = append(o.cut, off)
		off += len(noValue)
	}
	return strings.Join(parts, "")
}
