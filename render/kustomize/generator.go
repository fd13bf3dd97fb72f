package kustomize

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"

	"github.com/preadmit/preadmit/render"
)

// A generator is an entry of configMapGenerator or secretGenerator, or a plugin that does the same.
type generator struct {
	kind    string
	name    string
	args    *types.GeneratorArgs
	configs []config // its own, and that of generatorOptions
}

// generated lists the generators of a kustomization.
func (n *node) generated() []*generator {
	var all []*generator
	options := n.config("generatorOptions")
	for i := range n.spec.ConfigMapGenerator {
		args := &n.spec.ConfigMapGenerator[i].GeneratorArgs
		all = append(all, &generator{"ConfigMap", args.Name, args, []config{n.config("configMapGenerator", i), options}})
	}
	for i := range n.spec.SecretGenerator {
		args := &n.spec.SecretGenerator[i].GeneratorArgs
		all = append(all, &generator{"Secret", args.Name, args, []config{n.config("secretGenerator", i), options}})
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

// config returns the part of the kustomization that is written at a path.
func (n *node) config(at ...any) config {
	value := n.doc.Value
	if m, ok := value.(map[string]any); ok && len(at) > 0 {
		value = m[n.keys[strings.ToLower(fmt.Sprint(at[0]))]]
		value, _ = render.Lookup(value, render.Pointer(at[1:]...))
	}
	return config{value, n.places(at...)}
}

// A plugin is the configuration of a generator or transformer.
type plugin struct {
	doc     render.Document
	field   string // of the kustomization
	inline  bool   // it is written there
	at      func(field ...any) render.Span
	patches []*patch
}

// pluginsOf returns the plugins of a field in the order in which they run: those that are
// written inline first.
func (n *node) pluginsOf(field string) (all []*plugin) {
	for _, inline := range []bool{true, false} {
		for _, p := range n.plugins {
			if p.field == field && p.inline == inline {
				all = append(all, p)
			}
		}
	}
	return all
}

func (p *plugin) config() config { return config{p.doc.Value, p.at} }

// fields returns the fields of the configuration.
func (p *plugin) fields() map[string]any {
	m, _ := p.doc.Value.(map[string]any)
	return m
}

// under returns where the fields below a key of the configuration are written.
func (p *plugin) under(key any) func(...any) render.Span {
	return func(field ...any) render.Span { return p.at(append([]any{key}, field...)...) }
}

func (p *plugin) generator(kind string) *generator {
	args := &types.GeneratorArgs{}
	_ = convert(p.doc.Value, args) // kustomize already refused values that do not fit
	return &generator{kind, text(p.doc.Value, "metadata", "name"), args, []config{p.config()}}
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

// data returns the places of the keys that a generator writes: the literal, the file, or
// the line of an env file. For a file it is the file itself, which a person would edit,
// rather than the entry that names it.
func (g *generator) data(w *walk, n *node) map[string][]render.Origin {
	all := map[string][]render.Origin{}
	entry := func(field ...any) render.Origin {
		return render.Origin{Span: g.configs[0].at(field...), Role: render.Generated}
	}
	for i, literal := range g.args.LiteralSources {
		key, _, _ := strings.Cut(literal, "=")
		all[key] = []render.Origin{entry("literals", i)}
	}
	for i, source := range g.args.FileSources {
		key, file, ok := strings.Cut(source, "=")
		if !ok {
			key, file = path.Base(source), source
		}
		if name, content, ok := w.content(n, file); ok {
			all[key] = []render.Origin{{Span: firstLine(name, content), Role: render.Generated}, {Span: entry("files", i).Span, Role: render.Reference}}
		}
	}
	for i, source := range g.args.EnvSources {
		w.envLines(n, source, entry("envs", i).Span, all)
	}
	if g.args.EnvSource != "" {
		w.envLines(n, g.args.EnvSource, entry("env").Span, all)
	}
	return all
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

// envLines adds the places of the keys of a file of KEY=value lines.
func (w *walk) envLines(n *node, file string, entry render.Span, all map[string][]render.Origin) {
	name, content, _ := w.content(n, file)
	line := 0
	for text := range strings.Lines(content) {
		line++
		text = strings.TrimRight(text, "\r\n")
		trimmed := strings.TrimLeft(text, " \t")
		if key, _, _ := strings.Cut(trimmed, "="); trimmed != "" && trimmed[0] != '#' {
			from := 1 + utf8.RuneCountInString(text) - utf8.RuneCountInString(trimmed)
			at := render.Span{File: name, Line: line, Column: from, EndLine: line, EndColumn: 1 + utf8.RuneCountInString(text)}
			all[key] = []render.Origin{{Span: at, Role: render.Generated}, {Span: entry, Role: render.Reference}}
		}
	}
}
