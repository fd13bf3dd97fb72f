package helm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"helm.sh/helm/v3/pkg/strvals"

	"github.com/preadmit/preadmit/render"
	mergevalues "github.com/preadmit/preadmit/render/internal/values"
)

// A layer is a values file. It keeps the text to find lines in it.
type layer struct {
	at   place
	data []byte

	// For finding a line:
	docs []render.Document
	path []string
	skip int
}

// userValues merges the values that the release sets over the chart's own: files, then the map of
// values, then the --set flags. Later ones take precedence.
func userValues(src render.Source) (values map[string]any, layers []layer, err error) {
	values = map[string]any{}
	h := params(src)
	var errs []error
	for _, name := range h.ValueFiles {
		m, data, err := valuesFile(src, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		layers = append(layers, layer{at: place{file: path.Clean(name)}, data: data})
		values = mergevalues.Merge(values, m)
	}
	values = mergevalues.Merge(values, render.Copy(h.Values).(map[string]any))
	for _, set := range h.Set {
		errs = append(errs, flagError(src, "--set", strvals.ParseInto(set, values)))
	}
	for _, set := range h.SetString {
		errs = append(errs, flagError(src, "--set-string", strvals.ParseIntoString(set, values)))
	}
	for _, set := range h.SetFile {
		errs = append(errs, setFile(src, set, values))
	}
	return values, layers, errors.Join(errs...)
}

func params(src render.Source) render.Helm {
	if src.Helm == nil {
		return render.Helm{}
	}
	return *src.Helm
}

var remote = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*::?(//|$|[^/])`)

// treeFile reads a file that a parameter names.
func treeFile(src render.Source, name string) ([]byte, error) {
	if remote.MatchString(name) {
		e := sourceError(src, "missing-values", fmt.Errorf("values file %s is not in the tree", sentence(name)))
		e.Missing = true
		return nil, e
	}
	clean := path.Clean(name)
	if path.IsAbs(name) || !fs.ValidPath(clean) || strings.Contains(name, `\`) {
		return nil, sourceError(src, "missing-values", fmt.Errorf("values file %s is outside of the tree", sentence(name)))
	}
	data, err := render.ReadFile(src.FS, clean)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sourceError(src, "missing-values", fmt.Errorf("there is no values file %s", sentence(name)))
	}
	return data, err
}

func valuesFile(src render.Source, name string) (map[string]any, []byte, error) {
	data, err := treeFile(src, name)
	if err != nil {
		return nil, nil, err
	}
	m := map[string]any{}
	var line int
	if isHelm4(src) && bytes.Contains(data, separator) {
		m, line, err = decodeDocuments(data)
	} else {
		line, err = decodeYAML(data, &m)
	}
	if err != nil {
		return nil, nil, place{file: path.Clean(name)}.errorAt("helm-values", line, 0, err)
	}
	return m, data, nil
}

func setFile(src render.Source, set string, values map[string]any) error {
	var read error
	err := strvals.ParseIntoFile(set, values, func(name []rune) (any, error) {
		data, err := treeFile(src, string(name))
		read = err
		return string(data), err
	})
	if read != nil {
		return read
	}
	return flagError(src, "--set-file", err)
}

// CheckSet returns an error for the first value of --set or --set-string that Helm can't parse.
func CheckSet(set, setString []string) error {
	for _, s := range set {
		if err := strvals.ParseInto(s, map[string]any{}); err != nil {
			return fmt.Errorf("--set %s: %w; want KEY=VALUE", s, err)
		}
	}
	for _, s := range setString {
		if err := strvals.ParseIntoString(s, map[string]any{}); err != nil {
			return fmt.Errorf("--set-string %s: %w; want KEY=VALUE", s, err)
		}
	}
	return nil
}

// flagError returns an error about a flag. It does not quote the flag's value, which may be secret.
func flagError(src render.Source, flag string, err error) error {
	if err == nil {
		return nil
	}
	return sourceError(src, "helm-values", fmt.Errorf("%s has a value that Helm can't parse", flag))
}

// sourceError returns an error at the object that deploys the source, or else at the chart.
func sourceError(src render.Source, rule string, err error) *render.Error {
	if origins := src.Owner.At("/spec"); len(origins) > 0 {
		return &render.Error{Span: origins[0].Span, Rule: rule, Err: err}
	}
	return &render.Error{Span: render.Span{File: chartFile(src)}, Rule: rule, Err: err}
}

// chartFile is the file that represents a source's chart.
func chartFile(src render.Source) string {
	if info, err := fs.Stat(src.FS, src.Path); err == nil && info.IsDir() {
		return path.Join(src.Path, "Chart.yaml")
	}
	return src.Path
}
