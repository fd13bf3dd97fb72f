package kustomize

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"

	"github.com/preadmit/preadmit/render"
)

// A generator is an entry of configMapGenerator or secretGenerator, or a plugin that does the same.
type generator struct {
	kind string
	name string
	args *types.GeneratorArgs
	at   func(field ...any) render.Span
}

// generated lists the generators of a kustomization.
func (n *node) generated() []*generator {
	var all []*generator
	for i := range n.spec.ConfigMapGenerator {
		args := &n.spec.ConfigMapGenerator[i].GeneratorArgs
		all = append(all, &generator{"ConfigMap", args.Name, args, n.places("configMapGenerator", i)})
	}
	for i := range n.spec.SecretGenerator {
		args := &n.spec.SecretGenerator[i].GeneratorArgs
		all = append(all, &generator{"Secret", args.Name, args, n.places("secretGenerator", i)})
	}
	for _, p := range n.plugins {
		kind, ok := strings.CutSuffix(kindOf(p.doc), "Generator")
		if ok && (kind == "ConfigMap" || kind == "Secret") {
			all = append(all, p.generator(kind))
		}
	}
	return all
}

// places returns where the fields of an entry are written.
func (n *node) places(entry ...any) func(...any) render.Span {
	return func(field ...any) render.Span { return n.at(append(slices.Clip(entry), field...)...) }
}

// A plugin is the configuration of a generator or transformer.
type plugin struct {
	doc render.Document
	at  func(field ...any) render.Span
}

func (p *plugin) generator(kind string) *generator {
	args := &types.GeneratorArgs{}
	if data, err := json.Marshal(p.doc.Value); err == nil {
		_ = json.Unmarshal(data, args) // kustomize already refused values that do not fit
	}
	return &generator{kind, text(p.doc.Value, "metadata", "name"), args, p.at}
}

// generator returns the generator that made an object: the one with its name
// apart from the hash, or if names are changed the one with the longest name
// that is part of the object's name.
func (n *node) generator(value map[string]any) *generator {
	var found *generator
	name := text(value, "metadata", "name")
	for _, g := range n.generated() {
		switch {
		case g.kind != text(value, "kind") || text(value, "apiVersion") != "v1":
		case name == g.name || nameHash.ReplaceAllString(name, "") == g.name:
			return g
		case n.renamed && strings.Contains(name, g.name) && (found == nil || len(g.name) > len(found.name)):
			found = g
		}
	}
	return found
}

// nameHash matches the hash that kustomize appends to names of generated
// objects.
var nameHash = regexp.MustCompile(`-[a-z0-9]{10}$`)

// affixes reports whether a kustomization, itself or by a plugin or patch, changes
// the names of objects.
func (n *node) affixes() bool {
	return n.spec.NamePrefix+n.spec.NameSuffix != "" || len(n.plugins) > 0 || n.renames()
}

func (g *generator) candidate(n *node) candidate {
	c := candidate{
		gvk: resid.Gvk{Version: "v1", Kind: g.kind}, names: []string{g.name}, namespaces: []string{g.args.Namespace},
		labels: []map[string]string{{}}, notes: []map[string]string{{}},
	}
	for _, o := range []*types.GeneratorOptions{n.spec.GeneratorOptions, g.args.Options} {
		if o != nil {
			maps.Copy(c.labels[0], o.Labels)
			maps.Copy(c.notes[0], o.Annotations)
		}
	}
	return c
}

// field returns where a field of a generated object is written.
func (g *generator) field(w *walk, n *node, f *field) []render.Origin {
	switch {
	case len(f.path) == 2 && (f.path[0] == "data" || f.path[0] == "binaryData"):
		value, _ := f.value.(string)
		return g.data(w, n, f.path[1], decoded(f, value))
	case f.pointer == "/metadata/name":
		return append([]render.Origin{g.origin("name")}, f.affixes(text(f.p.value, "metadata", "name"), g.name)...)
	case f.pointer == "/type" && g.kind == "Secret" && g.at("type") != g.at():
		return []render.Origin{g.origin("type")}
	case len(f.path) == 3 && (f.above() == "labels" || f.above() == "annotations"):
		return n.optionAt(g, f)
	}
	return nil
}

