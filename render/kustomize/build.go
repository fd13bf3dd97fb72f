package kustomize

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// schema guards what kyaml knows of OpenAPI, which is one for the whole
// process: a build that brings its own schema is alone, and leaves none of it
// to the next. SetSchema alone does not take it away again, and then lists of
// other builds are merged by the wrong keys or replaced.
var schema sync.RWMutex

// build runs kustomize on what the walk has approved. Its loader sees the
// snapshot and nothing else. It would still open connections and run git for
// references that look remote, which is why the walk knows all of them, gives
// nothing to the build that it did not read itself, and lets no plugin run.
func (w *walk) build(fsys *snapshot, dir string, order krusty.ReorderOption) (m resmap.ResMap, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errPanic
		}
	}()
	if w.openapi {
		schema.Lock()
		defer schema.Unlock()
		openapi.ResetOpenAPI()
		defer openapi.ResetOpenAPI()
	} else {
		schema.RLock()
		defer schema.RUnlock()
	}
	m, err = krusty.MakeKustomizer(w.buildOptions(order)).Run(fsys, string(confirmed(dir)))
	if err == nil && filepath.Separator != '/' {
		err = slashPaths(m)
	}
	return m, err
}

// The annotations of buildMetadata.
const (
	originAnnotation          = "config.kubernetes.io/origin"
	transformationsAnnotation = "alpha.config.kubernetes.io/transformations"
)

// slashPaths writes the paths in the annotations of buildMetadata with slashes,
// so that a build on Windows gives the objects that one on Linux gives.
func slashPaths(m resmap.ResMap) error {
	for _, r := range m.Resources() {
		all := r.GetAnnotations()
		changed := false
		for _, key := range []string{originAnnotation, transformationsAnnotation} {
			if strings.Contains(all[key], `\`) {
				all[key], changed = strings.ReplaceAll(all[key], `\`, "/"), true
			}
		}
		if changed {
			if err := r.SetAnnotations(all); err != nil {
				return err
			}
		}
	}
	return nil
}

// errPanic is a build that broke kustomize itself: it trusts annotations of
// its own that anybody can write into a manifest.
var errPanic = errors.New("kustomize broke on this input")

// buildOptions are those of `kustomize build`, but for the order. As asked for
// there, by nobody, it is by kind.
func (w *walk) buildOptions(order krusty.ReorderOption) *krusty.Options {
	o := &krusty.Options{
		Reorder:          order,
		LoadRestrictions: types.LoadRestrictionsRootOnly,
		PluginConfig:     types.DisabledPluginConfig(),
	}
	if w.options.AnyFile || w.anyFile {
		o.LoadRestrictions = types.LoadRestrictionsNone
	}
	return o
}

// object turns a resource into the value tree that printing and reading it
// gives. kustomize prints and reads before it prints: the first does not keep
// folded scalars with indented lines as they were.
func object(node *yaml.Node) (*unstructured.Unstructured, error) {
	var value any
	if err := decode(node, &value); err != nil {
		return nil, errors.New("object cannot be read back")
	}
	tree, err := plain(value)
	if err != nil {
		return nil, err
	}
	m, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("is not an object")
	}
	return &unstructured.Unstructured{Object: m}, nil
}

func decode(node *yaml.Node, value *any) error {
	if !hasBlocks(node) {
		return node.Decode(value)
	}
	text, err := yaml.String(node)
	if err != nil {
		return err
	}
	return yaml.Unmarshal([]byte(text), value)
}

// hasBlocks reports whether a node holds literal or folded scalars.
func hasBlocks(node *yaml.Node) bool {
	if node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return true
	}
	return slices.ContainsFunc(node.Content, hasBlocks)
}
