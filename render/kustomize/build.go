package kustomize

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render"
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

// The schemas of CustomResourceDefinitions are a large part of the text that
// units read, and kyaml copies each map of a file once for every map around it.
// kustomize never reads inside a schema. Unless patches or other parts of the
// unit do, the build gets a short text in place of each schema, and the schemas
// are put back into the built objects.

// schemaText replaces a hidden schema in the files that the build reads.
const schemaText = "preadmit-hidden-schema"

// leastHidden is the fewest lines of a schema that is hidden.
const leastHidden = 20

// A hidden is a schema that is left out of the text for the build.
type hidden struct {
	pointer      string
	line, column int    // of schemaText, as if it stood in the document
	to           int    // the first line after the schema
	stub         string // the line that the build reads instead of the schema's lines
}

var definition = resid.Gvk{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// simple reports whether nothing in the unit, apart from patches, reads or writes fields that the
// unit itself names.
func (w *walk) simple() bool {
	for _, n := range w.nodes {
		if n == nil {
			continue
		}
		s := &n.spec
		if len(s.Configurations)+len(s.Crds)+len(s.OpenAPI)+len(s.Vars)+len(s.Transformers)+len(s.Validators)+len(n.plugins)+len(n.replacements()) > 0 ||
			slices.ContainsFunc(s.Labels, func(l types.Label) bool { return len(l.FieldSpecs) > 0 }) {
			return false
		}
	}
	return true
}

// patchesDefinitions reports whether a patch may be for a CustomResourceDefinition.
func (w *walk) patchesDefinitions() bool {
	for _, n := range w.nodes {
		if n != nil && slices.ContainsFunc(n.patches, (*patch).mayDefine) {
			return true
		}
	}
	return false
}

// mayDefine reports whether the patch may be for a CustomResourceDefinition.
func (p *patch) mayDefine() bool {
	if p.target == nil {
		return slices.ContainsFunc(p.docs, func(doc render.Document) bool { return kindOf(doc) == definition.Kind })
	}
	if kind := p.target.Kind; regexp.QuoteMeta(kind) == kind && kind != "" && kind != definition.Kind {
		return false
	}
	return p.selection.SelectorRegex == nil || p.selection.MatchGvk(definition)
}

// versionsOf returns the versions that a CustomResourceDefinition defines.
func versionsOf(value any) []any {
	if text(value, "kind") != definition.Kind || !strings.HasPrefix(text(value, "apiVersion"), definition.Group+"/") {
		return nil
	}
	v, _ := render.Lookup(value, "/spec/versions")
	versions, _ := v.([]any)
	return versions
}

// hide finds the schemas that the build need not read: those in block style on
// lines of their own, without anchors, which may be used elsewhere, and without
// folded scalars, which kustomize changes.
func (s *source) hide(data []byte) {
	for i := range versionsOf(s.doc.Value) {
		pointer := render.Pointer("spec", "versions", i, "schema")
		_, at, ok := s.doc.Positions.Field(pointer)
		if !ok || at.EndLine-at.Line < leastHidden {
			continue
		}
		from := linesOf(data, at.Line-1)
		text := data[from : from+linesOf(data[from:], at.EndLine+1-at.Line)]
		indent := strings.Repeat(" ", at.Column-1)
		if bytes.HasPrefix(text, []byte(indent)) && isLetter(text[len(indent)]) && !anchored(text) && !folded(text) {
			s.hidden = append(s.hidden, hidden{pointer, at.Line, at.Column, at.EndLine + 1, indent + schemaText + "\n"})
		}
	}
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' }

// anchored reports whether there may be an anchor or an alias in a text.
func anchored(text []byte) bool {
	for i, c := range text {
		if (c == '&' || c == '*') && i > 0 && i+1 < len(text) && strings.IndexByte(" \n[{,", text[i-1]) >= 0 && strings.IndexByte(" \n&*", text[i+1]) < 0 {
			return true
		}
	}
	return false
}

// folded reports whether there may be a folded scalar in a text.
func folded(text []byte) bool {
	return bytes.Contains(text, []byte(": >")) || bytes.Contains(text, []byte("- >")) || bytes.Contains(text, []byte(": !"))
}

// withoutSchemas returns the text of the chart's objects, which are on every
// other line, without their schemas.
func (i *inflated) withoutSchemas(data []byte) []byte {
	lines := bytes.Split(data, []byte("\n"))
	for n, o := range i.objects {
		if len(versionsOf(o.Object)) == 0 || 2*n >= len(lines) {
			continue
		}
		value, versions := marked(o), slices.Clone(versionsOf(o.Object))
		for i, v := range versions {
			if version, ok := v.(map[string]any); ok && version["schema"] != nil {
				version = maps.Clone(version)
				version["schema"], versions[i] = schemaText, version
			}
		}
		spec := maps.Clone(value["spec"].(map[string]any))
		spec["versions"], value["spec"] = versions, spec
		if text, err := json.Marshal(value); err == nil {
			lines[2*n] = text
		}
	}
	return bytes.Join(lines, []byte("\n"))
}

// hideChart records the schemas that withoutSchemas removed, and puts them into
// the document's value.
func (s *source) hideChart() {
	real := versionsOf(s.chart.Object)
	for i, v := range versionsOf(s.doc.Value) {
		if version, ok := v.(map[string]any); ok && version["schema"] == schemaText {
			pointer := render.Pointer("spec", "versions", i, "schema")
			_, at, _ := s.doc.Positions.Field(pointer)
			version["schema"] = real[i].(map[string]any)["schema"]
			s.hidden = append(s.hidden, hidden{pointer: pointer, line: at.Line, column: at.Column})
		}
	}
}

// reveal puts the schemas back into a built object. Objects share them, so
// nobody may change them.
func (o *origins) reveal(object map[string]any, node *yaml.Node) error {
	if !o.hides || len(o.tags) == 0 {
		return nil
	}
	for i, v := range versionsOf(object) {
		version, ok := v.(map[string]any)
		if !ok || version["schema"] != schemaText {
			continue
		}
		n := nodeAt(node, []string{"spec", "versions", strconv.Itoa(i), "schema"})
		if n == nil {
			return errors.New("has a schema that was lost")
		}
		t, ok := find(o.tags, n.Line)
		if !ok || t.source == nil {
			return errors.New("has a schema that was lost")
		}
		for _, h := range t.source.hidden {
			if h.line == n.Line+t.shift && h.column == n.Column {
				version["schema"], _ = render.Lookup(t.source.doc.Value, h.pointer)
			}
		}
	}
	return nil
}
