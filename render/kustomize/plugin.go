package kustomize

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// pathFields lists the fields of builtin plugins' configurations that name
// files to load. Keys are lower case, because kustomize accepts any case.
var pathFields = map[string]refKind{
	"path": refPatch, "paths": refMerge, "files": refData, "envs": refData, "env": refData,
}

// functionAnnotations make a KRM function of a plugin's configuration.
var functionAnnotations = []string{"config.kubernetes.io/function", "config.k8s.io/function"}

// inline handles an entry that is YAML rather than a path. It is strict about
// what is YAML: kustomize treats any text that it does not read as an object as
// a path and then as a URL.
func (w *walk) inline(n *node, r ref) bool {
	if fetches(r.text) || !strings.ContainsAny(r.text, "\n{") {
		return false
	}
	docs, err := render.Documents(n.name, []byte(r.text), render.YAML12)
	if len(docs) == 0 || !isObjects(docs) {
		return false
	}
	if err != nil {
		w.fail(relocate(err, n.place(r)))
		return true
	}
	if r.kind == refMerge {
		field, _ := r.at[0].(string)
		p := &patch{at: r.at, span: n.place(r), text: r.text, docs: docs}
		if r.span == (render.Span{}) {
			p.field, p.entry = field, r.at[1].(int)
		}
		w.patch(n, p)
		return true
	}
	w.pluginDocs(n, r, docs)
	return true
}

func isObjects(docs []render.Document) bool {
	for _, doc := range docs {
		m, _ := doc.Value.(map[string]any)
		if kind, _ := m["kind"].(string); kind == "" {
			return false
		}
	}
	return true
}

// relocate moves the errors of an inline text to the place of the text.
func relocate(err error, at render.Span) error {
	var errs []error
	for _, e := range render.Errors(err) {
		moved := *e
		moved.Span = at
		errs = append(errs, &moved)
	}
	return errors.Join(errs...)
}

// pluginDir handles plugin configurations that another kustomization makes. They can be checked
// here only if it passes them on unchanged.
func (w *walk) pluginDir(n *node, r ref, child *node) {
	docs, ok := child.plain()
	if !ok {
		w.fail(&render.Error{
			Span: n.place(r), Rule: "plugin", Missing: true,
			Err: fmt.Errorf("%s %s is a kustomization that changes its resources: not evaluated", nouns[r.kind], show(r.text)),
		})
		return
	}
	for _, doc := range docs {
		if kindOf(doc) == helmKind {
			w.unsupported(n, r, "charts are not rendered from a generator that is a directory")
			return
		}
		w.plugin(n, r, doc)
	}
	n.keepGenerator(r)
}

// plain returns the documents of a kustomization and its bases; ok is false
// when it does anything but list them.
func (n *node) plain() (docs []render.Document, ok bool) {
	only := types.Kustomization{
		TypeMeta: n.build.TypeMeta, MetaData: n.build.MetaData, Resources: n.build.Resources,
		Namespace: n.build.Namespace, BuildMetadata: n.build.BuildMetadata,
	}
	rest := n.build
	rest.Generators = n.spec.Generators
	if !reflect.DeepEqual(only, rest) {
		return nil, false
	}
	for _, it := range n.items {
		docs = append(docs, it.docs...)
		if it.node == nil {
			continue
		}
		more, ok := it.node.plain()
		if !ok {
			return nil, false
		}
		docs = append(docs, more...)
	}
	return docs, true
}

// pluginDocs handles the configurations of one entry. Those of charts are
// removed from the files for the build.
func (w *walk) pluginDocs(n *node, r ref, docs []render.Document) {
	var rest []string
	for _, doc := range docs {
		if kindOf(doc) == helmKind && apiVersionOf(doc) == builtinVersion && r.at[0] == "generators" {
			w.generatorChart(n, r, doc)
			continue
		}
		w.plugin(n, r, doc)
		text, err := json.Marshal(doc.Value)
		if err != nil {
			w.unsupported(n, r, "a plugin's configuration is not representable in JSON")
		}
		rest = append(rest, string(text))
	}
	if len(rest) == len(docs) {
		n.keepGenerator(r)
		return
	}
	n.rewritten = true
	n.build.Generators = append(n.build.Generators, rest...)
}

// keepGenerator leaves an entry of generators as it is.
func (n *node) keepGenerator(r ref) {
	if r.at[0] == "generators" {
		n.build.Generators = append(n.build.Generators, r.text)
	}
}

