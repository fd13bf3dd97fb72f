// Package policy evaluates rendered objects as an API server would.
//
// [Requests] makes admission [Request]s from rendered objects. A [Chain] passes
// them through the engines, mutators before validators, as the API server does,
// and returns [Result]s: plain data with the rule, the object, the outcome and
// the lines concerned. Each child package is one engine. Engines return JSON
// pointers of the object ([Result.Fields]), never a file or a line; the chain
// turns pointers into places.
//
// compare.go and reapply.go handle a change from a base,
// explanation.go the steps of a decision, history.go the fields that mutators
// set, suppress.go and comments.go the failures that people accept.
//
// The files, besides:
//
//   - chain.go evaluates requests, scope.go those whose kind may be namespaced or not;
//     locate.go finds the places of a result, watch.go limits and times steps
//   - result.go: a result and its identity; passes.go, compact.go: many of them in little memory
//   - cluster.go: the objects that policies look up, and those that are not there
//   - variant.go, gitops.go, encrypted.go: objects that only some
//     installations have, whose deployment is not followed, or that nobody can read
//   - made.go: objects that controllers create; systemfields.go: metadata that the API server sets
//   - ruleuse.go, unmatched.go, finding.go: what a run shows about its policies
//   - coverage.go: what tests show about them; fix.go: a change that makes a rule pass
package policy

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// An Operation is the operation of a request, as in admission.k8s.io.
type Operation string

// The operations of a change.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
	Delete Operation = "DELETE"
)

// A Run says which run of Helm makes a request of a change.
type Run int

// The runs.
const (
	AnyRun     Run = iota // it is not known, or another deployer makes the request
	UpgradeRun            // the upgrade of a release that is on both sides of the change
	OtherRun              // another run about such a release, which the change does not start: a first install, helm test
)

// A Request is one admission request, with the provenance of its objects.
type Request struct {
	Operation   Operation
	Object      *render.Object // nil for a DELETE
	OldObject   *render.Object // nil for a CREATE
	SubResource string
	UserInfo    UserInfo
	DryRun      bool
	Instead     *render.Object // of the base, if this is a CREATE for another version of it: with generateName or another hash in its name, or after its DELETE
	Method      Method         // how the client sends Object
	Run         Run            // of Helm that makes the request
	Recreated   bool           // the object is deleted and created again, under the same name or one with another hash of its content; this is either request
	Unseen      bool           // which version of OldObject is on the cluster is unknown

	// Chain.Review sets the following fields from its Kinds. They are
	// read-only.

	Kind      schema.GroupVersionKind
	Resource  Resource
	Namespace string // the request's namespace; "" for cluster-scoped objects
	Name      string // "" if the API server would generate it
	// Admitted and OldAdmitted are the objects as the API server holds them:
	// typed, defaulted, with their namespace. They are nil if Object and
	// OldObject are.
	Admitted, OldAdmitted map[string]any
	// Typed is a pointer to Admitted in its Go type, as defaulting made it. It is nil
	// if there is none at hand, as after a mutation.
	Typed any
	// OldUnknown reports that the old object can't be decoded or converted to the
	// request's version. OldAdmitted is then as written in the base.
	OldUnknown bool

	// Maker is the request of whose object a controller makes this request, which creates a pod or
	// another object. It is nil for all other requests.
	Maker *Request
	by    product // of Maker's object

	clusterScoped bool // the kind is unknown and assumed to be cluster-scoped
	oldBlank      bool // of an unknown old object, only the name is given
	oldError      error
	refused       error // why the API server refuses to apply the manifest, or nil

	buffer   []Result
	prepared *Prepared
}

// Room returns memory for the results of a Validator: an empty slice to append to and to return.
// Elements beyond its length may not be zero.
func (r *Request) Room() []Result { return r.buffer[:0] }

// A Prepared is the object of a request as the API server prepares it for storage, after mutation.
// The cluster allocates some values, such as addresses. Other is the object with different ones, and so on; it is
// nil if there are none. Differs says what a rule depends on whose verdict is not the same for all of them.
type Prepared struct {
	Admitted    map[string]any
	Typed       any
	OldAdmitted map[string]any // the old object with the same values; nil if the cluster allocated none
	Other       *Prepared
	Differs     string
}

// Prepare gives the validators that run later the prepared object.
func (r *Request) Prepare(p *Prepared) { r.prepared = p }

// Admit returns o as the API server stores it. o replaces the request's new object: on an update, plugins that act
// only on creation do not run.
func (r *Request) Admit(kinds Kinds, o *render.Object) (map[string]any, error) {
	if typed, ok := kinds.(TypedKinds); ok && r.Operation == Update {
		return typed.AdmitUpdate(o, r.Namespace)
	}
	return kinds.Admit(o, r.Namespace)
}

// An alternative is a request with other values of what the cluster sets.
type alternative struct {
	Request
	differs string // what a rule depends on that has another verdict
}

// prepareBy prepares the object by a validator, without validating it, and returns the alternatives.
func (r *Request) prepareBy(p Preparer, h *history) (others []alternative) {
	if p.Prepare(r); r.prepared == nil {
		return nil
	}
	q := r.prepared
	r.prepare(h)
	for o := q.Other; o != nil; o = o.Other {
		other := *r
		other.take(o)
		others = append(others, alternative{other, q.Differs})
	}
	return others
}

// prepare replaces the admitted object by the prepared one.
func (r *Request) prepare(h *history) {
	p := r.prepared
	h.changes = append(h.changes, newChange(r.Admitted, p.Admitted, Result{}))
	r.take(p)
}

