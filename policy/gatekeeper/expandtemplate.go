package gatekeeper

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

const (
	expansionGroup = "expansion.gatekeeper.sh"
	expansionKind  = "ExpansionTemplate"
)

func isExpansionTemplate(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == expansionGroup && gvk.Kind == expansionKind
}

// An expansionTemplate is one, read. It is read-only.
type expansionTemplate struct {
	object    *render.Object
	name      string
	appliesTo []applyTo
	source    string // the field that objects are made from, such as spec.template
	generates schema.GroupVersionKind
	action    string // "": that of the constraint
}

// expansionSpec is the spec as it is written.
type expansionSpec struct {
	ApplyTo []struct {
		Groups   []string `json:"groups,omitempty"`
		Kinds    []string `json:"kinds,omitempty"`
		Versions []string `json:"versions,omitempty"`
	} `json:"applyTo,omitempty"`
	TemplateSource string `json:"templateSource,omitempty"`
	GeneratedGVK   struct {
		Group   string `json:"group,omitempty"`
		Version string `json:"version,omitempty"`
		Kind    string `json:"kind,omitempty"`
	} `json:"generatedGVK,omitempty"`
	EnforcementAction string `json:"enforcementAction,omitempty"`
}

// newExpansions reads the expansion templates among the objects. The error
// joins *render.Error; the templates that it is not about are there all the
// same.
func newExpansions(objects []*render.Object, m *mutators) (*expansions, error) {
	var errs []error
	var all []*expansionTemplate
	for _, o := range objects {
		if !isExpansionTemplate(o) {
			continue
		}
		t, found := newExpansionTemplate(o)
		errs = append(errs, found...)
		if t != nil {
			all, found = withExpansionTemplate(all, t)
			errs = append(errs, found...)
		}
	}
	slices.SortStableFunc(all, func(a, b *expansionTemplate) int { return strings.Compare(a.name, b.name) })
	e := &expansions{mutators: m, byKind: expansionsByKind(all)}
	circles := e.circles(all)
	for _, circle := range circles {
		for _, t := range circle {
			errs = append(errs, policy.ErrorAt(t.object, "/spec/generatedGVK", "expansion-cycle", fmt.Errorf("what is expanded comes back to where it began by way of %s: none of them is applied", namesOf(circle))))
			all = slices.DeleteFunc(all, func(o *expansionTemplate) bool { return o == t })
		}
	}
	if len(circles) > 0 {
		e.byKind = expansionsByKind(all)
	}
	return e, errors.Join(errs...)
}

func expansionsByKind(all []*expansionTemplate) map[string][]*expansionTemplate {
	byKind := map[string][]*expansionTemplate{}
	for _, t := range all {
		for _, a := range t.appliesTo {
			for _, k := range a.Kinds {
				if of := byKind[k]; len(of) == 0 || of[len(of)-1] != t {
					byKind[k] = append(of, t)
				}
			}
		}
	}
	return byKind
}

// withExpansionTemplate adds a template. Of several others with one name the
// first is used.
func withExpansionTemplate(all []*expansionTemplate, t *expansionTemplate) ([]*expansionTemplate, []error) {
	i := slices.IndexFunc(all, func(o *expansionTemplate) bool { return o.name == t.name })
	switch {
	case i < 0:
		return append(all, t), nil
	case !alike(all[i].object, t.object):
		return all, []error{policy.ErrorAt(t.object, "/metadata/name", ruleExpansion, otherOf(expansionKind, t.name, all[i].object))}
	}
	return all, nil
}

const ruleExpansion = "expansion-template"

// newExpansionTemplate reads a template. It is nil where the errors,
// *render.Error, are more than warnings.
func newExpansionTemplate(o *render.Object) (*expansionTemplate, []error) {
	var errs []error
	add := func(pointer, format string, args ...any) {
		errs = append(errs, policy.ErrorAt(o, pointer, ruleExpansion, fmt.Errorf(format, args...)))
	}
	var spec expansionSpec
	written, ok := o.Object["spec"].(map[string]any)
	if !ok {
		add("/spec", "has no spec")
		return nil, errs
	}
	if errs = decode(o, "/spec", written, &spec, ruleExpansion); broken(errs) {
		return nil, errs
	}
	t := &expansionTemplate{object: o, name: o.GetName(), source: spec.TemplateSource, action: spec.EnforcementAction}
	t.generates = schema.GroupVersionKind(spec.GeneratedGVK)
	for _, a := range spec.ApplyTo {
		t.appliesTo = append(t.appliesTo, applyTo{Groups: a.Groups, Kinds: a.Kinds, Versions: a.Versions})
	}
	if v := o.GroupVersionKind().Version; v != "v1beta1" && v != "v1alpha1" {
		errs = append(errs, warning(o, "/apiVersion", ruleExpansion, fmt.Errorf("Gatekeeper has %s in no version %s: it is taken for v1beta1", expansionKind, v)))
	}
	t.check(add)
	if broken(errs) {
		return nil, errs
	}
	return t, errs
}

