package helm

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/strvals"

	"github.com/preadmit/preadmit/render"
)

// chartValues finds the files and flags that set values of a chart, for the chart
// itself and the charts below it.
type chartValues struct {
	name     string       // the chart's key in the values of the chart above
	above    *chartValues // nil for the release's chart
	subs     []*chartValues
	own      *valuesSource
	manifest *valuesSource // Chart.yaml
	imports  []imported
	given    []*valuesSource // set by the release, in order of precedence; only for the release's chart
}

// An imported is an entry of a dependency's import-values.
type imported struct {
	from          string // the dependency
	child, parent []string
}

// A valuesSource is a file that sets values, or values without a file.
type valuesSource struct {
	at   place
	data []byte
	read bool
	all  bool // the file's documents are merged, as Helm 4 does
	docs []render.Document
	doc  *render.Document // the one with the value that was looked up last
	// The values themselves, if there is no file: a release's own or those of
	// flags.
	values map[string]any
	flags  bool
	owner  *render.Object
	span   render.Span // for a value that is set by itself
}

// newChartValues returns the chartValues of a chart, and adds them and those of the charts
// below to all.
func newChartValues(r *reader, c *chart.Chart, above *chartValues, all map[*chart.Chart]*chartValues) *chartValues {
	h := &chartValues{name: c.Name(), above: above}
	all[c] = h
	if at, data, ok := r.chartFile(c, "values.yaml"); ok {
		h.own = &valuesSource{at: at, data: data, all: r.helm4}
	}
	if at, data, ok := r.chartFile(c, "Chart.yaml"); ok {
		h.manifest = &valuesSource{at: at, data: data}
	}
	for _, dep := range c.Metadata.Dependencies {
		h.imports = append(h.imports, importsOf(dep)...)
	}
	for _, sub := range c.Dependencies() {
		h.subs = append(h.subs, newChartValues(r, sub, h, all))
	}
	return h
}

// importsOf returns a dependency's import-values, after Helm has processed
// them.
func importsOf(dep *chart.Dependency) (all []imported) {
	if dep == nil {
		return nil
	}
	for _, entry := range dep.ImportValues {
		if m, ok := entry.(map[string]string); ok {
			i := imported{from: dep.Name, child: strings.Split(m["child"], ".")}
			if m["parent"] != "." {
				i.parent = strings.Split(m["parent"], ".")
			}
			all = append(all, i)
		}
	}
	return all
}

// given returns the sources that the release sets over the chart's own values, in order of
// precedence.
func given(src render.Source, layers []layer) (all []*valuesSource) {
	h := params(src)
	flags := map[string]any{}
	for i, set := range h.Set {
		if i < len(h.SetAt) && h.SetAt[i].Line > 0 {
			one := map[string]any{}
			_ = strvals.ParseInto(set, one)
			all = append([]*valuesSource{{values: one, span: h.SetAt[i]}}, all...)
			continue
		}
		_ = strvals.ParseInto(set, flags) // userValues reports errors in it
	}
	for _, set := range h.SetString {
		_ = strvals.ParseIntoString(set, flags)
	}
	for _, set := range h.SetFile {
		_ = strvals.ParseIntoFile(set, flags, func(name []rune) (any, error) { return fileContent(name), nil })
	}
	all = append(all, &valuesSource{values: flags, flags: true}, &valuesSource{values: h.Values, owner: src.Owner})
	for _, l := range slices.Backward(layers) {
		all = append(all, &valuesSource{at: l.at, data: l.data, all: isHelm4(src)})
	}
	return all
}

// fileContent is the content of the file that --set-file names.
type fileContent string

// A setting is a source that may set a value, and the path of the value there.
type setting struct {
	*valuesSource
	path []string
}

// settings returns the sources that may set the value at a path of the
// release's values, in order of precedence.
func (h *chartValues) settings(path []string) []setting {
	for len(path) > 1 {
		i := slices.IndexFunc(h.subs, func(sub *chartValues) bool { return sub.name == path[0] })
		if i < 0 {
			break
		}
		h, path = h.subs[i], path[1:]
	}
	return h.all(path)
}

// all returns the settings of a path in the values of the chart itself. Globals
// of the chart above take precedence.
func (h *chartValues) all(path []string) (found []setting) {
	if h.above != nil && path[0] == "global" {
		found = h.above.all(path)
	}
	return append(found, h.over(path)...)
}

// over returns the settings of the chart and of those above it, which take
// precedence.
func (h *chartValues) over(path []string) (found []setting) {
	if h.above != nil {
		found = h.above.over(append([]string{h.name}, path...))
	}
	for _, s := range h.given {
		found = append(found, setting{s, path})
	}
	return append(found, h.chart(path)...)
}

// chart returns the settings of the chart's own file, and of values that it
// imports.
func (h *chartValues) chart(path []string) (found []setting) {
	if h.own != nil {
		found = append(found, setting{h.own, path})
	}
	for _, i := range h.imports {
		sub := slices.IndexFunc(h.subs, func(sub *chartValues) bool { return sub.name == i.from })
		if sub < 0 || len(path) <= len(i.parent) || !slices.Equal(path[:len(i.parent)], i.parent) {
			continue
		}
		child := append(slices.Clone(i.child), path[len(i.parent):]...)
		if h.own != nil {
			found = append(found, setting{h.own, append([]string{i.from}, child...)})
		}
		found = append(found, h.subs[sub].chart(child)...)
	}
	return found
}