// decoded returns the value as it was given to the generator.
func decoded(f *field, value string) string {
	if text(f.p.value, "kind") != "Secret" && f.path[0] != "binaryData" {
		return value
	}
	data, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(value, "\n", ""))
	if err != nil {
		return value
	}
	return string(data)
}

func (g *generator) origin(field ...any) render.Origin {
	return render.Origin{Span: g.at(field...), Role: render.Generated}
}

// optionAt finds a label or annotation in the options of a generator.
func (n *node) optionAt(g *generator, f *field) []render.Origin {
	if options := g.args.Options; options != nil && f.value == pairs(options, f.above())[f.last()] {
		return []render.Origin{g.origin("options", f.above(), f.last())}
	}
	if options := n.spec.GeneratorOptions; options != nil && f.value == pairs(options, f.above())[f.last()] {
		return []render.Origin{{Span: n.at("generatorOptions", f.above(), f.last()), Role: render.Generated}}
	}
	return nil
}

func pairs(o *types.GeneratorOptions, field string) map[string]string {
	if field == "labels" {
		return o.Labels
	}
	return o.Annotations
}

// data returns the place of a key's value: the literal, the file, or the line
// of an env file. For a file it is the file itself, which a person would edit,
// rather than the entry that names it.
func (g *generator) data(w *walk, n *node, key, value string) []render.Origin {
	for i, literal := range g.args.LiteralSources {
		if k, v, ok := strings.Cut(literal, "="); ok && k == key && unquoted(v) == value {
			return []render.Origin{g.origin("literals", i)}
		}
	}
	for i, source := range g.args.FileSources {
		k, file, ok := strings.Cut(source, "=")
		if !ok {
			k, file = path.Base(source), source
		}
		name, content, ok := w.content(n, file)
		if ok && k == key && content == value {
			entry := g.origin("files", i)
			return []render.Origin{{Span: firstLine(name, content), Role: render.Generated}, {Span: entry.Span, Role: render.Reference}}
		}
	}
	for i, source := range g.args.EnvSources {
		if found := w.envLine(n, source, key, value); found.Line > 0 {
			entry := g.origin("envs", i)
			return []render.Origin{{Span: found, Role: render.Generated}, {Span: entry.Span, Role: render.Reference}}
		}
	}
	if found := w.envLine(n, g.args.EnvSource, key, value); found.Line > 0 {
		entry := g.origin("env")
		return []render.Origin{{Span: found, Role: render.Generated}, {Span: entry.Span, Role: render.Reference}}
	}
	return nil
}

// unquoted takes one pair of quotes off a literal, as kustomize does.
func unquoted(v string) string {
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		return v[1 : len(v)-1]
	}
	return v
}

// content returns a file that a kustomization reads.
func (w *walk) content(n *node, file string) (name, content string, ok bool) {
	name, ok = inside(n.dir, file)
	if !ok {
		return "", "", false
	}
	p, ok := w.snap.places[name]
	if !ok {
		return "", "", false
	}
	data, ok := w.snap.files[p.real]
	return p.real, string(data), ok
}

func firstLine(name, content string) render.Span {
	line, _, _ := strings.Cut(content, "\n")
	return render.Span{File: name, Line: 1, Column: 1, EndLine: 1, EndColumn: 1 + utf8.RuneCountInString(strings.TrimSuffix(line, "\r"))}
}

// envLine finds the line of a file of KEY=value lines that sets a key.
func (w *walk) envLine(n *node, file, key, value string) render.Span {
	name, content, ok := w.content(n, file)
	if file == "" || !ok {
		return render.Span{}
	}
	var found render.Span
	line := 0
	for text := range strings.Lines(content) {
		line++
		text = strings.TrimRight(text, "\r\n")
		trimmed := strings.TrimLeft(text, " \t")
		if k, v, _ := strings.Cut(trimmed, "="); k == key && v == value {
			from := 1 + utf8.RuneCountInString(text) - utf8.RuneCountInString(trimmed)
			found = render.Span{File: name, Line: line, Column: from, EndLine: line, EndColumn: 1 + utf8.RuneCountInString(text)}
		}
	}
	return found
}
