package argocd

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render"
)

// An entry is a generator as written: an entry of spec.generators, or of a
// matrix or merge, with the parameters of the previous generator filled in.
type entry struct {
	value   map[string]any
	pointer string // in the ApplicationSet
}

// A generator holds the fields of an entry that Argo CD reads.
type generator struct {
	List        *listGenerator        `json:"list"`
	Clusters    *clusterGenerator     `json:"clusters"`
	Git         *gitGenerator         `json:"git"`
	SCMProvider *scmProviderGenerator `json:"scmProvider"`
	Decision    *outsideGenerator     `json:"clusterDecisionResource"`
	PullRequest *pullRequestGenerator `json:"pullRequest"`
	Matrix      *combination          `json:"matrix"`
	Merge       *combination          `json:"merge"`
	Plugin      *outsideGenerator     `json:"plugin"`
	OCI         *outsideGenerator     `json:"oci"`
	Selector    *metav1.LabelSelector `json:"selector"`
}

type listGenerator struct {
	Elements     []map[string]any `json:"elements"`
	ElementsYaml string           `json:"elementsYaml"`
	Template     appTemplate      `json:"template"`
}

// A combination is a matrix or a merge. Its generators are read from the entry.
type combination struct {
	Generators []map[string]any `json:"generators"`
	MergeKeys  []string         `json:"mergeKeys"`
	Template   appTemplate      `json:"template"`
}

// An outsideGenerator queries a system outside of git. The configuration
// declares its results.
type outsideGenerator struct {
	Template appTemplate       `json:"template"`
	Values   map[string]string `json:"values"`
}

type pullRequestGenerator struct {
	outsideGenerator `json:",inline"`
	Github           *struct{} `json:"github"`
	GitLab           *struct{} `json:"gitlab"`
	Gitea            *struct{} `json:"gitea"`
	BitbucketServer  *struct{} `json:"bitbucketServer"`
	Bitbucket        *struct{} `json:"bitbucket"`
	AzureDevOps      *struct{} `json:"azuredevops"`
}

type scmProviderGenerator struct {
	outsideGenerator `json:",inline"`
	Github           *struct{} `json:"github"`
	Gitlab           *struct{} `json:"gitlab"`
	Bitbucket        *struct{} `json:"bitbucket"`
	BitbucketServer  *struct{} `json:"bitbucketServer"`
	Gitea            *struct{} `json:"gitea"`
	AzureDevOps      *struct{} `json:"azureDevOps"`
	AWSCodeCommit    *struct{} `json:"awsCodeCommit"`
}

// An appTemplate is the template of an ApplicationSet or of one of its
// generators.
type appTemplate struct {
	Metadata applicationMeta `json:"metadata"`
	Spec     applicationSpec `json:"spec"`
}

// kinds are the kinds of generators, in the order in which Argo CD runs those
// of an entry.
var kinds = []string{"list", "clusters", "git", "scmProvider", "clusterDecisionResource", "pullRequest", "matrix", "merge", "plugin", "oci"}

// A generation generates the Applications of one ApplicationSet.
type generation struct {
	engine
	lister
	set       *render.Object
	world     *render.World
	spec      *applicationSetSpec
	namespace string
	elements  int
	warnings  []*render.Error // each place once

	mu sync.Mutex // held while places are looked up, which uses the engine
}

// A batch holds the parameters that one generator of an entry makes.
type batch struct {
	params   []*paramSet
	template map[string]any
	pointers []string // of the merged templates, in the ApplicationSet
}

// warn adds a warning, unless there is one at the same place: the second generator of
// a matrix runs many times.
func (g *generation) warn(e *render.Error) {
	if !slices.ContainsFunc(g.warnings, func(w *render.Error) bool { return w.Span == e.Span && w.Rule == e.Rule }) {
		g.warnings = append(g.warnings, e)
	}
}

// transform makes the parameters of an entry: one batch for each generator in
// it, usually one. under holds the parameters of the previous generator of a
// matrix, and is nil elsewhere.
func (g *generation) transform(e entry, under *paramSet) ([]batch, error) {
	if err := g.engine.ctx.Err(); err != nil {
		return nil, err
	}
	var typed generator
	if err := decode(e.value, &typed); err != nil {
		return nil, misshapen(g.set, e.pointer, err)
	}
	filter := typed.Selector // Argo CD fills no parameters into it
	selector, err := newSelector(filter)
	if err != nil {
		return nil, g.errorAt(e.pointer+"/selector", err)
	}
	if under != nil && len(under.values) > 0 {
		filled, err := g.deep(e.value, under.values, e.pointer)
		if err != nil {
			return nil, err
		}
		e.value, typed = filled.(map[string]any), generator{}
		if err := decode(e.value, &typed); err != nil {
			return nil, misshapen(g.set, e.pointer, err)
		}
	}
	var batches []batch
	for _, kind := range kinds {
		if e.value[kind] == nil {
			continue
		}
		b := batch{pointers: []string{"/spec/template"}}
		if err := b.overlay(g, &typed, kind, e.pointer); err != nil {
			return nil, err
		}
		params, err := g.params(e, &typed, kind)
		if err != nil {
			return nil, err
		}
		for _, p := range params {
			if filter == nil || selector.matches(flatten(p.values)) {
				b.params = append(b.params, p)
			}
		}
		batches = append(batches, b)
	}
	return batches, nil
}

