package gatekeeper

import (
	"context"
	"maps"

	"github.com/open-policy-agent/opa/v1/ast"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// A review holds the input of all policies for one request. It is not safe for
// concurrent use (gatekeeper/v3/pkg/target).
type review struct {
	ctx         context.Context
	engine      *Engine
	unit        *render.Unit
	object, old map[string]any // nil where there is none
	kind        schema.GroupVersionKind
	operation   string
	namespace   *document.Namespace // nil for an object without one
	source      document.Source
	fields      map[string]any // of input.review, except the objects and the namespace
	userKnown   bool
	request     *policy.Request // nil in gator's tests

	term      *ast.Term // input.review
	inside    rego.Inside
	before    *rego.Data // data.inventory
	native    nativeReview
	questions cel.Questions // unknown values that CEL read
	exemption exemption     // why policies don't evaluate it
}

// reviewOf returns the review of a request, as the webhook builds it.
func (e *Engine) reviewOf(ctx context.Context, req *policy.Request) *review {
	r := &review{
		ctx: ctx, engine: e, unit: req.Subject().Unit, object: req.Admitted, old: req.OldAdmitted,
		kind: req.Kind, operation: string(req.Operation), source: document.SourceOriginal, request: req,
	}
	r.userKnown = req.UserInfo.Known()
	if req.Resource.Namespaced {
		r.namespace = e.namespaceOf(r.unit, req.Namespace)
	}
	r.fields = requestFields(req)
	r.exemption = e.exempts(processWebhook, e.webhookRequest(req, r.namespace))
	return r
}

// requestFields returns the fields of an AdmissionRequest as JSON. Like
// Gatekeeper it leaves out the namespace of a Namespace.
func requestFields(req *policy.Request) map[string]any {
	fields := req.Fields(req.Version())
	if !req.Resource.Namespaced {
		delete(fields, "namespace")
	}
	return fields
}

// namespaceOf returns the known facts of a namespace.
func (e *Engine) namespaceOf(unit *render.Unit, name string) *document.Namespace {
	if name == "" {
		return nil
	}
	ns := &document.Namespace{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}
	if o := e.options.Cluster.Namespace(unit, name); o != nil {
		ns.Object, ns.Known = o, true
		maps.Copy(ns.Labels, o.GetLabels())
		ns.Labels[corev1.LabelMetadataName] = name // the API server overwrites the manifest's value
	}
	return ns
}

// subject returns the object under review.
func (r *review) subject() map[string]any {
	if r.object != nil {
		return r.object
	}
	return r.old
}

// matchables returns the new and the old object for match blocks. A match block
// need match only one of them.
func (r *review) matchables() []document.Matchable {
	var all []document.Matchable
	for _, o := range []map[string]any{r.object, r.old} {
		if o != nil {
			all = append(all, document.Matchable{Object: o, Namespace: r.namespace, Source: r.source, Written: r.engine.options.Written})
		}
	}
	return all
}

// matches reports whether a match block matches the review.
func (r *review) matches(m *document.Match) (bool, error) {
	if m == nil {
		return true, nil
	}
	var undecided error
	for _, x := range r.matchables() {
		matched, err := m.Matches(&x)
		if matched || err != nil && r.engine.options.Written {
			return matched, err
		}
		if err != nil {
			undecided = err
		}
	}
	return false, undecided
}

// input returns input.review. On DELETE its object is the old one.
func (r *review) input() *ast.Term {
	if r.term != nil {
		return r.term
	}
	pairs := make([][2]*ast.Term, 0, len(r.fields)+3)
	add := func(key string, value *ast.Term) {
		pairs = append(pairs, [2]*ast.Term{ast.StringTerm(key), value})
	}
	for k, v := range r.fields {
		add(k, overJSON.term(v))
	}
	var old *ast.Term
	if r.old != nil {
		old = overJSON.term(r.old)
	}
	switch {
	case r.operation == string(policy.Delete) && old != nil:
		add("object", old)
	case r.object != nil:
		add("object", overJSON.term(r.object))
	default:
		add("object", ast.NullTerm())
	}
	if old == nil {
		old = ast.NullTerm()
	}
	add("oldObject", old)
	add("namespaceObject", overJSON.term(r.namespaceFields()))
	r.term = ast.NewTerm(ast.NewObject(pairs...))
	return r.term
}

// namespaceFields returns the namespace's fields as Gatekeeper passes them: an
// empty object if there is none.
func (r *review) namespaceFields() map[string]any {
	if r.namespace == nil || r.namespace.Object == nil || r.engine.options.Written {
		return map[string]any{}
	}
	return cel.NamespaceTree(r.namespace.Object, r.namespace.Name)
}