// take replaces the objects of a request by prepared ones.
func (r *Request) take(p *Prepared) {
	if r.Admitted, r.Typed, r.prepared = p.Admitted, p.Typed, nil; p.OldAdmitted != nil {
		r.OldAdmitted = p.OldAdmitted
	}
}

// Subject returns the object of the request: the new one, or the old one of a
// DELETE.
func (r *Request) Subject() *render.Object {
	if r.Object != nil {
		return r.Object
	}
	return r.OldObject
}

// Fields returns the fields of the AdmissionRequest, without the objects, as a
// policy for a version sees them in JSON. Empty fields are left out.
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

// options returns the kind of an operation's options.
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

// Version returns the version in which the request was made.
func (r *Request) Version() Version {
	return Version{Resource: r.Resource.GroupVersionResource, Kind: r.Kind}
}

// A Method is the way in which a client sends an object of a manifest.
type Method int

// The methods.
const (
	// Apply is kubectl apply: it changes the fields that differ between the manifest before, the new one and the
	// stored object.
	Apply Method = iota
	// ApplyDifference is Apply, but changes only the fields of a custom resource that differ between the manifests.
	ApplyDifference
	// ApplyServerSide sends the manifest, which the API server merges into the stored object.
	ApplyServerSide
	// ApplyAsData is ApplyServerSide of a Secret, whose stringData the client moves to data.
	ApplyAsData
	// Replace sends the manifest, which replaces the stored object.
	Replace
)

// UserInfo identifies the user of a request, as in authentication.k8s.io/v1.
type UserInfo struct {
	Username string
	UID      string
	Groups   []string
	Extra    map[string][]string
}

// Known reports whether anything is known about the user.
func (u *UserInfo) Known() bool {
	return u.Username != "" || u.UID != "" || len(u.Groups) > 0 || len(u.Extra) > 0
}

// Fields returns the user as in the field userInfo of a request, without empty
// fields.
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

// Anys returns the strings as a list in a JSON value.
func Anys(list []string) []any {
	all := make([]any, len(list))
	for i, s := range list {
		all[i] = s
	}
	return all
}

// A Resource is the name of a kind in the API server's paths.
type Resource struct {
	schema.GroupVersionResource
	Namespaced bool
	Known      bool // whether the kind is built in or its schema is known
	Guessed    bool // the name is a regular plural, which may be wrong, and the scope is unknown
	Unserved   bool // its CustomResourceDefinition does not serve the version
}

// Kinds knows the kinds that the API server serves: the built-in ones and
// those of CustomResourceDefinitions. It is safe for concurrent use.
type Kinds interface {
	// Resource returns the kind's resource name and whether it is namespaced.
	// For an unknown kind it returns ResourceOf.
	Resource(schema.GroupVersionKind) Resource

	// Admit returns the object as the API server holds it: decoded into its
	// type, defaulted, and in the given namespace if it is namespaced and names
	// none. The result shares nothing with o. The error gives the API server's
	// reason for refusing the object; Fields of a *FieldError are the pointers
	// at fault. An error that joins several concerns as many fields.
	Admit(o *render.Object, namespace string) (map[string]any, error)

	// Equivalent returns the other resources that serve the same objects, such
	// as deployments in extensions/v1beta1, with their kinds.
	Equivalent(schema.GroupVersionResource) []Version

	// Convert returns an admitted object in another version of its kind.
	Convert(admitted map[string]any, to schema.GroupVersionKind) (map[string]any, error)
}

// TypedKinds are Kinds that have the Go types of built-in kinds.
type TypedKinds interface {
	Kinds

	// AdmitTyped is Admit, with a pointer to the object in its Go type, or nil.
	AdmitTyped(o *render.Object, namespace string) (held map[string]any, typed any, err error)

	// AdmitUpdate is Admit for an update: plugins that act only on creation do not run.
	AdmitUpdate(o *render.Object, namespace string) (map[string]any, error)

	// Merge returns the object that results if a manifest is applied again, by a method other than Replace: live
	// with the changes from the manifest was to the manifest is. What neither sets stays. There is an error if a
	// client would send an object that lacks a part of the manifest. A *FieldError says why the API server does not
	// merge the manifest. On creation, was and live are nil, and only ApplyServerSide can return an error.
	Merge(by Method, kind schema.GroupVersionKind, was, is, live map[string]any) (map[string]any, error)
}

// A Version is one of the resources that serve the same objects.
type Version struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
}

// A FieldError is an error about fields of an object.
type FieldError struct {
	Fields []string // JSON pointers
	Err    error

	NotServed bool // the API server does not serve the kind or version, and refuses the request before any policy runs
}

func (f *FieldError) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *FieldError) Unwrap() error { return f.Err }

// A Validator evaluates requests by policies that it compiled once. It is safe
// for concurrent use, and changes the request by Request.Prepare alone.
type Validator interface {
	// Validate returns a result for each rule that matches. It sets Engine,
	// Policy, Rule, Outcome, Action, Message, Fields, PolicyOrigin, Severity
	// and Assumed; the chain sets the rest. What can't be decided is a result,
	// not an error. The error is not nil only if ctx is done or there is a bug.
	Validate(context.Context, *Request) ([]Result, error)

	// Rules returns the documentation of every rule, in a stable order.
	Rules() []Rule
}

// A Preparer is a Validator that calls Request.Prepare. It can do so without validating.
type Preparer interface {
	Validator
	Prepare(*Request)
}

// A WrittenValidator also evaluates, as written, objects whose version the API
// server does not serve: its policies may forbid such versions.
// Request.Admitted is then the written object.
type WrittenValidator interface {
	Validator
	EvaluatesWritten()
}
