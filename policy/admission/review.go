package admission

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

// A review is one request under judgement: what the policies read of it, made
// once and shared by all of them. It is not for concurrent use.
type review struct {
	ctx       context.Context
	engine    *Engine
	req       *policy.Request
	namespace string        // as the API server has it: a Namespace is in itself
	whole     bool          // who makes the request is known, also where it says nothing
	questions cel.Questions // of the running expression
	assume    string        // what an answer of the authorizer rests on

	run             run
	room            []verdict // for the validations of one policy
	free            []verdict // of it
	said            []say     // by one policy
	objects         cel.Objects
	shared          []ref.Val // values of variables, by definition
	requests        []requestValue
	namespaceLooked bool
	namespaceKnown  *frozenNamespace
	namespaceValue  ref.Val
	equivalent      []policy.Version
	hasEquivalent   bool
	authorizer      ref.Val
	resource        ref.Val
}

// verdicts makes room for those of a policy's validations. They are good until
// the next policy is judged.
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
	r := &review{ctx: ctx, engine: e, req: req, namespace: req.Namespace}
	r.objects = cel.Objects{Request: req, Kinds: e.options.Kinds}
	r.run.review, r.run.act.review = r, r
	r.run.act.variables = cel.NewVariables(&cel.Names{}, &r.questions, r.run.variable)
	if req.Resource.GroupVersionResource == namespaces {
		r.namespace = cmp.Or(r.namespace, req.Name)
	}
	return r
}

// equivalents lists the resources that serve the same objects.
func (r *review) equivalents() []policy.Version {
	if !r.hasEquivalent {
		r.equivalent = r.engine.options.Kinds.Equivalent(r.req.Resource.GroupVersionResource)
		r.hasEquivalent = true
	}
	return r.equivalent
}

// namespaceLabels are the labels by which a namespaceSelector goes. complete
// is false when the namespace is not known, and only its name is.
func (r *review) namespaceLabels() (set map[string]string, complete bool) {
	switch {
	case r.req.Resource.Resource == "namespaces" && r.req.SubResource == "":
		set = labelsOf(cmpMap(r.req.Admitted, r.req.OldAdmitted))
	default:
		o := r.namespaceObject()
		if o == nil {
			return map[string]string{cel.NameLabel: r.namespace}, false
		}
		set = maps.Clone(o.GetLabels())
	}
	if set == nil {
		set = map[string]string{}
	}
	set[cel.NameLabel] = cmp.Or(set[cel.NameLabel], r.namespace)
	return set, true
}

func cmpMap(a, b map[string]any) map[string]any {
	if a != nil {
		return a
	}
	return b
}

func (r *review) namespaceObject() *render.Object {
	return r.engine.options.Cluster.Namespace(r.req.Subject().Unit, r.namespace)
}

func (r *review) unknownNamespace() string { return match.UnknownNamespace(r.namespace) }

// namespaceVar is the `namespaceObject` variable: null for what is in none,
// and a map that asks where the namespace is not known.
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

// namespaceSizes are those of what namespaceVar gives.
func (r *review) namespaceSizes() cel.Sizes {
	switch known := r.knownNamespace(); {
	case !r.inNamespace():
		return cel.Sizes{}
	case known != nil:
		return known.sizes
	default:
		return cel.Sizes{Items: 1, Length: 256}
	}
}

func (r *review) inNamespace() bool {
	return r.namespace != "" && (r.req.Kind.Kind != "Namespace" || r.req.Kind != namespaces.GroupVersion().WithKind("Namespace"))
}

// A frozenNamespace is the value of a namespace, made once for all requests in it.
type frozenNamespace struct {
	value ref.Val
	sizes cel.Sizes
}

// knownNamespace is nil where the namespace is not known, or there is none.
func (r *review) knownNamespace() *frozenNamespace {
	if r.namespaceLooked {
		return r.namespaceKnown
	}
	r.namespaceLooked = true
	if o := r.namespaceObject(); o != nil && r.inNamespace() {
		r.namespaceKnown = r.engine.namespace(o, r.namespace)
	}
	return r.namespaceKnown
}

// A namespaceKey is a namespace by the name under which it is asked for.
type namespaceKey struct {
	object *render.Object
	name   string
}

func (e *Engine) namespace(o *render.Object, name string) *frozenNamespace {
	key := namespaceKey{o, name}
	if n, ok := e.frozen.Load(key); ok {
		return n.(*frozenNamespace)
	}
	value, sizes := cel.Freeze(namespaceTree(o, name))
	n, _ := e.frozen.LoadOrStore(key, &frozenNamespace{value, sizes})
	return n.(*frozenNamespace)
}

// askNamespace is a namespace of which only the name is known.
func (r *review) askNamespace() ref.Val {
	return cel.PartialNamespace(r.namespace, func() ref.Val {
		return r.questions.Ask(fmt.Sprintf("needs to know namespace %s: give the Namespace with --with", r.namespace))
	})
}

// namespaceTree is what the API server shows policies of a namespace.
func namespaceTree(o *render.Object, name string) map[string]any {
	tree := cel.NamespaceTree(o, name)
	metadata := tree["metadata"].(map[string]any)
	for _, field := range []string{"managedFields", "ownerReferences", "selfLink"} {
		delete(metadata, field)
	}
	return tree
}

// authorizers are the `authorizer` variable and its requestResource.
func (r *review) authorizers() (authorizer, resource ref.Val) {
	if r.authorizer == nil {
		r.authorizer, r.resource = cel.AuthorizerValues(r.req, r.namespace, r.req.UserInfo, &asking{review: r, inner: r.engine.options.Authorizer})
	}
	return r.authorizer, r.resource
}