const builtinVersion = "builtin"

// plugin checks one configuration. Only plugins that are built into kustomize
// are allowed, and no path that they load may lead out of the tree.
func (w *walk) plugin(n *node, r ref, doc render.Document) {
	m, ok := doc.Value.(map[string]any)
	if !ok {
		w.reject(n, r, "not-an-object", "plugin %s is not an object", show(r.text))
		return
	}
	if apiVersionOf(doc) != builtinVersion || isFunction(m) {
		e := &render.Error{
			Span: n.place(r), Rule: "plugin", Missing: true,
			Err: fmt.Errorf("plugin %s is not built into kustomize: not evaluated", kindOf(doc)),
		}
		w.fail(e)
		if r.at[0] == "generators" {
			w.absent = append(w.absent, e)
		}
		return
	}
	p := &plugin{doc: doc, field: fmt.Sprint(r.at[0]), inline: doc.Span.File == n.name, at: func(at ...any) render.Span { return placed(r, doc, n, at...) }}
	n.plugins = append(n.plugins, p)
	before := len(n.patches)
	defer func() { p.patches = n.patches[before:len(n.patches):len(n.patches)] }()
	for _, key := range sorted(m) {
		if kind, ok := pathFields[strings.ToLower(key)]; ok {
			w.pluginPaths(n, r, doc, kind, key, m[key])
		}
		if list, ok := m[key].([]any); ok && strings.EqualFold(key, "replacements") {
			w.pluginReplacements(n, r, doc, key, list)
		}
		if text, ok := m[key].(string); ok && (strings.EqualFold(key, "patch") || strings.EqualFold(key, "patches") || strings.EqualFold(key, "jsonOp")) {
			w.patchText(n, &patch{at: r.at, span: placed(r, doc, n, key), text: text})
		}
	}
}

// placed returns the span of a field of a plugin's configuration.
func placed(r ref, doc render.Document, n *node, key ...any) render.Span {
	for i := len(key); i >= 0 && doc.Positions != nil; i-- {
		if _, value, ok := doc.Positions.Field(render.Pointer(key[:i]...)); ok {
			if doc.Span.File == n.name {
				return embedded(n.data, n.place(r), r.text, value)
			}
			return value
		}
	}
	return n.place(r)
}

func (w *walk) pluginPaths(n *node, r ref, doc render.Document, kind refKind, key string, value any) {
	if text, ok := value.(string); ok {
		w.follow(n, ref{at: r.at, text: afterKey(kind, text), kind: kind, span: placed(r, doc, n, key)})
	}
	list, _ := value.([]any)
	for i, e := range list {
		if text, ok := e.(string); ok {
			w.follow(n, ref{at: r.at, text: afterKey(kind, text), kind: kind, span: placed(r, doc, n, key, i)})
		}
	}
}

// afterKey takes the path out of "key=path".
func afterKey(kind refKind, text string) string {
	if _, file, ok := strings.Cut(text, "="); ok && kind == refData {
		return file
	}
	return text
}

// pluginReplacements follows the files of replacements.
func (w *walk) pluginReplacements(n *node, r ref, doc render.Document, key string, list []any) {
	for i, e := range list {
		m, _ := e.(map[string]any)
		for _, k := range sorted(m) {
			if text, ok := m[k].(string); ok && strings.EqualFold(k, "path") {
				w.follow(n, ref{at: r.at, text: text, kind: refReplacement, span: placed(r, doc, n, key, i, k)})
			}
		}
	}
}

func isFunction(m map[string]any) bool {
	meta, _ := m["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	for _, name := range functionAnnotations {
		if _, ok := annotations[name]; ok {
			return true
		}
	}
	return false
}

func kindOf(doc render.Document) string       { return text(doc.Value, "kind") }
func apiVersionOf(doc render.Document) string { return text(doc.Value, "apiVersion") }

// text returns a string at a path of keys, "" when there is none.
func text(value any, keys ...string) string {
	for _, key := range keys {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	s, _ := value.(string)
	return s
}

func (w *walk) unsupported(n *node, r ref, sentence string) {
	w.reject(n, r, "unsupported", "%s", sentence)
}

// show shortens a reference for a message. A reference may be a whole document.
func show(s string) string {
	switch {
	case strings.Contains(s, "\n") || len(s) > 300:
		return "given inline"
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return strconv.Quote(s)
	}
	return s
}
