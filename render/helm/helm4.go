package helm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/template"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/preadmit/preadmit/render"
	mergevalues "github.com/preadmit/preadmit/render/internal/values"
)

// Argo CD and Flux contain Helm 4, this program contains Helm 3. The functions in this file do what
// Helm 4 does differently.

// isHelm4 reports whether the source is rendered as by Helm 4.
func isHelm4(src render.Source) bool { return params(src).Version != "" }

// asHelm4 changes the chart so that Helm 3 processes its dependencies as Helm 4 does. It returns the
// values for that.
func (r *release) asHelm4(user map[string]any) (map[string]any, error) {
	if v := r.chart.Metadata.APIVersion; v != chart.APIVersionV1 && v != chart.APIVersionV2 {
		return nil, r.reader.manifestOf(r.chart).errorAt("helm-chart", line(r.reader, r.chart, "apiVersion"), 0,
			fmt.Errorf("Helm 4 does not support charts with apiVersion %s", sentence(v)))
	}
	if err := r.reader.allDocuments(r.chart); err != nil {
		return nil, err
	}
	if err := r.reader.ownAliases(r.chart); err != nil {
		return nil, err
	}
	before := map[*chart.Chart]map[string]any{}
	dropNulls(r.chart, user, before)
	values, err := chartutil.CoalesceValues(r.chart, user)
	for c, was := range before {
		c.Values = was // importing values heeds their nulls
	}
	if err != nil {
		return user, nil // which is reported later
	}
	return chartutil.MergeTables(render.Copy(user).(map[string]any), values), nil
}

// allDocuments merges the documents of the charts' values.yaml. Helm 3 reads the first one.
func (r *reader) allDocuments(c *chart.Chart) error {
	if at, data, ok := r.chartFile(c, "values.yaml"); ok && bytes.Contains(data, separator) {
		values, line, err := decodeDocuments(data)
		if err != nil {
			return at.errorAt("helm-chart", line, 0, err)
		}
		c.Values = values
	}
	for _, sub := range c.Dependencies() {
		if err := r.allDocuments(sub); err != nil {
			return err
		}
	}
	return nil
}

var separator = []byte("---")

// decodeDocuments decodes and merges the documents of a values file.
func decodeDocuments(data []byte) (values map[string]any, line int, err error) {
	values = map[string]any{}
	from := 0
	for docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(append(slices.Clip(data), '\n')))); ; {
		raw, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return values, 0, nil
		} else if err != nil {
			return nil, 0, errors.New("a line that separates documents goes on after ---, which Helm 4 refuses")
		}
		from += max(0, bytes.Index(data[from:], bytes.TrimSuffix(raw, []byte("\n"))))
		var doc map[string]any
		if line, err := decodeYAML(raw, &doc); err != nil {
			return nil, max(1, line) + bytes.Count(data[:from], []byte("\n")), err
		}
		values = mergevalues.Merge(values, doc)
	}
}

// ownAliases gives each alias of a dependency a copy of the chart and of the charts below it. In
// Helm 3 aliases of one chart share these, so that only the last one's templates are rendered.
func (r *reader) ownAliases(c *chart.Chart) error {
	if c.Metadata.Dependencies == nil {
		return nil // Helm does not process what is below
	}
	var subs []*chart.Chart
	for _, sub := range c.Dependencies() {
		name, listed, kept := sub.Name(), false, false
		for _, dep := range c.Metadata.Dependencies {
			if dep.Name != name || !chartutil.IsCompatibleRange(dep.Version, sub.Metadata.Version) {
				continue
			}
			listed = true
			if dep.Alias == "" {
				kept = true
				continue
			}
			dep.Name = dep.Alias
			own, ok := r.copied(sub, dep.Alias)
			if !ok {
				return r.manifestOf(c).errorAt("helm-chart", line(r, c, "dependencies"), 0,
					fmt.Errorf("with a copy for each alias, the chart and its dependencies have more than %d files", maxEntries))
			}
			subs = append(subs, own)
		}
		if kept || !listed {
			subs = append(subs, sub)
		}
	}
	c.SetDependencies(subs...)
	for _, sub := range subs {
		if err := r.ownAliases(sub); err != nil {
			return err
		}
	}
	return nil
}

