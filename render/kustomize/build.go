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

// schema guards kyaml's OpenAPI schema, which is global to the process. A build
// with a schema of its own takes the write lock and resets the schema
// afterwards. SetSchema alone does not reset it, and other builds would then
// merge lists by the wrong keys or replace them.
var schema sync.RWMutex

// schemaParsed means that kyaml's schema is parsed. It is guarded by schema.
var schemaParsed bool

// shareSchema locks the schema for a build that does not change it. kyaml parses the
// schema when a build first needs it, while builds beside that one read it without a
// lock. So builds take turns until two meet. Then the schema is parsed for all, which
// takes 20 ms that a single build may not need.
func shareSchema() (unlock func()) {
	for {
		schema.RLock()
		if schemaParsed {
			return schema.RUnlock
		}
		schema.RUnlock()
		if schema.TryLock() {
			if !schemaParsed {
				return schema.Unlock
			}
		} else if schema.Lock(); !schemaParsed {
			openapi.SchemaForResourceType(yaml.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"})
			schemaParsed = true
		}
		schema.Unlock()
	}
}

// build runs kustomize on the files that the walk accepted. kustomize's loader
// sees only the snapshot. But kustomize opens connections and runs git for
// references that look remote. Therefore the walk checks every reference first,
// puts only files that it read itself into the snapshot, and allows no plugins.
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
		schemaParsed = false
		defer openapi.ResetOpenAPI()
	} else {
		defer shareSchema()()
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

// slashPaths rewrites the paths in annotations of buildMetadata with slashes,
// so that a build on Windows gives the same objects as one on Linux.
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

// errPanic is the error of a build in which kustomize panicked. kustomize trusts its own
// annotations, which a manifest may contain too.
var errPanic = errors.New("kustomize broke on this input")

// buildOptions returns the options of `kustomize build` with the given order.
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

// object returns the value that printing and parsing a resource gives.
// kustomize does this twice, because the first pass changes folded scalars with
// indented lines.
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
	if !printChanges(node, false) {
		return node.Decode(value)
	}
	text, err := yaml.String(node)
	if err != nil {
		return err
	}
	return yaml.Unmarshal([]byte(text), value)
}

// printChanges reports whether a node may hold another value once it is printed and parsed: if it
// holds folded scalars, literal ones that are not simple, null without a text between braces or
// brackets, which is printed as an empty string, or a number or the like that keeps the quotes of
// the string it replaced, and so is printed as a string.
func printChanges(node *yaml.Node, inFlow bool) bool {
	inFlow = inFlow || node.Style&yaml.FlowStyle != 0
	switch {
	case node.Style&yaml.FoldedStyle != 0, node.Style&yaml.LiteralStyle != 0 && !isSimple(node),
		inFlow && node.Kind == yaml.ScalarNode && node.Style == 0 && node.Value == "",
		node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle) != 0 && node.ShortTag() != yaml.NodeTagString:
		return true
	}
	return slices.ContainsFunc(node.Content, func(n *yaml.Node) bool { return printChanges(n, inFlow) })
}

// isSimple reports whether a literal scalar is of printable ASCII, begins with a
// visible character, ends in at most one line break, and has no comment.
func isSimple(n *yaml.Node) bool {
	if n.Value == "" || n.Value[0] <= ' ' || strings.HasSuffix(n.Value, "\n\n") || n.HeadComment+n.LineComment+n.FootComment != "" {
		return false
	}
	for i := range len(n.Value) {
		if c := n.Value[i]; (c < ' ' || c > '~') && c != '\n' {
			return false
		}
	}
	return true
}
