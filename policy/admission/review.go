package admission

import (
	"context"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

// A review is the evaluation of one request. It holds the variables of
// expressions, which are built once for all policies. It is not safe for
// concurrent use.
type review struct {
	ctx       context.Context
	engine    *Engine
	req       *policy.Request
	subject   match.Review
	namespace string        // of subject
	userKnown bool          // even if fields of it are empty
	questions cel.Questions // of the running expression
	assume    string        // the assumption behind the authorizer's answers

	run             run
	room            []verdict       // buffer for the verdicts of one policy
	free            []verdict       // unused part of room
	evaluated       []paramVerdicts // of the policy under evaluation, by parameter
	objects         cel.Objects
	requests        cel.Requests
	namespaceLooked bool
	namespaceKnown  *frozenNamespace
	namespaceValue  ref.Val
	authorizer      ref.Val
	resource        ref.Val
}

// verdicts returns space for the verdicts of a policy. They are valid until the
// next policy is evaluated.
func (r *review) verdicts(n int) []verdict {
	if n > len(r.free) {
		r.room = make([]verdict, max(n, 2*len(r.room)))
		r.free = r.room
	}
	vs := r.free[:n:n]
	r.free = r.free[n:]
	return vs
}

func newReview(ctx context.Context, e *Engine, req *policy.Request) *review {
	r := &review{ctx: ctx, engine: e, req: req, subject: match.NewReview(req, e.options.Cluster, e.options.Kinds)}
	r.namespace = r.subject.Namespace
	r.objects = cel.Objects{Request: req, Kinds: e.options.Kinds}
	if r.typed() {
		r.objects.Typed = builtIn
	}
	r.run.review, r.run.act.review = r, r
	r.run.act.variables = cel.NewVariables(&cel.Names{}, &r.questions, r.run.variable)
	return r
}

// typed reports whether objects of built-in kinds, the request and its namespace are read as
// [cel.FreezeTyped] says.
func (r *review) typed() bool { return r.engine.reflects && !r.engine.family.changes }

// builtIn reports whether the API server has a Go type for a kind.
func builtIn(kind schema.GroupVersionKind) bool {
	return scheme.Scheme.Recognizes(kind) || kind.Group == "apiextensions.k8s.io" || kind.Group == "apiregistration.k8s.io"
}

// namespaceVar returns the `namespaceObject` variable: null for a
// cluster-scoped object, and a partial value if the namespace is unknown.
func (r *review) namespaceVar() ref.Val {
	if r.namespaceValue == nil {
		switch known := r.knownNamespace(); {
		case !r.inNamespace():
			r.namespaceValue = types.NullValue
		case known != nil:
			r.namespaceValue = known.value
		default:
			r.namespaceValue = r.askNamespace()
		}
	}
	return r.namespaceValue
}

func (r *review) inNamespace() bool {
	return r.namespace != "" && (r.req.Kind != corev1.SchemeGroupVersion.WithKind("Namespace"))
}

// A frozenNamespace is the CEL value of a namespace, built once for all
// requests in it.
type frozenNamespace struct {
	value ref.Val
}

// knownNamespace returns the request's namespace, or nil if it is unknown or
// there is none.
func (r *review) knownNamespace() *frozenNamespace {
	if r.namespaceLooked {
		return r.namespaceKnown
	}
	r.namespaceLooked = true
	if o := r.subject.NamespaceObject(); o != nil && r.inNamespace() {
		r.namespaceKnown = r.engine.namespace(o, r.namespace)
	}
	return r.namespaceKnown
}

// A namespaceKey identifies a Namespace and the name under which it was looked
// up.
type namespaceKey struct {
	object *render.Object
	name   string
}

func (e *Engine) namespace(o *render.Object, name string) *frozenNamespace {
	key := namespaceKey{o, name}
	if n, ok := e.frozen.Load(key); ok {
		return n.(*frozenNamespace)
	}
	freeze := cel.Freeze
	if e.reflects && !e.family.changes {
		freeze = cel.FreezeTyped
	}
	value := freeze(namespaceTree(o, name))
	n, _ := e.frozen.LoadOrStore(key, &frozenNamespace{value})
	return n.(*frozenNamespace)
}

// askNamespace returns the value of a namespace whose name alone is known.
func (r *review) askNamespace() ref.Val {
	return cel.PartialNamespace(r.namespace, func() ref.Val {
		return r.questions.Ask(fmt.Sprintf("needs to know namespace %s: give the Namespace with --with", r.namespace))
	})
}

// namespaceTree returns the fields of a Namespace that the API server shows to policies.
func namespaceTree(o *render.Object, name string) map[string]any {
	tree := cel.NamespaceTree(o, name)
	metadata := tree["metadata"].(map[string]any)
	for _, field := range []string{"managedFields", "ownerReferences", "selfLink"} {
		delete(metadata, field)
	}
	return tree
}

// authorizers returns the `authorizer` variable and its requestResource.
func (r *review) authorizers() (authorizer, resource ref.Val) {
	if r.authorizer == nil {
		r.authorizer, r.resource = cel.AuthorizerValues(r.req, r.namespace, r.req.UserInfo, &questioner{review: r, inner: r.engine.options.Authorizer})
	}
	return r.authorizer, r.resource
}

// requestFields returns the variable `request` for a policy that sees the
// request in the given version
// (k8s.io/apiserver/pkg/admission/plugin/cel.CreateAdmissionRequest).
func (r *review) requestFields(as policy.Version) map[string]any {
	fields := r.req.Fields(as)
	fields["object"], fields["oldObject"] = nil, nil
	if r.namespace != "" {
		fields["namespace"] = r.namespace
	}
	if r.userKnown {
		return fields
	}
	fields["options"] = cel.PartialOptions(fields["options"], func() ref.Val { return r.questions.Ask(policy.NeedsOptions) })
	if !r.req.UserInfo.Known() {
		fields["userInfo"] = &cel.Partial{Ask: func() ref.Val { return r.questions.Ask(policy.NeedsUser) }}
	}
	return fields
}

// exempt reports whether the API server evaluates no policies for a resource.
// These are the resources that configure admission, and reviews, which are not
// stored.
func exempt(resource schema.GroupVersionResource) bool {
	switch resource.Group {
	case group:
		switch resource.Resource {
		case "validatingadmissionpolicies", "validatingadmissionpolicybindings",
			"mutatingadmissionpolicies", "mutatingadmissionpolicybindings":
			return true
		}
	case "authentication.k8s.io":
		return resource.Resource == "tokenreviews" || resource.Resource == "selfsubjectreviews"
	case "authorization.k8s.io":
		switch resource.Resource {
		case "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews":
			return true
		}
	}
	return false
}