// copied returns a copy of a chart and of those below it. Without ok they would have too many files.
func (r *reader) copied(c *chart.Chart, name string) (_ *chart.Chart, ok bool) {
	if r.entries += len(c.Raw); r.entries > maxEntries {
		return nil, false
	}
	out, metadata := *c, *c.Metadata
	metadata.Name = name
	metadata.Dependencies = nil
	for _, dep := range c.Metadata.Dependencies {
		own := *dep
		metadata.Dependencies = append(metadata.Dependencies, &own)
		for _, m := range r.missing {
			if m.dep == dep {
				r.missing = append(r.missing, missingDependency{&own, m.err})
			}
		}
	}
	out.Metadata = &metadata
	out.SetDependencies()
	for _, sub := range c.Dependencies() {
		own, ok := r.copied(sub, sub.Name())
		if !ok {
			return nil, false
		}
		out.AddDependency(own)
	}
	return &out, true
}

// dropNulls removes the nulls from the default values of a chart and its subcharts that Helm 4
// ignores. given are the values that replace the chart's own. before gets the values as they were.
func dropNulls(c *chart.Chart, given map[string]any, before map[*chart.Chart]map[string]any) {
	before[c] = c.Values
	c.Values, _ = render.Copy(c.Values).(map[string]any)
	subs := map[string]bool{}
	for _, sub := range c.Dependencies() {
		subs[sub.Name()] = true
	}
	all := map[string]any{}
	maps.Copy(all, given)
	for key, v := range c.Values {
		over, isGiven := given[key]
		overs, isMap := over.(map[string]any)
		own, ownMap := v.(map[string]any)
		switch {
		case !isGiven && v == nil:
			delete(c.Values, key)
			continue
		case ownMap && (!isGiven || isMap && !subs[key]):
			withoutNulls(own)
		}
		switch {
		case !isGiven:
			all[key] = v
		case isMap && ownMap:
			all[key] = chartutil.MergeTables(render.Copy(overs).(map[string]any), render.Copy(own).(map[string]any))
		}
	}
	for _, sub := range c.Dependencies() {
		below, _ := all[sub.Name()].(map[string]any)
		dropNulls(sub, below, before)
	}
}

func withoutNulls(m map[string]any) {
	for key, v := range m {
		if v == nil {
			delete(m, key)
		} else if below, ok := v.(map[string]any); ok {
			withoutNulls(below)
		}
	}
}

// chartFields returns the fields of a Chart.yaml as templates see them in Helm 4: in a map.
func chartFields(md chart.Metadata, isRoot bool) map[string]any {
	var maintainers, dependencies []any
	for _, m := range md.Maintainers {
		maintainers = append(maintainers, map[string]any{"Name": m.Name, "Email": m.Email, "URL": m.URL})
	}
	for _, d := range md.Dependencies {
		dependencies = append(dependencies, map[string]any{
			"Name": d.Name, "Version": d.Version, "Repository": d.Repository, "Condition": d.Condition, "Tags": anyList(d.Tags),
			"Enabled": d.Enabled, "ImportValues": anyList(d.ImportValues), "Alias": d.Alias,
		})
	}
	return map[string]any{
		"Name": md.Name, "Home": md.Home, "Sources": anyList(md.Sources), "Version": md.Version, "Description": md.Description,
		"Keywords": anyList(md.Keywords), "Maintainers": anyList(maintainers), "Icon": md.Icon, "APIVersion": md.APIVersion,
		"Condition": md.Condition, "Tags": md.Tags, "AppVersion": md.AppVersion, "Deprecated": md.Deprecated,
		"Annotations": md.Annotations, "KubeVersion": md.KubeVersion, "Dependencies": anyList(dependencies), "Type": md.Type,
		"IsRoot": isRoot,
	}
}

func anyList[V any](list []V) []any {
	all := make([]any, 0, len(list))
	for _, v := range list {
		all = append(all, v)
	}
	return all
}

// helm4Functions returns the functions that Helm 4 adds.
func (r *run) helm4Functions() template.FuncMap {
	return template.FuncMap{
		"mustToYaml": marshalsMust(r, mustToYAML),
		"mustToToml": marshalsMust(r, mustToTOML),
	}
}
