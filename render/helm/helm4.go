package helm

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
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

// asHelm4 processes the dependencies of the release's chart as Helm 4 does.
func (r *release) asHelm4(user map[string]any) error {
	if v := r.chart.Metadata.APIVersion; v != chart.APIVersionV1 && v != chart.APIVersionV2 {
		return r.reader.manifestOf(r.chart).errorAt("helm-chart", line(r.reader, r.chart, "apiVersion"), 0,
			fmt.Errorf("Helm 4 does not support charts with apiVersion %s", sentence(v)))
	}
	if err := r.reader.allDocuments(r.chart); err != nil {
		return err
	}
	if err := r.reader.enable(r.chart, user, ""); err != nil {
		return err
	}
	return r.reader.importValues(r.chart)
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

// enable removes the disabled dependencies of a chart and of the charts below it. Unlike Helm 3 it
// copies the charts below an aliased one, and renames dependencies on one level after the other.
// path is the chart's path in the values, which are the release's.
func (r *reader) enable(c *chart.Chart, values map[string]any, path string) error {
	deps := c.Metadata.Dependencies
	if deps == nil {
		return nil // Helm does not process what is below
	}
	subs := slices.DeleteFunc(slices.Clone(c.Dependencies()), func(sub *chart.Chart) bool {
		return slices.ContainsFunc(deps, func(dep *chart.Dependency) bool { return fits(sub, dep) })
	})
	for _, dep := range deps {
		if i := slices.IndexFunc(c.Dependencies(), func(sub *chart.Chart) bool { return fits(sub, dep) }); i >= 0 {
			sub, ok := r.copied(c.Dependencies()[i], cmp.Or(dep.Alias, dep.Name), dep.Alias != "")
			if !ok {
				return r.manifestOf(c).errorAt("helm-chart", line(r, c, "dependencies"), 0,
					fmt.Errorf("with a copy for each alias, the chart and its dependencies have more than %d files", maxEntries))
			}
			subs = append(subs, sub)
		}
		dep.Name = cmp.Or(dep.Alias, dep.Name)
	}
	c.SetDependencies(subs...)
	values, err := coalesced(c, values)
	if err != nil {
		return r.unfit(c)
	}
	checked := copies(deps, func(dep *chart.Dependency) {
		dep.ImportValues = nil
		conditions := strings.Split(strings.TrimSpace(dep.Condition), ",")
		for i, condition := range conditions {
			if condition != "" {
				conditions[i] = path + condition
			}
		}
		dep.Condition = strings.Join(conditions, ",")
	})
	if _, err := processed(values, checked); err != nil {
		return r.unfit(c)
	}
	disabled := map[string]bool{}
	for i, dep := range deps {
		dep.Enabled = checked[i].Enabled
		disabled[dep.Name] = disabled[dep.Name] || !dep.Enabled
	}
	subs = slices.DeleteFunc(subs, func(sub *chart.Chart) bool { return disabled[sub.Name()] })
	for _, sub := range subs {
		if err := r.enable(sub, values, path+sub.Name()+"."); err != nil {
			return err
		}
	}
	c.Metadata.Dependencies = nil // stays nil if none is left, and then no values are imported
	for _, dep := range deps {
		if !disabled[dep.Name] {
			c.Metadata.Dependencies = append(c.Metadata.Dependencies, dep)
		}
	}
	c.SetDependencies(subs...)
	return nil
}

func fits(sub *chart.Chart, dep *chart.Dependency) bool {
	return sub.Name() == dep.Name && chartutil.IsCompatibleRange(dep.Version, sub.Metadata.Version)
}

func (r *reader) unfit(c *chart.Chart) error {
	return r.manifestOf(c).errorAt("helm-values", 0, 0, errors.New("values of the chart and its subcharts don't fit together"))
}

// importValues adds the values that charts import from the charts below them.
func (r *reader) importValues(c *chart.Chart) error {
	for _, sub := range c.Dependencies() {
		if err := r.importValues(sub); err != nil {
			return err
		}
	}
	deps := c.Metadata.Dependencies
	if deps == nil {
		return nil
	}
	values, err := chartutil.MergeValues(c, nil)
	if err != nil {
		return r.unfit(c)
	}
	importing := copies(deps, func(dep *chart.Dependency) { dep.Condition, dep.Tags = "", nil })
	if c.Values, err = processed(values, importing); err != nil {
		return r.unfit(c)
	}
	for i, dep := range deps {
		dep.ImportValues = importing[i].ImportValues
	}
	return nil
}

// processed has Helm 3 process dependencies whose charts' values are part of the given ones.
func processed(values map[string]any, deps []*chart.Dependency) (map[string]any, error) {
	c := &chart.Chart{Metadata: &chart.Metadata{Dependencies: deps}, Values: values}
	err := chartutil.ProcessDependenciesWithMerge(c, nil)
	return c.Values, err
}

func copies(deps []*chart.Dependency, change func(*chart.Dependency)) (all []*chart.Dependency) {
	for _, dep := range deps {
		own := *dep
		change(&own)
		all = append(all, &own)
	}
	return all
}

// coalesced returns the values of a chart and those below it over their defaults, without the nulls
// that Helm 4 ignores.
func coalesced(c *chart.Chart, values map[string]any) (map[string]any, error) {
	before := map[*chart.Chart]map[string]any{}
	dropNulls(c, values, before)
	defer func() {
		for c, was := range before {
			c.Values = was // importing values heeds their nulls
		}
	}()
	return chartutil.CoalesceValues(c, values)
}

// copied returns a copy of a chart for a dependency. As in Helm 4, copies share what is two levels
// below, until that is copied for dependencies there. Without ok there are too many files.
func (r *reader) copied(c *chart.Chart, name string, aliased bool) (_ *chart.Chart, ok bool) {
	if aliased {
		r.entries += fileCount(c)
	}
	out, metadata := *c, *c.Metadata
	metadata.Name = name
	metadata.Dependencies = copies(c.Metadata.Dependencies, func(*chart.Dependency) {})
	for i, dep := range metadata.Dependencies {
		for _, m := range r.missing {
			if m.dep == c.Metadata.Dependencies[i] {
				r.missing = append(r.missing, missingDependency{dep, m.err})
			}
		}
	}
	if metadata.Dependencies == nil && c.Metadata.Dependencies != nil {
		metadata.Dependencies = []*chart.Dependency{}
	}
	out.Metadata = &metadata
	out.SetDependencies()
	for _, sub := range c.Dependencies() {
		own := *sub
		out.AddDependency(&own)
	}
	return &out, r.entries <= maxEntries
}

// fileCount counts the files of a chart and of those below it.
func fileCount(c *chart.Chart) int {
	n := len(c.Raw)
	for _, sub := range c.Dependencies() {
		n += fileCount(sub)
	}
	return n
}

// dropNulls removes the nulls from the default values of a chart and its subcharts that Helm 4
// ignores. given are the values that replace the chart's own. before gets the values as they were.
func dropNulls(c *chart.Chart, given map[string]any, before map[*chart.Chart]map[string]any) {
	if _, ok := before[c]; !ok {
		before[c] = c.Values
	}
	c.Values, _ = render.Copy(before[c]).(map[string]any)
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
