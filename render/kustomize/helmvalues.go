package kustomize

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/preadmit/preadmit/render"
	mergevalues "github.com/preadmit/preadmit/render/internal/values"
)

// chartValues returns the values that a chart is rendered with. Kustomize
// merges valuesInline with one file into a new file and passes it to Helm
// before additionalValuesFiles. Files without merged values are passed as
// files, so that fields can be traced to their lines.
func (w *walk) chartValues(n *node, c *chart, dir string) (*render.Helm, error) {
	own := c.ValuesFile == ""
	file := path.Join(dir, "values.yaml")
	if !own {
		var err error
		if file, err = w.valuesFile(n, c, c.ValuesFile, "valuesFile"); err != nil {
			return nil, err
		}
	} else if _, ok := render.FetchedDir(dir); !ok && !below(dir, n.dir) && !w.options.AnyFile && c.ValuesMerge != "replace" {
		return nil, c.error("outside-root", "chart "+show(c.Name)+" is not below the directory of its kustomization", "name")
	}
	var additional []string
	for i, name := range c.AdditionalValuesFiles {
		extra, err := w.valuesFile(n, c, name, "additionalValuesFiles", i)
		if err != nil {
			return nil, err
		}
		additional = append(additional, extra)
	}
	if len(c.ValuesInline) == 0 {
		return plainValues(w.src.FS, c, own, file, additional)
	}
	return w.mergedValues(c, file, additional)
}

// plainValues passes values files on unchanged. The chart's own values.yaml is
// left out, since Helm reads it anyway, but like kustomize it must exist.
func plainValues(fsys fs.FS, c *chart, own bool, file string, additional []string) (*render.Helm, error) {
	if !own {
		return &render.Helm{ValueFiles: append([]string{file}, additional...)}, nil
	}
	if _, err := fs.Stat(fsys, file); errors.Is(err, fs.ErrNotExist) {
		return nil, c.error("missing-values-file", "chart "+show(c.Name)+" has no values.yaml, which kustomize requires", "name")
	}
	return &render.Helm{ValueFiles: additional}, nil
}

// mergedValues merges values as kustomize and then Helm do. The chart's owner
// records where each value is written, so that fields can be traced to their
// lines.
func (w *walk) mergedValues(c *chart, file string, additional []string) (*render.Helm, error) {
	inline, err := exact(c.ValuesInline)
	if err != nil {
		return nil, c.error("wrong-value", "valuesInline is not representable in JSON", "valuesInline")
	}
	given := []givenValues{{inline, func(path string) render.Span { return c.at(append([]any{"valuesInline"}, elements(path)...)...) }}}
	if c.ValuesMerge != "replace" {
		base, err := w.valuesOf(file, render.YAML12)
		if err != nil {
			return nil, err
		}
		if c.ValuesMerge == "merge" {
			inline = merge(inline, base.values)
			given = append([]givenValues{base}, given...)
		} else {
			inline = merge(base.values, inline)
			given = append(given, base)
		}
	}
	for _, name := range additional {
		more, err := w.valuesOf(name, render.YAML11)
		if err != nil {
			return nil, err
		}
		inline = mergevalues.Merge(inline, more.values) // null stays, because it deletes a default of the chart later
		given = append([]givenValues{more}, given...)
	}
	c.owner = &render.Object{
		Unstructured: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"values": inline}}},
		Provenance:   ownerOf{c, given},
	}
	return &render.Helm{Values: inline}, nil
}

// givenValues holds values and a function that returns where the value at a
// JSON pointer is written.
type givenValues struct {
	values map[string]any
	at     func(pointer string) render.Span
}

// An ownerOf is the Provenance of a chart's merged values. Values that win come
// first.
type ownerOf struct {
	chart *chart
	given []givenValues
}

// At implements [render.Provenance].
func (o ownerOf) At(pointer string) []render.Origin {
	at, ok := strings.CutPrefix(pointer, "/spec/values/")
	for _, g := range o.given {
		if _, found := render.Lookup(g.values, "/"+at); ok && found {
			return []render.Origin{{Span: g.at("/" + at), Role: render.Value}}
		}
	}
	return []render.Origin{{Span: o.chart.at(), Role: render.Reference}}
}

func elements(pointer string) []any {
	var all []any
	for _, key := range render.Path(pointer) {
		all = append(all, key)
	}
	return all
}

// valuesFile resolves the path of a values file, which kustomize loads under
// the same restriction as any other file.
func (w *walk) valuesFile(n *node, c *chart, text string, field ...any) (string, error) {
	name, ok := inside(n.dir, text)
	if remote(text) {
		e := c.error("remote-base", "values file "+show(withoutSecrets(text))+" is not in the tree, and nothing is fetched", field...)
		e.Missing, e.Source = true, withoutSecrets(text)
		return "", e
	}
	if !ok {
		return "", c.error("outside-tree", "values file "+show(text)+" leads out of the tree", field...)
	}
	p := w.tree.resolve(name)
	switch {
	case p.err != nil || p.dir:
		return "", c.error("missing-values-file", "values file "+show(text)+" not found", field...)
	case !below(p.real, n.dir) && !w.options.AnyFile:
		return "", c.error("outside-root", "values file "+show(text)+" is not in or below the directory of its kustomization", field...)
	}
	return p.real, nil
}

func (w *walk) valuesOf(name string, dialect render.Dialect) (givenValues, error) {
	data, err := render.ReadFile(w.src.FS, name)
	if err != nil {
		return givenValues{}, err
	}
	docs, err := render.Documents(name, data, dialect)
	if err != nil && !warnings(err) {
		return givenValues{}, err
	}
	w.fail(err)
	if len(docs) == 0 {
		return givenValues{values: map[string]any{}}, nil
	}
	values, ok := docs[0].Value.(map[string]any)
	if !ok {
		return givenValues{}, &render.Error{Span: docs[0].Span, Rule: "wrong-type", Err: errors.New("values are not an object")}
	}
	return givenValues{values, func(pointer string) render.Span {
		found := docs[0].Positions.At(pointer)
		return found[len(found)-1].Span
	}}, nil
}

// exact turns the float64 that encoding/json makes of integers into int64.
func exact(values map[string]any) (map[string]any, error) {
	data, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	var result map[string]any
	return result, utiljson.Unmarshal(bytes.TrimSpace(data), &result)
}

// merge merges src into dest as kyaml's merge2 does without a schema: maps are
// merged, null deletes, anything else replaces. It changes neither argument.
func merge(dest, src map[string]any) map[string]any {
	result := make(map[string]any, len(dest)+len(src))
	for key, v := range dest {
		result[key] = v
	}
	for key, v := range src {
		sub, isMap := v.(map[string]any)
		under, wasMap := result[key].(map[string]any)
		switch {
		case v == nil:
			delete(result, key)
		case isMap && wasMap:
			result[key] = merge(under, sub)
		default:
			result[key] = v
		}
	}
	return result
}
