// Package policy answers what an API server would say to the rendered objects.
//
// [Requests] makes admission [Request]s of rendered objects. A [Chain] takes them
// through the engines, mutators before validators, as the API server does, and
// returns [Result]s: plain data with the rule, the object, the outcome and the
// lines concerned. Each child package is one engine. Engines return JSON pointers
// of the object ([Result.Fields]), never a file or a line; the chain turns pointers
// into places.
//
// compare.go, reapply.go and prune.go handle a change from a base, explanation.go
// the steps of a decision, history.go the fields that mutators set, suppress.go
// the failures that people accept.
package policy

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// An Operation is what a request does, in the words of admission.k8s.io.
type Operation string

// The operations that a change of a tree leads to.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
	Delete Operation = "DELETE"
)

// A Request is one admission request, provenance kept.
type Request struct {
	Operation   Operation
	Object      *render.Object // nil on DELETE
	OldObject   *render.Object // nil on CREATE
	SubResource string
	UserInfo    UserInfo
	DryRun      bool

	// What follows is set by Chain.Review from its Kinds, and read-only.

	Kind      schema.GroupVersionKind
	Resource  Resource
	Namespace string // of the request: "" for cluster-scoped objects
	Name      string // "" when the API server would generate it
	// Admitted and OldAdmitted are the objects as the API server holds them:
	// typed, defaulted, namespace filled in. nil as Object and OldObject are.
	Admitted, OldAdmitted map[string]any
}

// Subject is the object that the request is about: the new one, or the old
// one of a DELETE.
func (r *Request) Subject() *render.Object {
	if r.Object != nil {
		return r.Object
	}
	return r.OldObject
}

// Fields are those of an AdmissionRequest in JSON, as a policy sees it that is
// about a version, but for the objects. What is empty is left out.
func (r *Request) Fields(as Version) map[string]any {
	fields := map[string]any{
		"uid": "", "kind": kindFields(as.Kind), "resource": resourceFields(as.Resource),
		"requestKind": kindFields(r.Kind), "requestResource": resourceFields(r.Resource.GroupVersionResource),
		"operation": string(r.Operation), "userInfo": r.UserInfo.Fields(), "dryRun": r.DryRun,
		"options": map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": r.Operation.options()},
	}
	for key, value := range map[string]string{
		"name": r.Name, "namespace": r.Namespace, "subResource": r.SubResource, "requestSubResource": r.SubResource,
	} {
		if value != "" {
			fields[key] = value
		}
	}
	return fields
}

// options is the kind of an operation's options.
func (o Operation) options() string {
	switch o {
	case Create:
		return "CreateOptions"
	case Update:
		return "UpdateOptions"
	case Delete:
		return "DeleteOptions"
	}
	return ""
}

func kindFields(k schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

func resourceFields(r schema.GroupVersionResource) map[string]any {
	return map[string]any{"group": r.Group, "version": r.Version, "resource": r.Resource}
}

// Version is the version in which the request was made.
func (r *Request) Version() Version {
	return Version{Resource: r.Resource.GroupVersionResource, Kind: r.Kind}
}

// UserInfo is who makes the request, as in authentication.k8s.io/v1.
type UserInfo struct {
	Username string
	UID      string
	Groups   []string
	Extra    map[string][]string
}

// Known says whether anything is known of the user.
func (u *UserInfo) Known() bool {
	return u.Username != "" || u.UID != "" || len(u.Groups) > 0 || len(u.Extra) > 0
}

// Fields are what is known of the user as the field userInfo of a request has
// it: what is empty is left out.
func (u *UserInfo) Fields() map[string]any {
	fields := map[string]any{}
	if u.Username != "" {
		fields["username"] = u.Username
	}
	if u.UID != "" {
		fields["uid"] = u.UID
	}
	if len(u.Groups) > 0 {
		fields["groups"] = Anys(u.Groups)
	}
	if len(u.Extra) > 0 {
		extra := map[string]any{}
		for k, v := range u.Extra {
			extra[k] = Anys(v)
		}
		fields["extra"] = extra
	}
	return fields
}

// Anys returns the strings as a list of a JSON value.
func Anys(list []string) []any {
	all := make([]any, len(list))
	for i, s := range list {
		all[i] = s
	}
	return all
}

// A Resource is what a kind is called in the API server's paths.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
	Known      bool // false: neither built in nor defined by a CRD; the name is a guess
}

// Kinds knows the kinds that the API server serves: the built-in ones and
// those of CustomResourceDefinitions. It is safe for concurrent use.
type Kinds interface {
	// Resource tells what the kind is called and whether it is namespaced.
	// For an unknown kind it guesses, and Known is false.
	Resource(schema.GroupVersionKind) Resource

	// Admit returns the object as the API server holds it: decoded into its
	// type, defaulted, in the given namespace (for a namespaced object that
	// names none). The result shares nothing with o. The error says, as the
	// API server does, why it can't be decoded; Fields of a *FieldError are
	// the pointers at fault. One that unwraps to several is about as many
	// fields.
	Admit(o *render.Object, namespace string) (map[string]any, error)

	// Equivalent lists the other resources that serve the same objects, such
	// as deployments in extensions/v1beta1, with their kinds.
	Equivalent(schema.GroupVersionResource) []Version

	// Convert returns an admitted object in another version of its kind.
	Convert(admitted map[string]any, to schema.GroupVersionKind) (map[string]any, error)
}

// A Version is one of the resources by which the same objects are served.
type Version struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
}

// A FieldError is an error about fields of an object.
type FieldError struct {
	Fields []string // JSON pointers
	Err    error

	NotServed bool // the API server has no such kind or version: it refuses the request before any policy
}

func (e *FieldError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// A Validator judges requests by policies that it compiled once. It is safe
// for concurrent use and does not change the request.
type Validator interface {
	// Validate returns what each rule that matches says. It sets Engine,
	// Policy, Rule, Outcome, Action, Message, Fields, PolicyOrigin, Severity
	// and Assumed; the chain sets the rest. What can't be decided is a
	// result, not an error: the error is for cancellation and bugs.
	Validate(context.Context, *Request) ([]Result, error)

	// Rules documents every rule it would apply, in stable order.
	Rules() []Rule
}

// A WrittenValidator also judges objects that the API server refuses because it
// does not serve their version, as they are written: its policies may be about
// just that. Request.Admitted is what is written then.
type WrittenValidator interface {
	Validator
	JudgesWritten()
}