// check finds what Gatekeeper refuses in a template.
func (t *expansionTemplate) check(add func(pointer, format string, args ...any)) {
	if t.name == "" {
		add("/metadata", "has no name")
	}
	if len(t.name) > maxName {
		add("/metadata/name", "the name must be shorter than %d characters", maxName+1)
	}
	if t.source == "" {
		add("/spec/templateSource", "templateSource is required: the field that objects are made from, such as spec.template")
	}
	if t.generates == (schema.GroupVersionKind{}) {
		add("/spec/generatedGVK", "generatedGVK is required: what is made, such as version v1 and kind Pod")
	}
	if len(t.appliesTo) == 0 {
		add("/spec/applyTo", "applyTo is required: it says which kinds are expanded")
	}
	for i := range t.appliesTo {
		if t.appliesTo[i].kind(t.generates) {
			add("/spec"+render.Pointer("applyTo", i), "it generates %s, and applies to that too", t.generates.Kind)
		}
	}
}

func (t *expansionTemplate) concerns(gvk schema.GroupVersionKind) bool {
	return slices.ContainsFunc(t.appliesTo, func(a applyTo) bool { return a.kind(gvk) })
}

// pointer leads to the source field.
func (t *expansionTemplate) pointer() string {
	var b strings.Builder
	for part := range strings.SplitSeq(t.source, ".") {
		b.WriteString(render.Pointer(part))
	}
	return b.String()
}

// implied is a message about what was made by the template.
func (t *expansionTemplate) implied(message string) string {
	return "[Implied by " + t.name + "] " + message
}

// broken is the response if the template can't be applied to an object; what
// it was to be made from stands at the pointer.
func (t *expansionTemplate) broken(err error, pointer string) policy.Result {
	return policy.Result{
		Engine: policy.EngineGatekeeper, Policy: t.name, Rule: expansionKind, Outcome: policy.Error, Action: policy.Deny,
		Message: policy.ShortError(err).Error(), Fields: []string{pointer + t.pointer()}, PolicyOrigin: t.object.Span("/spec/templateSource"),
	}
}

func namesOf(templates []*expansionTemplate) string {
	names := make([]string, len(templates))
	for i, t := range templates {
		names[i] = t.name
	}
	return strings.Join(names, ", ")
}

// circles lists the templates that lead back to themselves, with those by
// which they do (the strongly connected components, after Tarjan).
func (e *expansions) circles(all []*expansionTemplate) [][]*expansionTemplate {
	f := &circleFinder{expansions: e, index: map[*expansionTemplate]int{}, low: map[*expansionTemplate]int{}, open: map[*expansionTemplate]bool{}}
	for _, t := range all {
		if f.index[t] == 0 {
			f.visit(t)
		}
	}
	return f.circles
}

type circleFinder struct {
	*expansions
	index, low map[*expansionTemplate]int // from 1, in the order of visits
	open       map[*expansionTemplate]bool
	stack      []*expansionTemplate
	circles    [][]*expansionTemplate
}

func (f *circleFinder) visit(t *expansionTemplate) {
	f.index[t] = len(f.index) + 1
	f.low[t] = f.index[t]
	f.stack = append(f.stack, t)
	f.open[t] = true
	for _, next := range f.byKind[t.generates.Kind] {
		switch {
		case !next.concerns(t.generates):
		case f.index[next] == 0:
			f.visit(next)
			f.low[t] = min(f.low[t], f.low[next])
		case f.open[next]:
			f.low[t] = min(f.low[t], f.index[next])
		}
	}
	if f.low[t] == f.index[t] {
		f.close(t)
	}
}

// close takes a component off the stack.
func (f *circleFinder) close(t *expansionTemplate) {
	from := slices.Index(f.stack, t)
	circle := slices.Clone(f.stack[from:])
	f.stack = f.stack[:from]
	for _, o := range circle {
		f.open[o] = false
	}
	if len(circle) > 1 {
		slices.SortFunc(circle, func(a, b *expansionTemplate) int { return strings.Compare(a.name, b.name) })
		f.circles = append(f.circles, circle)
	}
}
