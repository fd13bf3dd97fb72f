package gatekeeper

import (
	"errors"
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/mutator"
	"github.com/preadmit/preadmit/render"
)

// readExpansions reads the expansion templates among the objects, and the
// mutators that apply to created objects. Errors of mutators are returned only
// for gator; otherwise NewMutating reports them.
func (e *Engine) readExpansions(objects []*render.Object) []error {
	m, broken := mutator.New(objects)
	if !e.options.Written {
		broken = nil
	}
	var err error
	e.expansions, err = newExpansions(objects, m)
	return []error{broken, err}
}

// PolicyOrigin returns the place of an expansion template, or of a mutator of the
// objects that it creates. Rules does not list these.
func (e *Engine) PolicyOrigin(id string) render.Span {
	if e.expansions == nil {
		return render.Span{}
	}
	for _, templates := range e.expansions.byKind {
		for _, t := range templates {
			if t.id() == id {
				return t.object.Span("")
			}
		}
	}
	for _, m := range e.expansions.mutators.Applied {
		if m.ID == id {
			return m.Rule().Origin
		}
	}
	return render.Span{}
}

// validateImplied evaluates the objects that a controller will create from the request's
// object. Its results name the fields that they are created from. Constraints that hold
// are left out: own has the responses to the object itself.
func (e *Engine) validateImplied(r *review, own []Response) ([]policy.Result, error) {
	responses, results, err := e.implied(r)
	if err != nil {
		return nil, err
	}
	seen := map[*constraint]bool{}
	for i := range own {
		seen[own[i].constraint] = true
	}
	for i := range responses {
		resp := &responses[i]
		if resp.Outcome == policy.Pass && seen[resp.constraint] {
			continue
		}
		seen[resp.constraint] = true
		result := resp.result()
		if resp.override != "" {
			result.Action = actionOf(resp.override)
		}
		results = append(results, result)
	}
	return results, nil
}

// reviewImplied is validateImplied for gator. gator does not
// review an object if some expansion fails, and does not expand the object of
// an AdmissionReview.
func (e *Engine) reviewImplied(r *review, o *render.Object) ([]Response, error) {
	if o.GetKind() == "AdmissionReview" {
		return nil, nil
	}
	responses, broken, err := e.implied(r)
	if len(broken) > 0 && err == nil {
		err = errors.New(broken[0].Message)
	}
	return responses, err
}

// implied returns the responses to the objects that will be created from the review's
// object, and a result for each that can't be created.
func (e *Engine) implied(r *review) ([]Response, []policy.Result, error) {
	if e.expansions == nil || r.exemption.why != "" && !r.exemption.open {
		return nil, nil, nil
	}
	x := document.Matchable{Object: r.subject(), Namespace: r.expandedIn(), Source: r.source, Written: e.options.Written}
	made, results, err := e.expansions.expand(r.ctx, x)
	if err != nil {
		return nil, nil, err
	}
	var all []Response
	for i := range made {
		responses, err := e.respond(r.of(&made[i]))
		if err != nil {
			return nil, nil, err
		}
		for _, resp := range responses {
			all = append(all, made[i].respond(resp))
		}
	}
	return all, results, nil
}

// expandedIn returns the namespace of the created objects. gator assumes there that an
// object without a namespace has none, and that the namespace default has no labels.
func (r *review) expandedIn() *document.Namespace {
	switch ns := r.namespace; {
	case !r.engine.options.Written:
	case ns == nil:
		return &document.Namespace{Known: true}
	case ns.Name == "default" && !ns.Known:
		return &document.Namespace{Name: ns.Name, Known: true}
	}
	return r.namespace
}

// of returns the review of a created object. Its user is unknown.
func (r *review) of(x *expanded) *review {
	kind := x.template.generates
	made := &review{
		ctx: r.ctx, engine: r.engine, unit: r.unit, kind: kind, operation: r.operation,
		namespace: r.namespace, source: document.SourceGenerated, userKnown: true, exemption: r.exemption,
	}
	if made.object = x.Object; r.operation == string(policy.Delete) {
		made.object, made.old = nil, x.Object
	}
	made.fields = map[string]any{
		"uid": "", "operation": r.operation, "userInfo": map[string]any{}, "options": nil,
		"kind":     map[string]any{"group": kind.Group, "version": kind.Version, "kind": kind.Kind},
		"resource": map[string]any{"group": "", "version": "", "resource": ""},
		"name":     document.MetaText(x.Object, "name"),
	}
	if ns := document.MetaText(x.Object, "namespace"); ns != "" {
		made.fields["namespace"] = ns
	}
	return made
}

// respond converts a response about the created object to one about the object
// that it is created from.
func (e *expanded) respond(resp Response) Response {
	if resp.Message != "" {
		resp.Message = e.template.implied(resp.Message)
	}
	resp.Assumed = slices.Concat(resp.Assumed, e.assumptions(resp.Fields))
	if resp.Fields = e.pointers(resp.Fields); len(resp.Fields) == 0 {
		resp.Fields = []string{e.prefix}
	}
	if e.template.action != "" {
		resp.Actions, resp.override = []string{e.template.action}, e.template.action
	}
	return resp
}
