package gatekeeper

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/mutator"
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

// An expansionTemplate is a parsed ExpansionTemplate. It is read-only.
type expansionTemplate struct {
	object    *render.Object
	name      string
	appliesTo []document.ApplyTo
	source    string // the field that objects are made from, such as spec.template
	generates schema.GroupVersionKind
	action    string // enforcement action; "" means the constraint's
}

// expansionSpec is the spec of an expansion template.
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

// newExpansions reads the expansion templates among the objects. The error joins
// *render.Error values; templates without errors are used.
func newExpansions(objects []*render.Object, m *mutator.Set) (*expansions, error) {
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
			errs = append(errs, policy.ErrorAt(t.object, "/spec/generatedGVK", "expansion-cycle", fmt.Errorf("expansion is circular by way of %s: none of them is applied", namesOf(circle))))
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

// withExpansionTemplate adds a template. If templates with one name differ, the
// first is used.
func withExpansionTemplate(all []*expansionTemplate, t *expansionTemplate) ([]*expansionTemplate, []error) {
	i := slices.IndexFunc(all, func(o *expansionTemplate) bool { return o.name == t.name })
	switch {
	case i < 0:
		return append(all, t), nil
	case !document.Equal(all[i].object, t.object):
		return all, []error{policy.ErrorAt(t.object, "/metadata/name", ruleExpansion, document.OtherOf(expansionKind, t.name, all[i].object))}
	}
	return all, nil
}

const ruleExpansion = "expansion-template"

// newExpansionTemplate reads a template. It returns nil if an error is more than
// a warning. Errors are *render.Error.
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
	if errs = document.Decode(o, "/spec", written, &spec, ruleExpansion); document.Broken(errs) {
		return nil, errs
	}
	t := &expansionTemplate{object: o, name: o.GetName(), source: spec.TemplateSource, action: spec.EnforcementAction}
	t.generates = schema.GroupVersionKind(spec.GeneratedGVK)
	for _, a := range spec.ApplyTo {
		t.appliesTo = append(t.appliesTo, document.ApplyTo{Groups: a.Groups, Kinds: a.Kinds, Versions: a.Versions})
	}
	if v := o.GroupVersionKind().Version; v != "v1beta1" && v != "v1alpha1" {
		errs = append(errs, document.Warning(o, "/apiVersion", ruleExpansion, fmt.Errorf("%s has no version %s in Gatekeeper: it is read as v1beta1", expansionKind, v)))
	}
	t.check(add)
	if document.Broken(errs) {
		return nil, errs
	}
	return t, errs
}

func (e *expansionTemplate) id() string { return expansionKind + " " + e.name }

// check performs Gatekeeper's validation of an expansion template.
func (e *expansionTemplate) check(add func(pointer, format string, args ...any)) {
	if e.name == "" {
		add("/metadata", "has no name")
	}
	if len(e.name) > document.MaxName {
		add("/metadata/name", "the name must be shorter than %d characters", document.MaxName+1)
	}
	if e.source == "" {
		add("/spec/templateSource", "templateSource is required: the field that objects are made from, such as spec.template")
	}
	if e.generates == (schema.GroupVersionKind{}) {
		add("/spec/generatedGVK", "generatedGVK is required: the kind to create, such as version v1 and kind Pod")
	}
	if len(e.appliesTo) == 0 {
		add("/spec/applyTo", "applyTo is required: the kinds to expand")
	}
	for i := range e.appliesTo {
		if e.appliesTo[i].HasKind(e.generates) {
			add("/spec"+render.Pointer("applyTo", i), "it generates %s, and applies to that too", e.generates.Kind)
		}
	}
}

func (e *expansionTemplate) concerns(gvk schema.GroupVersionKind) bool {
	return slices.ContainsFunc(e.appliesTo, func(a document.ApplyTo) bool { return a.HasKind(gvk) })
}

// pointer returns the pointer of the source field.
func (e *expansionTemplate) pointer() string {
	var b strings.Builder
	for part := range strings.SplitSeq(e.source, ".") {
		b.WriteString(render.Pointer(part))
	}
	return b.String()
}

// implied marks a message as being about an object that the template creates.
func (e *expansionTemplate) implied(message string) string {
	return "[Implied by " + e.name + "] " + message
}

// broken returns the result if the template can't be applied to an object.
// pointer is the source of the created object.
func (e *expansionTemplate) broken(err error, pointer string) policy.Result {
	return policy.Result{
		Engine: policy.EngineGatekeeper, Policy: e.name, Rule: expansionKind, Outcome: policy.Error, Action: policy.Deny,
		Message: policy.ShortError(err).Error(), Fields: []string{pointer + e.pointer()}, PolicyOrigin: e.object.Span("/spec/templateSource"),
	}
}

func namesOf(templates []*expansionTemplate) string {
	names := make([]string, len(templates))
	for i, t := range templates {
		names[i] = t.name
	}
	return strings.Join(names, ", ")
}

// circles returns the templates that form cycles, grouped by cycle (strongly
// connected components, after Tarjan).
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

func (c *circleFinder) visit(t *expansionTemplate) {
	c.index[t] = len(c.index) + 1
	c.low[t] = c.index[t]
	c.stack = append(c.stack, t)
	c.open[t] = true
	for _, next := range c.byKind[t.generates.Kind] {
		switch {
		case !next.concerns(t.generates):
		case c.index[next] == 0:
			c.visit(next)
			c.low[t] = min(c.low[t], c.low[next])
		case c.open[next]:
			c.low[t] = min(c.low[t], c.index[next])
		}
	}
	if c.low[t] == c.index[t] {
		c.close(t)
	}
}

// close takes a component off the stack.
func (c *circleFinder) close(t *expansionTemplate) {
	from := slices.Index(c.stack, t)
	circle := slices.Clone(c.stack[from:])
	c.stack = c.stack[:from]
	for _, o := range circle {
		c.open[o] = false
	}
	if len(circle) > 1 {
		slices.SortFunc(circle, func(a, b *expansionTemplate) int { return strings.Compare(a.name, b.name) })
		c.circles = append(c.circles, circle)
	}
}
