package kustomize

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render"
)

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
