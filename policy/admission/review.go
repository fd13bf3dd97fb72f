package admission

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// A review is one request under judgement: what the policies read of it, made
// once and shared by all of them. It is not for concurrent use.
type review struct {
	ctx       context.Context
	engine    *Engine
	req       *policy.Request
	namespace string   // as the API server has it: a Namespace is in itself
	whole     bool     // who makes the request is known, also where it says nothing
	asked     []string // what the running expression wanted to know and can't
	assume    string   // what an answer of the authorizer rests on

	run             run
	room            []verdict // for the validations of one policy
	free            []verdict // of it
	said            []say     // by one policy
	versions        []versioned
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

// versioned is the object and the old one in one version of their kind.
type versioned struct {
	kind        schema.GroupVersionKind
	object, old ref.Val
	objectTree  map[string]any
	oldTree     map[string]any
	sizes       cel.Sizes
	err         error
}

func newReview(ctx context.Context, e *Engine, req *policy.Request) *review {
	r := &review{ctx: ctx, engine: e, req: req, namespace: req.Namespace}
	r.run.review = r
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

// in returns the objects in the version of a kind.
func (r *review) in(kind schema.GroupVersionKind) *versioned {
	for i := range r.versions {
		if r.versions[i].kind == kind {
			return &r.versions[i]
		}
	}
	v := versioned{kind: kind, object: types.NullValue, old: types.NullValue, objectTree: r.req.Admitted, oldTree: r.req.OldAdmitted}
	if kind != r.req.Kind {
		v.objectTree, v.err = r.convert(r.req.Admitted, kind)
		if v.err == nil {
			v.oldTree, v.err = r.convert(r.req.OldAdmitted, kind)
		}
	}
	if v.err == nil {
		v.freeze()
	}
	r.versions = append(r.versions, v)
	return &r.versions[len(r.versions)-1]
}

func (v *versioned) freeze() {
	var s cel.Sizes
	if v.objectTree != nil {
		v.object, v.sizes = cel.Freeze(v.objectTree)
	}
	if v.oldTree != nil {
		v.old, s = cel.Freeze(v.oldTree)
		v.sizes = v.sizes.Max(s)
	}
}

func (r *review) convert(tree map[string]any, to schema.GroupVersionKind) (map[string]any, error) {
	if tree == nil {
		return nil, nil
	}
	converted, err := r.engine.options.Kinds.Convert(tree, to)
	if err != nil {
		return nil, fmt.Errorf("failed to convert object version: %w", err)
	}
	return converted, nil
}

// ask records what an expression would have to know, and is the error that it
// gets instead.
func (r *review) ask(question string) ref.Val {
	r.record(question)
	return types.NewErr("%s", question)
}

// maxQuestions is how many questions are kept of one expression.
const maxQuestions = 32

func (r *review) record(questions ...string) {
	if len(r.asked) < maxQuestions {
		r.asked = append(r.asked, questions...)
	}
}

// questions are what the running expression wanted to know, each once.
func (r *review) questions() string {
	var unique []string
	for _, q := range r.asked {
		if !slices.Contains(unique, q) {
			unique = append(unique, q)
		}
	}
	return strings.Join(unique, "; ")
}

const nameLabel = "kubernetes.io/metadata.name"

// namespaceLabels are the labels by which a namespaceSelector goes. complete
// is false when the namespace is not known, and only its name is.
func (r *review) namespaceLabels() (set map[string]string, complete bool) {
	switch {
	case r.req.Resource.Resource == "namespaces" && r.req.SubResource == "":
		set = labelsOf(cmpMap(r.req.Admitted, r.req.OldAdmitted))
	default:
		o := r.namespaceObject()
		if o == nil {
			return map[string]string{nameLabel: r.namespace}, false
		}
		set = maps.Clone(o.GetLabels())
	}
	if set == nil {
		set = map[string]string{}
	}
	if set[nameLabel] == "" {
		set[nameLabel] = r.namespace
	}
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

func (r *review) unknownNamespace() string {
	return fmt.Sprintf("labels of namespace %s are unknown: give the Namespace with --with", r.namespace)
}

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
	name := types.String(r.namespace)
	ask := func(string) ref.Val {
		return r.ask(fmt.Sprintf("needs to know namespace %s: give the Namespace with --with", r.namespace))
	}
	labels := &partial{known: map[string]ref.Val{nameLabel: name}, ask: ask}
	metadata := &partial{known: map[string]ref.Val{"name": name, "labels": labels}, ask: ask}
	return &partial{known: map[string]ref.Val{"metadata": metadata}, ask: ask}
}

// namespaceTree is what the API server shows policies of a namespace, as one
// that is in use: active.
func namespaceTree(o *render.Object, name string) map[string]any {
	tree := map[string]any{
		"spec":   map[string]any{"finalizers": []any{"kubernetes"}},
		"status": map[string]any{"phase": "Active"},
	}
	for _, field := range []string{"spec", "status"} {
		if m, ok := o.Object[field].(map[string]any); ok && len(m) > 0 {
			tree[field] = m
		}
	}
	metadata := map[string]any{}
	given, _ := o.Object["metadata"].(map[string]any)
	for k, v := range given {
		if k != "managedFields" && k != "ownerReferences" && k != "selfLink" {
			metadata[k] = v
		}
	}
	labels := map[string]any{nameLabel: name}
	if all, ok := given["labels"].(map[string]any); ok {
		maps.Copy(labels, all)
	}
	metadata["labels"] = labels
	tree["metadata"] = metadata
	return tree
}

// authorizers are the `authorizer` variable and its requestResource.
func (r *review) authorizers() (authorizer, resource ref.Val) {
	if r.authorizer == nil {
		u := &user.DefaultInfo{
			Name: r.req.UserInfo.Username, UID: r.req.UserInfo.UID,
			Groups: r.req.UserInfo.Groups, Extra: r.req.UserInfo.Extra,
		}
		asking := &asking{review: r, inner: r.engine.options.Authorizer}
		r.authorizer = library.NewAuthorizerVal(u, asking)
		r.resource = library.NewResourceAuthorizerVal(u, asking, requestResource{r})
	}
	return r.authorizer, r.resource
}

// requestResource is the request as authorizer.requestResource has it.
type requestResource struct{ *review }

func (r requestResource) GetName() string        { return r.req.Name }
func (r requestResource) GetNamespace() string   { return r.namespace }
func (r requestResource) GetSubresource() string { return r.req.SubResource }
func (r requestResource) GetResource() schema.GroupVersionResource {
	return r.req.Resource.GroupVersionResource
}
