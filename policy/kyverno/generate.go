package kyverno

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
)

// A generation is a rule's generate with its templates parsed.
type generation struct {
	spec  *template
	loops []*generateLoop
}

// A generateLoop is an entry of generate.foreach.
type generateLoop struct {
	list          *list
	entries       []*entry
	preconditions *block
	spec          *template
}

func newGeneration(g *document.Generate) *generation {
	n := &generation{}
	if len(g.Foreach) == 0 {
		n.spec = newTemplate(map[string]any{"generate": g.Spec})
		return n
	}
	for _, f := range g.Foreach {
		spec := maps.Clone(f.Spec)
		for _, key := range []string{"list", "context", "preconditions"} {
			delete(spec, key)
		}
		n.loops = append(n.loops, &generateLoop{
			list: newList(f.List), entries: newEntries(f.Context), preconditions: newBlock(f.Preconditions),
			spec: newTemplate(map[string]any{"generate": spec}),
		})
	}
	return n
}

// generates is the phase of generate rules. In a cluster they run in the
// background, after the request is admitted.
var generates = phase{
	concerns: func(r *Rule) bool { return r.Generate != nil },
	run: func(x *run) []Response {
		s := x.review.scopeOf(x.program.rule, x.program.entries)
		if v, _ := x.admits(s); v != nil {
			return []Response{x.response(v)}
		}
		made, err := x.generate(s)
		if err != nil {
			return []Response{x.response(broken("failed to generate", err))}
		}
		if len(made) == 0 && len(x.review.questions) == 0 {
			return nil
		}
		resp := x.response(&verdict{status: StatusPass})
		resp.Generated = made
		return []Response{resp}
	},
}

func (r *run) generate(s *scope) ([]map[string]any, error) {
	g := r.program.generation
	if g.spec != nil {
		return r.make(g.spec, s)
	}
	var all []map[string]any
	for _, l := range g.loops {
		elements, _, err := l.list.elements(s)
		if err != nil {
			return nil, err
		}
		for i, e := range elements {
			made, err := r.generateElement(l, s, i, e)
			if err != nil {
				return nil, err
			}
			all = append(all, made...)
		}
	}
	return all, nil
}

func (r *run) generateElement(l *generateLoop, s *scope, i int, e any) ([]map[string]any, error) {
	if e == nil {
		return nil, nil
	}
	if r.elements++; r.elements > maxElements {
		return nil, fmt.Errorf("foreach has more than %d elements", maxElements)
	}
	inner := s.inner(elementNames(0, i, e, nil), l.entries)
	if held, _, err := l.preconditions.holds(inner); err != nil || !held {
		return nil, err
	}
	return r.make(l.spec, inner)
}

// make returns the objects of a spec that do not exist yet, or that
// synchronize: true keeps up to date.
func (r *run) make(t *template, s *scope) ([]map[string]any, error) {
	v, err := t.fill(s)
	if err != nil {
		return nil, err
	}
	spec, _ := lookupMap(integers(v).(map[string]any), "generate")
	wanted, err := r.wanted(spec)
	if err != nil {
		return nil, err
	}
	synchronize, _ := spec["synchronize"].(bool)
	var made []map[string]any
	for _, o := range wanted {
		kind, namespace, name := nameOf(o)
		there := r.review.store().get(policy.ParseGroupVersion(kind[0]).WithKind(kind[1]).GroupKind(), namespace, name)
		if there == nil || synchronize && !reflect.DeepEqual(there, o) {
			made = append(made, o)
		}
	}
	return made, nil
}

// nameOf returns an object's apiVersion and kind, namespace and name.
func nameOf(o map[string]any) (kind [2]string, namespace, name string) {
	kind[0], _ = o["apiVersion"].(string)
	kind[1], _ = o["kind"].(string)
	m, _ := o["metadata"].(map[string]any)
	namespace, _ = m["namespace"].(string)
	name, _ = m["name"].(string)
	return kind, namespace, name
}

// wanted returns the objects that a spec describes, by data or by the objects
// that it clones.
func (r *run) wanted(spec map[string]any) ([]map[string]any, error) {
	text := func(m map[string]any, key string) string { s, _ := m[key].(string); return s }
	apiVersion, kind, namespace, name := text(spec, "apiVersion"), text(spec, "kind"), text(spec, "namespace"), text(spec, "name")
	if list, ok := lookupMap(spec, "cloneList"); ok {
		return r.cloneList(list, namespace)
	}
	if data, ok := lookupMap(spec, "data"); ok {
		return []map[string]any{named(data, apiVersion, kind, namespace, name)}, nil
	}
	clone, ok := lookupMap(spec, "clone")
	if !ok {
		return []map[string]any{named(nil, apiVersion, kind, namespace, name)}, nil
	}
	gk := policy.ParseGroupVersion(apiVersion).WithKind(kind).GroupKind()
	source := r.review.store().get(gk, text(clone, "namespace"), text(clone, "name"))
	if source == nil {
		return nil, r.review.missing(fmt.Sprintf("needs %s %s/%s, which it clones", kind, text(clone, "namespace"), text(clone, "name")))
	}
	return []map[string]any{named(bare(source), apiVersion, kind, namespace, name)}, nil
}

// cloneList clones the objects of some kinds from one namespace to another.
func (r *run) cloneList(list map[string]any, namespace string) ([]map[string]any, error) {
	from, _ := list["namespace"].(string)
	kinds, _ := list["kinds"].([]any)
	sel := document.SelectorOf(list["selector"])
	var all []map[string]any
	for _, k := range kinds {
		text, _ := k.(string)
		i := strings.LastIndexByte(text, '/')
		gvk := policy.ParseGroupVersion(text[:max(0, i)]).WithKind(text[i+1:])
		for _, o := range r.review.store().cluster.List(gvk.GroupKind()) {
			if o.GetNamespace() == from && (sel == nil || sel.Matches(o.GetLabels())) {
				apiVersion := cmp.Or(gvk.GroupVersion().String(), o.GetAPIVersion())
				all = append(all, named(bare(o.Object), apiVersion, gvk.Kind, namespace, o.GetName()))
			}
		}
	}
	return all, nil
}

// bare returns an object without the metadata that the API server sets.
func bare(o map[string]any) map[string]any {
	made := maps.Clone(o)
	m, _ := o["metadata"].(map[string]any)
	m = maps.Clone(m)
	for _, key := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences", "selfLink"} {
		delete(m, key)
	}
	made["metadata"] = m
	delete(made, "status")
	return made
}

// named returns a copy of an object with the given kind, namespace and name.
func named(o map[string]any, apiVersion, kind, namespace, name string) map[string]any {
	made := map[string]any{}
	maps.Copy(made, o)
	given, _ := o["metadata"].(map[string]any)
	m := map[string]any{}
	maps.Copy(m, given)
	delete(m, "namespace")
	if namespace != "" {
		m["namespace"] = namespace
	}
	m["name"] = name
	made["apiVersion"], made["kind"], made["metadata"] = apiVersion, kind, m
	return made
}