// overlay merges the template of a generator over that of the ApplicationSet.
func (b *batch) overlay(g *generation, typed *generator, kind, pointer string) error {
	var err error
	if b.template, err = encode(typed.template(kind)); err != nil {
		return err
	}
	b.pointers = append([]string{pointer + render.Pointer(kind, "template")}, b.pointers...)
	base, err := encode(g.spec.Template)
	if err != nil {
		return err
	}
	return fillTemplate(b.template, base)
}

// fillTemplate merges templates as Argo CD merges the structs: values in
// helm.valuesObject are not merged.
func fillTemplate(dst, src map[string]any) error {
	for key, value := range src {
		was, ok := dst[key]
		mine, isMap := was.(map[string]any)
		theirs, both := value.(map[string]any)
		switch {
		case ok && isMap && both && len(mine) > 0 && key != "valuesObject":
			if err := fillTemplate(mine, theirs); err != nil {
				return err
			}
		case !ok || empty(was):
			dst[key] = clone(map[string]any{"": value})[""]
		}
	}
	return nil
}

func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case int64:
		return v == 0
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

func (g *generator) template(kind string) appTemplate {
	switch kind {
	case "list":
		return g.List.Template
	case "clusters":
		return g.Clusters.Template
	case "git":
		return g.Git.Template
	case "matrix":
		return g.Matrix.Template
	case "merge":
		return g.Merge.Template
	case "plugin":
		return g.Plugin.Template
	case "oci":
		return g.OCI.Template
	case "scmProvider":
		return g.SCMProvider.Template
	case "pullRequest":
		return g.PullRequest.Template
	}
	return g.Decision.Template
}

// ownValues matches the pointer of a generator's `values`, which may also name the parameters that
// the generator itself makes.
var ownValues = regexp.MustCompile("/generators/[0-9]+/(clusters|git|scmProvider|clusterDecisionResource|pullRequest|plugin|oci)/values$")

