package gatekeeper

import (
	"context"
	"errors"
	"maps"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/render"
)

// A Review is an object for gator to review.
type Review struct {
	// Object is the object to review, as written, or an AdmissionReview
	// (admission.k8s.io) whose request is reviewed.
	Object *render.Object

	// Namespace is the object's Namespace. If it is nil, it is looked up in
	// Options.Cluster.
	Namespace *render.Object

	// Passes also returns responses of matching constraints that hold.
	Passes bool
}

// Review evaluates the constraints for an object as gator does, which uses the
// object as written. It returns only violations, undecided responses and errors,
// by kind and name of the constraints. The engine's Options must have Written set
// and PointGator. [Engine.With] sets the inventory of each case. Review fails if
// gator would not review the object.
func (e *Engine) Review(ctx context.Context, x Review) ([]Response, error) {
	r, err := e.writtenReview(ctx, x)
	if err != nil {
		return nil, err
	}
	all, err := e.respond(r)
	if err == nil {
		var implied []Response
		implied, err = e.reviewImplied(r, x.Object)
		all = append(all, implied...)
	}
	var reported []Response
	for _, resp := range all {
		skipped := resp.Outcome == policy.Skip || resp.ignored
		if !skipped && (resp.Outcome != policy.Pass || x.Passes) {
			reported = append(reported, resp)
		}
	}
	return reported, err
}

// Violation reports whether gator and Gatekeeper's webhook count the response
// as a violation. Errors of a template in CEL count too, unless its
// failurePolicy is Ignore.
func (r *Response) Violation() bool {
	if r.Outcome == policy.Error && r.constraint != nil {
		return r.constraint.template.native != nil && !r.ignored
	}
	return r.Outcome == policy.Fail
}

func (e *Engine) writtenReview(ctx context.Context, x Review) (*review, error) {
	r := &review{ctx: ctx, engine: e, unit: x.Object.Unit, source: document.SourceOriginal, userKnown: true}
	gvk := x.Object.GroupVersionKind()
	if gvk.Group == "admission.k8s.io" && gvk.Kind == "AdmissionReview" {
		if err := r.admission(x.Object.Object); err != nil {
			return nil, err
		}
	} else {
		r.object, r.kind = x.Object.Object, gvk
		r.fields = map[string]any{
			"uid": "", "operation": "", "userInfo": map[string]any{}, "options": nil,
			"kind":     map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind},
			"resource": map[string]any{"group": "", "version": "", "resource": ""},
		}
		for key, value := range map[string]string{"name": x.Object.GetName(), "namespace": x.Object.GetNamespace()} {
			if value != "" {
				r.fields[key] = value
			}
		}
	}
	name, _ := r.fields["namespace"].(string)
	r.namespace = e.namespaceOf(r.unit, name)
	if x.Namespace != nil {
		r.namespace = &document.Namespace{Name: x.Namespace.GetName(), Labels: x.Namespace.GetLabels(), Known: true, Object: x.Namespace}
	}
	return r, nil
}

// admission reads the request of an AdmissionReview. Missing fields get Go's zero
// values.
func (r *review) admission(tree map[string]any) error {
	request, ok := tree["request"].(map[string]any)
	if !ok {
		return errors.New("the AdmissionReview has no request")
	}
	r.object, _ = request["object"].(map[string]any)
	r.old, _ = request["oldObject"].(map[string]any)
	if r.object == nil && r.old == nil {
		return errors.New("the AdmissionReview's request has neither an object nor an oldObject")
	}
	r.operation, _ = request["operation"].(string)
	if r.operation == string(policy.Delete) && r.old == nil {
		return errors.New("oldObject cannot be nil for DELETE operations")
	}
	none := map[string]any{"group": "", "version": "", "kind": ""}
	r.fields = map[string]any{
		"uid": "", "operation": "", "userInfo": map[string]any{}, "options": nil,
		"kind": none, "resource": map[string]any{"group": "", "version": "", "resource": ""},
	}
	maps.Copy(r.fields, request)
	delete(r.fields, "object")
	delete(r.fields, "oldObject")
	r.kind.Kind, _ = asMap(request["kind"])["kind"].(string)
	r.kind.Group, _ = asMap(request["kind"])["group"].(string)
	r.kind.Version, _ = asMap(request["kind"])["version"].(string)
	return nil
}

func asMap(x any) map[string]any {
	m, _ := x.(map[string]any)
	return m
}
