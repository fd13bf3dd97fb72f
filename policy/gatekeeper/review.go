package gatekeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
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

// Values that are unknown offline. A verdict is undecided only if its policy
// reads one.

// Fields of input.review whose values are unknown.
const (
	userField      = "userInfo"
	optionsField   = "options"
	namespaceField = "namespaceObject"
)

var needsUser, needsOptions = strings.TrimPrefix(policy.NeedsUser, "needs "), strings.TrimPrefix(policy.NeedsOptions, "needs ")

// userOpen reports whether the user of the request is unknown.
func (r *review) userOpen() bool { return !r.userKnown && !r.engine.options.Written }

// optionsOpen reports whether the options of the request are unknown: those of any that an API
// server gets.
func (r *review) optionsOpen() bool {
	return r.fields[optionsField] != nil && !r.engine.options.Written
}

// namespaceOpen reports whether the object's namespace is unknown.
func (r *review) namespaceOpen() bool {
	return r.namespace != nil && !r.namespace.Known && !r.engine.options.Written
}

func (r *review) needsNamespace() string {
	return fmt.Sprintf("to know namespace %s: give the Namespace with --with", r.namespace.Name)
}

// openPlaces returns the unknown fields of the input that Rego code may read.
func (r *review) openPlaces(code *regoCode) []rego.Open {
	var places []rego.Open
	if !code.opens {
		return nil
	}
	if r.optionsOpen() {
		places = append(places, rego.Open{Path: []string{"review", optionsField}, Needs: needsOptions})
	}
	if r.userOpen() {
		places = append(places, rego.Open{Path: []string{"review", userField}, Needs: needsUser})
	}
	if r.namespaceOpen() {
		places = append(places, rego.Open{Path: []string{"review", namespaceField}, Needs: r.needsNamespace()})
	}
	return places
}

// open returns a CEL value that is unknown. Reading any part of it records
// needs as a question and fails.
func (r *review) open(needs string) *cel.Partial {
	return &cel.Partial{Ask: func() ref.Val {
		r.questions.Add(needs)
		return types.NewErr("needs %s", needs)
	}}
}

// secret reports whether policies see a Secret.
func (r *review) secret() bool {
	return !r.engine.options.Written && r.kind.Kind == "Secret" && r.kind.Group == ""
}

// secrets returns the Secrets that a constraint can read: the object itself and
// those in data.inventory. For gator's tests it returns none.
func (r *review) secrets(c *constraint) rego.Secrets {
	if r.engine.options.Written {
		return nil
	}
	var secrets rego.Secrets
	if r.secret() {
		secrets = append(secrets, r.object, r.old)
	}
	if use := c.inventory(); use != nil && (use.all || use.kinds["Secret"]) {
		secrets = append(secrets, r.engine.inventory.secrets()...)
	}
	return secrets
}

// hide removes text from responses that quotes the values of a Secret.
func (r *review) hide(c *constraint, all []Response) []Response {
	secrets := r.secrets(c)
	if len(secrets) == 0 {
		return all
	}
	for i := range all {
		x := &all[i]
		x.Details, x.Message = nil, secrets.Hide(x.Message)
		x.Fields, x.literals = secrets.Fields(r.subject(), x.Fields), nil
	}
	return all
}

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
