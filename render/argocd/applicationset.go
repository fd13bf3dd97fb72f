package argocd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/gotemplate"
)

// An applicationSetSpec holds the fields of an ApplicationSet that Argo CD
// reads.
type applicationSetSpec struct {
	GoTemplate        bool             `json:"goTemplate"`
	GoTemplateOptions []string         `json:"goTemplateOptions"`
	Generators        []map[string]any `json:"generators"`
	Template          appTemplate      `json:"template"`
	TemplatePatch     string           `json:"templatePatch"`
	SyncPolicy        struct {
		PreserveResourcesOnDeletion bool   `json:"preserveResourcesOnDeletion"`
		ApplicationsSync            string `json:"applicationsSync"`
	} `json:"syncPolicy"`
}

// finalizer makes Argo CD delete an Application's objects together with the
// Application.
const finalizer = "resources-finalizer.argocd.argoproj.io"

// generate returns the Applications that an ApplicationSet makes.
func generate(ctx context.Context, o *render.Object, w *render.World) ([]*render.Object, error) {
	var set struct {
		Spec applicationSetSpec `json:"spec"`
	}
	g := &generation{set: o, world: w, spec: &set.Spec, namespace: namespaceOf(o)}
	if err := decode(o.Object, &set); err != nil {
		return nil, misshapen(o, "", err)
	}
	g.lister.ctx = ctx
	g.engine = engine{ctx: ctx, golang: set.Spec.GoTemplate, options: set.Spec.GoTemplateOptions, templates: make(map[string]*compiled)}
	var all []*render.Object
	var errs []error
	for i, value := range set.Spec.Generators {
		e := entry{value, render.Pointer("spec", "generators", i)}
		batches, err := g.transform(e, nil)
		if err == nil && len(batches) == 0 {
			empty := g.errorAt(e.pointer, errors.New("Argo CD does not know this kind of generator, so it generates nothing"))
			empty.Warning = true
			g.warn(empty)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, b := range batches {
			apps, err := g.applications(b)
			all = append(all, apps...)
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	all, err := g.distinct(all)
	for _, w := range g.warnings {
		errs = append(errs, w)
	}
	return all, errors.Join(append(errs, err)...)
}

// distinct drops Applications with the name of an earlier one, as Argo CD does,
// and returns an error that names them. Since 3.2, Argo CD then creates none at all.
func (g *generation) distinct(all []*render.Object) ([]*render.Object, error) {
	none := render.Since(g.world.Cluster.ArgoCDVersion, 3, 2)
	seen := make(map[string]bool, len(all))
	var kept []*render.Object
	var errs []error
	for _, o := range all {
		if name := o.GetName(); seen[name] {
			creates := "the first one only"
			if none {
				creates = "none of the ApplicationSet"
			}
			e := g.errorAt("/spec/template/metadata/name", fmt.Errorf("two Applications are named %s; Argo CD creates %s", name, creates))
			e.Rule, e.Warning = "duplicate-application", !none
			errs = append(errs, e)
			continue
		}
		seen[o.GetName()] = true
		kept = append(kept, o)
	}
	if none && len(errs) > 0 {
		kept = nil
	}
	return kept, errors.Join(errs...)
}

// applications renders the template with each set of parameters. It returns
// only the first error, since one set usually fails like all others.
func (g *generation) applications(b batch) ([]*render.Object, error) {
	var all []*render.Object
	for _, p := range b.params {
		if err := g.engine.ctx.Err(); err != nil {
			return nil, err
		}
		o, err := g.application(b, p)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// application renders the template of a batch with one set of parameters.
func (g *generation) application(b batch, p *paramSet) (*render.Object, error) {
	made := &generated{g: g, templates: b.pointers, params: p, used: make(map[string][][]string)}
	tree, err := made.fill(b.template)
	if err != nil {
		return nil, err
	}
	app, err := normalized(tree.(map[string]any))
	if err == nil && g.spec.TemplatePatch != "" {
		app, err = made.patch(app)
	}
	if err != nil {
		var placed *render.Error
		if errors.As(err, &placed) {
			return nil, err
		}
		return nil, g.errorAt("/spec/template", err)
	}
	if g.namespace != "" && g.set.GetNamespace() != "" {
		app["metadata"].(map[string]any)["namespace"] = g.set.GetNamespace()
	}
	return &render.Object{Unstructured: &unstructured.Unstructured{Object: app}, Provenance: made}, nil
}

// normalized returns an Application as Argo CD's types write it: without
// unknown and without empty fields. The case of names doesn't matter, since
// Argo CD reads a patched Application with encoding/json.
func normalized(tree map[string]any) (map[string]any, error) {
	var app application
	data, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(data, &app)
	}
	if err != nil {
		return nil, fmt.Errorf("template makes no Application: %w", shapeError(err))
	}
	made, err := encode(app)
	if err != nil {
		return nil, err
	}
	made["apiVersion"], made["kind"] = "argoproj.io/v1alpha1", "Application"
	return made, nil
}

// A generated is the Provenance of an Application that an ApplicationSet makes.
type generated struct {
	g         *generation
	templates []string // pointers of the templates, in order of precedence
	params    *paramSet
	used      map[string][][]string // parameters named in a field's text, by the field's pointer in the template
	renamed   map[string]string     // pointers of the Application whose keys are templates themselves
	patched   map[string][]render.Origin
}

// At implements render.Provenance.
func (m *generated) At(pointer string) []render.Origin {
	for p := pointer; p != ""; p = p[:strings.LastIndexByte(p, '/')] {
		if places, ok := m.patched[p]; ok {
			return places
		}
		inTemplate := cmp.Or(m.renamed[p], p)
		for _, t := range m.templates {
			if _, ok := render.Lookup(m.g.set.Object, t+inTemplate); ok {
				return m.g.templatePlaces(m.params, m.used[inTemplate], t+inTemplate)
			}
		}
	}
	if pointer == "" {
		return m.At("/metadata/name")
	}
	return m.g.set.At("/spec/template")
}

// fill renders the template. Without parameters Argo CD leaves the template as
// it is.
func (m *generated) fill(tree map[string]any) (any, error) {
	if len(m.params.values) == 0 {
		return clone(tree), nil
	}
	filled, err := m.deep(tree, "", "")
	if err != nil {
		return nil, err
	}
	meta := filled.(map[string]any)["metadata"].(map[string]any)
	if list, _ := meta["finalizers"].([]any); len(list) == 0 && !m.g.spec.SyncPolicy.PreserveResourcesOnDeletion {
		meta["finalizers"] = []any{finalizer}
	}
	return filled, nil
}

// deep renders each text of a tree. from is a pointer in the template, to the
// corresponding one in the Application.
func (m *generated) deep(tree any, from, to string) (any, error) {
	switch v := tree.(type) {
	case string:
		text, uses, err := m.g.replace(v, m.params.values)
		if err != nil {
			return nil, m.errorAt(from, err)
		}
		if len(uses) > 0 {
			m.used[from] = uses
		}
		return text, nil
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			var err error
			if list[i], err = m.deep(e, from+render.Pointer(i), to+render.Pointer(i)); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		filled := make(map[string]any, len(v))
		for _, key := range sortedKeys(v) {
			if v[key] == nil {
				continue // Argo CD drops it, also in valuesObject
			}
			name, _, err := m.g.replace(key, m.params.values)
			if err != nil {
				return nil, m.errorAt(from+render.Pointer(key), err)
			}
			next := to + render.Pointer(name)
			if name != key || from != to {
				if m.renamed == nil {
					m.renamed = make(map[string]string)
				}
				m.renamed[next] = from + render.Pointer(key)
			}
			if filled[name], err = m.deep(v[key], from+render.Pointer(key), next); err != nil {
				return nil, err
			}
		}
		return filled, nil
	}
	return tree, nil
}

// errorAt returns an error at a field of the template.
func (m *generated) errorAt(pointer string, err error) error {
	for _, t := range m.templates {
		if _, ok := render.Lookup(m.g.set.Object, t+pointer); ok {
			return m.g.errorAt(t+pointer, err)
		}
	}
	return m.g.errorAt("/spec/template", err)
}

// patch applies templatePatch, which may not change the project.
func (m *generated) patch(app map[string]any) (map[string]any, error) {
	const pointer = "/spec/templatePatch"
	text, uses, err := m.g.replace(m.g.spec.TemplatePatch, m.params.values)
	if err != nil {
		return nil, m.g.errorAt(pointer, err)
	}
	patch, err := patchOf(text)
	if err != nil {
		return nil, m.g.errorAt(pointer, err)
	}
	project := app["spec"].(map[string]any)["project"]
	var merged map[string]any
	applied, err := strategicpatch.StrategicMergeMapPatch(clone(app), patch, application{})
	if err == nil {
		merged, err = normalized(applied)
	}
	if err != nil {
		return nil, m.g.errorAt(pointer, fmt.Errorf("templatePatch doesn't apply: %w", gotemplate.Brief(err)))
	}
	merged["spec"].(map[string]any)["project"] = project
	m.patched = make(map[string][]render.Origin)
	w := &writtenPatch{uses: uses, lines: m.g.lines(m.g.spec.TemplatePatch, m.params.values)}
	if docs, _ := render.Documents("", []byte(text), render.YAML11); len(docs) > 0 {
		w.positions = docs[0].Positions
	}
	m.note(app, merged, "", func(p string) []render.Origin { return m.patchPlaces(w, p) })
	return merged, nil
}

// patchOf reads a rendered templatePatch: JSON if it begins with a brace, else YAML.
func patchOf(text string) (patch map[string]any, err error) {
	data := []byte(text)
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return nil, errors.New("templatePatch renders to something that is no YAML map")
		}
	}
	if err := json.Unmarshal(data, &application{}); err != nil {
		return nil, fmt.Errorf("templatePatch renders to something that is no Application: %w", err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &patch); err != nil {
		return nil, errors.New("templatePatch renders to something that is no YAML map")
	}
	return patch, nil
}

// note records the places of the fields that a patch changed.
func (m *generated) note(before, after any, pointer string, places func(string) []render.Origin) {
	if reflect.DeepEqual(before, after) {
		return
	}
	b, wasMap := before.(map[string]any)
	a, isMap := after.(map[string]any)
	if !wasMap || !isMap {
		m.patched[pointer] = places(pointer)
	}
	for key, value := range a {
		m.note(b[key], value, pointer+render.Pointer(key), places)
	}
	if list, ok := after.([]any); ok {
		for i, value := range list {
			m.note(nil, value, pointer+render.Pointer(i), places)
		}
	}
}

// A writtenPatch is a rendered templatePatch.
type writtenPatch struct {
	uses      [][]string // the parameters that the template names
	positions *render.Positions
	lines     []int // lines of the template, for each line of the patch
}

// patchPlaces returns where templatePatch sets a field: its line, and the
// parameters that the line names; or the whole patch if the line is not known.
func (m *generated) patchPlaces(w *writtenPatch, pointer string) []render.Origin {
	const patch = "/spec/templatePatch"
	if w.positions != nil {
		found := w.positions.At(pointer)
		n := found[len(found)-1].Line - 1
		if places := m.lineOf(patch, n, w.lines, w.uses); len(places) > 0 {
			return places
		}
	}
	return m.g.templatePlaces(m.params, w.uses, patch)
}

// lineOf returns where line n of the rendered form of a text of the
// ApplicationSet is written, with the parameters that the line names. lines
// maps lines of the result to lines of the text.
func (m *generated) lineOf(pointer string, n int, lines []int, uses [][]string) []render.Origin {
	value, _ := render.Lookup(m.g.set.Object, pointer)
	text, _ := value.(string)
	written := strings.Split(text, "\n")
	if n < 0 || n >= len(lines) || lines[n] >= len(written) {
		return nil
	}
	places := m.g.set.Line(pointer, lines[n])
	if len(places) == 0 {
		return nil
	}
	_, used, err := m.g.replace(written[lines[n]], m.params.values)
	if err != nil {
		used = uses // the line is part of a longer action
	}
	return m.g.withParams(m.params, used, render.WithRole(places, render.Template))
}

// Line is called by [render.Object.Line].
func (m *generated) Line(pointer string, n int) []render.Origin {
	at, text, ok := m.text(pointer)
	if !ok {
		return nil
	}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	return m.lineOf(at, n, m.g.lines(text, m.params.values), m.used[cmp.Or(m.renamed[pointer], pointer)])
}

// Part returns the parameters that wrote a part of a text. It is called by [render.Object.Part].
func (m *generated) Part(pointer, part string) []render.Origin {
	_, template, ok := m.text(pointer)
	if !ok {
		return nil
	}
	m.g.mu.Lock()
	text, uses, err := m.g.replace(template, m.params.values)
	m.g.mu.Unlock()
	from := strings.Index(text, part)
	if err != nil || from < 0 {
		return nil
	}
	var found []render.Origin
	for _, path := range uses {
		value, ok := at(m.params.values, path)
		wrote, isText := value.(string)
		begin := strings.Index(text, wrote)
		if ok && isText && wrote != "" && begin >= 0 && begin < from+len(part) && from < begin+len(wrote) {
			found = append(found, m.params.origins(path)...)
		}
	}
	return found
}

// text returns the template's text from which a field is rendered, and its
// pointer in the ApplicationSet. It returns false for a field that
// templatePatch sets.
func (m *generated) text(pointer string) (at, text string, ok bool) {
	for p := pointer; p != ""; p = p[:strings.LastIndexByte(p, '/')] {
		if _, ok := m.patched[p]; ok {
			return "", "", false
		}
	}
	for _, t := range m.templates {
		at := t + cmp.Or(m.renamed[pointer], pointer)
		if value, ok := render.Lookup(m.g.set.Object, at); ok {
			text, ok := value.(string)
			return at, text, ok
		}
	}
	return "", "", false
}

// places returns where a field of the ApplicationSet is written, with the role
// of a generator.
func (g *generation) places(pointer string) []render.Origin {
	return render.WithRole(g.set.At(pointer), render.Generated)
}

// templatePlaces returns the places of a field that is written as a template.
func (g *generation) templatePlaces(p *paramSet, uses [][]string, pointer string) []render.Origin {
	return g.withParams(p, uses, render.WithRole(g.set.At(pointer), render.Template))
}

// withParams puts the places of parameters before the places of the template
// that names them. Parameters of which only the file is known come last.
func (g *generation) withParams(p *paramSet, uses [][]string, own []render.Origin) []render.Origin {
	var first, last []render.Origin
	for _, path := range uses {
		for _, o := range p.origins(path) {
			if o.Line > 0 {
				first = append(first, o)
			} else {
				last = append(last, o)
			}
		}
	}
	var all []render.Origin
	for _, o := range slices.Concat(first, own, last) {
		if !slices.Contains(all, o) {
			all = append(all, o)
		}
	}
	return all
}

// errorAt returns an error at a field of the ApplicationSet.
func (g *generation) errorAt(pointer string, err error) *render.Error {
	var placed *render.Error
	if errors.As(err, &placed) {
		return placed
	}
	return &render.Error{Span: g.set.Span(pointer), Rule: "argocd-applicationset", Err: err}
}

// setting returns an entry of one of Argo CD's ConfigMaps, or "".
func setting(w *render.World, namespace, name, key string) string {
	o := w.Object(schema.GroupKind{Kind: "ConfigMap"}, namespace, name)
	if o == nil {
		return ""
	}
	value, _ := render.Lookup(o.Object, render.Pointer("data", key))
	text, _ := value.(string)
	return text
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