// find returns the place of the value at a path in the source, if the source is
// a file in the tree and has the wanted value there.
func (h *chartValues) find(path []string, want any, at wanted) (render.Origin, bool) {
	for _, s := range h.settings(path) {
		v, ok := s.lookup(s.path)
		_, isMap := v.(map[string]any)
		switch {
		case !ok, isMap && s.values != nil, v == nil && want != nil:
			continue // flags may set only a part of a map, and Helm 4 ignores nulls of charts
		case s.flags:
			name, ok := v.(fileContent)
			return render.Origin{Span: render.Span{File: string(name)}, Role: render.Value}, ok
		}
		if !within(v, want) {
			return render.Origin{}, false
		}
		return s.origin(s.path, at)
	}
	return render.Origin{}, false
}

// lookup returns the value that the source sets at a path.
func (v *valuesSource) lookup(path []string) (any, bool) {
	if v.at.file == "" {
		return render.Lookup(v.values, render.PathPointer(path))
	}
	if !v.read {
		v.read = true
		v.docs, _ = render.Documents(v.at.file, bytes.Clone(v.data), render.YAML11)
		if !v.all {
			v.docs = v.docs[:min(len(v.docs), 1)]
		}
	}
	for i := range v.docs {
		v.doc = &v.docs[len(v.docs)-1-i]
		if value, ok := render.Lookup(v.doc.Value, render.PathPointer(path)); ok {
			return value, true
		}
	}
	return nil, false
}

// A wanted selects a part of a value: its key, or its text from an offset on.
type wanted struct {
	key bool
	off int
	val any
}

// ownerValues is the field in which the object that names a release has its
// values.
var ownerValues = []string{"spec", "values"}

// origin returns the place of the value at a path of the source.
func (v *valuesSource) origin(path []string, at wanted) (render.Origin, bool) {
	if v.span.Line > 0 {
		return render.Origin{Span: v.span, Role: render.Value}, true
	}
	if v.at.file == "" {
		return v.ownerOrigin(path)
	}
	if v.at.entry != "" {
		return render.Origin{}, false // an archive has no lines to edit
	}
	key, value, ok := v.doc.Positions.Field(render.PathPointer(path))
	if !ok {
		return render.Origin{}, false
	}
	o := render.Origin{Span: key, Role: render.Value}
	if text, isString := at.val.(string); isString && !at.key {
		o.Span = v.line(value, text, at.off)
	} else if !at.key {
		places := v.doc.Positions.At(render.PathPointer(path))
		o.Span = places[len(places)-1].Span
	}
	return o, o.Span.Line > 0
}

func (v *valuesSource) ownerOrigin(path []string) (render.Origin, bool) {
	if v.owner == nil {
		return render.Origin{}, false
	}
	p := render.PathPointer(append(slices.Clone(ownerValues), path...))
	if _, ok := render.Lookup(v.owner.Object, p); ok {
		for _, at := range v.owner.At(p) {
			return render.Origin{Span: at.Span, Role: render.Value}, true
		}
	}
	return render.Origin{}, false
}

// line returns the place of an offset of a string: the beginning of the string,
// or in a literal block scalar the line. Other block scalars don't have the
// lines of the string.
func (v *valuesSource) line(span render.Span, text string, off int) render.Span {
	lines := strings.Split(string(v.data), "\n")
	if span.Line < 1 || span.Line > len(lines) {
		return span
	}
	if span.EndLine > span.Line {
		span.EndLine, span.EndColumn = span.Line, utf8.RuneCountInString(lines[span.Line-1])+1
	}
	head := []rune(lines[span.Line-1])
	if span.Column < 1 || span.Column > len(head) || head[span.Column-1] != '|' {
		return span
	}
	n := span.Line + strings.Count(text[:min(off, len(text))], "\n") // from 0
	from := strings.LastIndexByte(text[:min(off, len(text))], '\n') + 1
	want, _, _ := strings.Cut(text[from:], "\n")
	if n >= len(lines) || strings.TrimSpace(lines[n]) != strings.TrimSpace(want) || strings.TrimSpace(want) == "" {
		return span
	}
	trimmed := strings.TrimRight(lines[n], " \t\r")
	return render.Span{
		File: span.File, Line: n + 1, Column: 1 + indentation(trimmed),
		EndLine: n + 1, EndColumn: 1 + utf8.RuneCountInString(trimmed),
	}
}

// within reports whether a value may be part of another one: maps may have more
// fields there, and numbers another type. A text with template actions can be
// anything.
func within(part, whole any) bool {
	switch part := part.(type) {
	case map[string]any:
		m, ok := fieldsOf(whole)
		for key, v := range part {
			if v != nil && ok {
				ok = within(v, m[key])
			}
		}
		return ok
	case []any:
		list, ok := whole.([]any)
		if !ok || len(list) != len(part) {
			return false
		}
		for i := range part {
			if !within(part[i], list[i]) {
				return false
			}
		}
		return true
	case string:
		return part == whole || strings.Contains(part, "{{") || sameScalar(part, whole)
	}
	return sameScalar(part, whole)
}

func fieldsOf(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return v, true
	case table:
		return v, true
	}
	return nil, false
}

// sameScalar compares scalars as text, and numbers by value.
func sameScalar(a, b any) bool {
	switch b.(type) {
	case map[string]any, []any, nil:
		return a == nil && b == nil
	}
	x, y := fmt.Sprint(a), fmt.Sprint(b)
	if x == y {
		return true
	}
	i, err1 := strconv.ParseFloat(x, 64)
	j, err2 := strconv.ParseFloat(y, 64)
	return err1 == nil && err2 == nil && i == j
}