// deep fills the parameters of the previous generator of a matrix into the keys and values of a
// generator.
func (g *generation) deep(tree any, params map[string]any, pointer string) (any, error) {
	switch v := tree.(type) {
	case string:
		text, _, err := g.replace(v, params)
		if err != nil {
			return nil, g.errorAt(pointer, err)
		}
		return text, nil
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			var err error
			if list[i], err = g.deep(e, params, pointer+render.Pointer(i)); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		if ownValues.MatchString(pointer) {
			return g.resolve(v, params, pointer)
		}
		m := make(map[string]any, len(v))
		for _, key := range sortedKeys(v) {
			if v[key] == nil {
				continue // Argo CD drops it, also in a list's elements
			}
			name, _, err := g.replace(key, params)
			if err != nil {
				return nil, g.errorAt(pointer+render.Pointer(key), err)
			}
			if m[name], err = g.deep(v[key], params, pointer+render.Pointer(key)); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return tree, nil
}

// resolve fills parameters into a generator's `values`. Texts that name other parameters are left
// to the generator.
func (g *generation) resolve(values, params map[string]any, pointer string) (any, error) {
	strict := g.engine
	strict.options = append(slices.Clone(g.options), "missingkey=error")
	strict.templates = make(map[string]*compiled)
	resolved := maps.Clone(values)
	for _, key := range sortedKeys(values) {
		text, ok := values[key].(string)
		if !ok {
			continue
		}
		switch filled, _, err := strict.replace(text, params); {
		case err == nil:
			resolved[key] = filled
		case !strings.Contains(err.Error(), "map has no entry for key") && !strings.Contains(err.Error(), "can't evaluate field"):
			return nil, g.errorAt(pointer+render.Pointer(key), err)
		}
	}
	return resolved, nil
}

// params makes the parameters of one generator of an entry.
func (g *generation) params(e entry, typed *generator, kind string) (params []*paramSet, err error) {
	pointer := e.pointer + render.Pointer(kind)
	switch kind {
	case "list":
		params, err = g.listed(typed.List, pointer)
	case "clusters":
		params, err = g.clusters(typed.Clusters, pointer)
	case "git":
		params, err = g.git(typed.Git, pointer)
	case "matrix":
		return g.matrix(typed.Matrix, pointer)
	case "merge":
		return g.merge(typed.Merge, pointer)
	default:
		params, err = g.declared(kind, pointer)
	}
	if g.elements += len(params); err == nil && g.elements > maxElements {
		err = g.errorAt(pointer, errElements)
	}
	return params, err
}

var errElements = fmt.Errorf("the generators make more than %d sets of parameters", maxElements)

func (g *generation) listed(l *listGenerator, pointer string) ([]*paramSet, error) {
	if len(l.Elements) > maxElements {
		return nil, g.errorAt(pointer, errElements)
	}
	var params []*paramSet
	for i, element := range l.Elements {
		p, err := g.element(element, pointer+render.Pointer("elements", i))
		if err != nil {
			return nil, err
		}
		params = append(params, p)
	}
	if l.ElementsYaml == "" {
		return params, nil
	}
	var more []map[string]any
	if err := yaml.Unmarshal([]byte(l.ElementsYaml), &more); err != nil {
		return nil, g.errorAt(pointer+"/elementsYaml", errors.New("elementsYaml is not a YAML list of maps"))
	}
	for _, values := range more {
		params = append(params, &paramSet{values: values, layers: []layer{{values, func([]string) []render.Origin {
			return g.places(pointer + "/elementsYaml")
		}}}})
	}
	return params, nil
}

// element makes the parameters of a list's element. Without goTemplate an
// element holds only texts, except for `values`, which is a map of texts.
func (g *generation) element(element map[string]any, pointer string) (*paramSet, error) {
	if g.golang {
		values, _ := plain(element).(map[string]any)
		return &paramSet{values: values, layers: []layer{{values, func(path []string) []render.Origin {
			return g.places(pointer + render.PathPointer(path))
		}}}}, nil
	}
	flat, paths := make(map[string]any), make(map[string]string)
	for key, value := range element {
		if key != "values" {
			flat[key], paths[key] = value, render.Pointer(key)
			continue
		}
		values, ok := value.(map[string]any)
		if !ok {
			return nil, g.errorAt(pointer+"/values", errors.New("values of a list's element is not a map"))
		}
		for k, v := range values {
			flat["values."+k], paths["values."+k] = v, render.Pointer("values", k)
		}
	}
	for key, value := range flat {
		if _, ok := value.(string); !ok {
			return nil, g.errorAt(pointer+paths[key], errors.New("a list's element has a value that is no string; without goTemplate only strings are possible"))
		}
	}
	return &paramSet{values: flat, layers: []layer{{flat, func(path []string) []render.Origin {
		return g.places(pointer + paths[path[0]])
	}}}}, nil
}

// declared returns the parameters that the configuration declares for
// generators that query systems outside of git.
func (g *generation) declared(kind, pointer string) ([]*paramSet, error) {
	declared, ok := g.world.Params(g.namespace, g.set.GetName())
	if !ok {
		e := g.errorAt(pointer, fmt.Errorf("generator %s needs data from outside of Git, so its Applications are unknown", kind))
		e.Rule, e.Missing = "missing-params", true
		e.Hint = "declare its parameters under `generators` in .preadmit/config.yaml"
		return nil, e
	}
	var params []*paramSet
	for _, d := range declared {
		values, _ := plain(clone(d)).(map[string]any)
		p := &paramSet{values: values}
		var typed outsideGenerator
		inner, _ := render.Lookup(g.set.Object, pointer)
		if err := decode(inner, &typed); err != nil {
			return nil, misshapen(g.set, pointer, err)
		}
		if err := g.addValues(p, typed.Values, pointer+"/values"); err != nil {
			return nil, err
		}
		params = append(params, p)
	}
	return params, nil
}

// matrix combines each set of the first generator with each that the second
// makes for it.
func (g *generation) matrix(m *combination, pointer string) ([]*paramSet, error) {
	children, err := g.children(m, pointer)
	if err != nil {
		return nil, err
	}
	if len(children) != 2 {
		return nil, g.errorAt(pointer+"/generators", fmt.Errorf("a matrix takes 2 generators, not %d", len(children)))
	}
	first, err := g.child(children[0], nil)
	if err != nil {
		return nil, err
	}
	var params []*paramSet
	for _, a := range first {
		second, err := g.child(children[1], a)
		if err != nil {
			return nil, err
		}
		for _, b := range second {
			joined, err := g.combine(a, b)
			if err != nil {
				return nil, g.errorAt(pointer, err)
			}
			params = append(params, joined)
		}
	}
	return params, nil
}

// merge combines the sets of the first generator with those of the others that
// have the same merge keys.
func (g *generation) merge(m *combination, pointer string) ([]*paramSet, error) {
	children, err := g.children(m, pointer)
	switch {
	case err != nil:
		return nil, err
	case len(children) < 2:
		return nil, g.errorAt(pointer+"/generators", fmt.Errorf("a merge takes 2 generators or more, not %d", len(children)))
	case len(m.MergeKeys) == 0:
		return nil, g.errorAt(pointer, errors.New("a merge takes mergeKeys"))
	}
	var keys []string
	merged := make(map[string]*paramSet)
	for i, child := range children {
		params, err := g.child(child, nil)
		if err != nil {
			return nil, err
		}
		seen := make(map[string]bool)
		for _, p := range params {
			key, err := mergeKey(m.MergeKeys, p.values)
			if err == nil && seen[key] {
				err = fmt.Errorf("two sets of parameters have the same mergeKeys: %s", key)
			}
			if err != nil {
				return nil, g.errorAt(child.pointer, err)
			}
			seen[key] = true
			switch base := merged[key]; {
			case i == 0:
				keys = append(keys, key)
				merged[key] = p
			case base != nil:
				if merged[key], err = g.override(base, p); err != nil {
					return nil, g.errorAt(child.pointer, err)
				}
			}
		}
	}
	params := make([]*paramSet, len(keys))
	for i, key := range keys {
		params[i] = merged[key]
	}
	return params, nil
}

// children returns the generators of a matrix or merge.
func (g *generation) children(c *combination, pointer string) ([]entry, error) {
	entries := make([]entry, len(c.Generators))
	for i, value := range c.Generators {
		entries[i] = entry{value, pointer + render.Pointer("generators", i)}
		for _, kind := range []string{"matrix", "merge"} {
			inner, _ := value[kind].(map[string]any)
			delete(inner, "template") // Argo CD drops it before it fills in parameters
			nested, _ := inner["generators"].([]any)
			for j, n := range nested {
				if child, _ := n.(map[string]any); child["matrix"] != nil || child["merge"] != nil {
					return nil, g.errorAt(entries[i].pointer+render.Pointer(kind, "generators", j), errors.New("a matrix or merge within another one can't hold a third"))
				}
			}
		}
	}
	return entries, nil
}

// child makes the parameters of a generator of a matrix or merge.
func (g *generation) child(e entry, under *paramSet) ([]*paramSet, error) {
	batches, err := g.transform(e, under)
	if err == nil && len(batches) != 1 {
		err = g.errorAt(e.pointer, errors.New("a generator of a matrix or merge names one kind of generator"))
	}
	if err != nil {
		return nil, err
	}
	return batches[0].params, nil
}

// A selector is a label selector without the rules for values of labels, so
// that it can also select by URLs.
type selector []requirement

type requirement struct {
	key      string
	operator metav1.LabelSelectorOperator
	values   []string
}

func newSelector(s *metav1.LabelSelector) (selector, error) {
	if s == nil {
		return nil, nil
	}
	var all selector
	for _, key := range sortedKeys(s.MatchLabels) {
		all = append(all, requirement{key, metav1.LabelSelectorOpIn, []string{s.MatchLabels[key]}})
	}
	for _, e := range s.MatchExpressions {
		all = append(all, requirement{e.Key, e.Operator, e.Values})
	}
	for _, r := range all {
		if err := r.check(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (r requirement) check() error {
	if _, err := labels.NewRequirement(r.key, "exists", nil); err != nil {
		return fmt.Errorf("selector has a key that is no name of a label: %s", r.key)
	}
	switch r.operator {
	case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
		if len(r.values) == 0 {
			return fmt.Errorf("selector needs values for %s", r.operator)
		}
	case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
		if len(r.values) > 0 {
			return fmt.Errorf("selector allows no values for %s", r.operator)
		}
	default:
		return fmt.Errorf("selector has an unknown operator: %s", r.operator)
	}
	return nil
}

func (s selector) matches(set map[string]string) bool {
	return !slices.ContainsFunc(s, func(r requirement) bool {
		value, has := set[r.key]
		switch r.operator {
		case metav1.LabelSelectorOpIn:
			return !has || !slices.Contains(r.values, value)
		case metav1.LabelSelectorOpNotIn:
			return has && slices.Contains(r.values, value)
		case metav1.LabelSelectorOpExists:
			return !has
		}
		return has
	})
}
