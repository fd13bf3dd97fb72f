package kyvernocel

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/kyvernocel/internal/kyvernolib"
	"github.com/preadmit/preadmit/render"
)

// A gvr is the value of resource.ToGVR.
type gvr struct{ schema.GroupVersionResource }

// A query is the resource that resource.Get or resource.List asks for.
type query struct {
	gvr       schema.GroupVersionResource
	namespace string
	name      string
}

// query parses the arguments of a lookup: apiVersion, resource, the namespace
// unless the policy is namespaced, and the rest.
func (r *review) query(args []ref.Val) (q query, rest []string) {
	all := texts(args)
	q.gvr = policy.ParseGroupVersion(all[0]).WithResource(all[1])
	rest = all[2:]
	if q.namespace = r.policy.Namespace; q.namespace == "" && len(rest) > 0 {
		q.namespace, rest = rest[0], rest[1:]
	}
	if q.gvr.Resource == "secrets" {
		r.secret = true
	}
	return q, rest
}

func (q query) String() string {
	what := q.gvr.Resource
	if q.gvr.Group != "" {
		what += "." + q.gvr.Group
	}
	return what
}

// candidates returns the objects of a resource that the policy can look up.
func (r *review) candidates(q query) []*render.Object {
	var all []*render.Object
	if r.mocks == nil {
		if gk, ok := r.engine.resources()[q.gvr.GroupResource()]; ok {
			all = r.engine.options.Cluster.List(gk)
		}
		return all
	}
	lists := [][]*render.Object{r.mocks.Resources}
	if r.policy.spec.TargetMatchConstraints != nil {
		lists = append(lists, r.mocks.Targets)
	}
	if r.mocks.HasCluster {
		lists = append(lists, r.mocks.Cluster)
	}
	for _, o := range slices.Concat(lists...) {
		if r.engine.options.Kinds.Resource(o.GroupVersionKind()).GroupVersionResource == q.gvr {
			all = append(all, o)
		}
	}
	return all
}

// namespaceOf returns an object's namespace, "" for cluster-scoped ones.
func (r *review) namespaceOf(o *render.Object) string {
	if !r.engine.options.Kinds.Resource(o.GroupVersionKind()).Namespaced {
		return ""
	}
	return o.EffectiveNamespace()
}

func (r *review) resourceGet(args []ref.Val) ref.Val {
	q, rest := r.query(args)
	if len(rest) == 0 {
		return types.NewErr("failed to get resource: no name")
	}
	if q.name = rest[0]; subresources(args) {
		return ask("needs to know a subresource of %s %s", q, where(q))
	}
	var found *render.Object
	for _, o := range r.candidates(q) {
		if o.GetName() != q.name || r.namespaceOf(o) != q.namespace && r.namespaceOf(o) != "" {
			continue
		}
		if found == nil || o.Unit == r.unit() && found.Unit != o.Unit {
			found = o
		}
	}
	switch {
	case found != nil:
		return r.value(found, q)
	case r.mocks != nil:
		return types.NullValue
	default:
		return ask("needs to know %s %s: give it with --with", q, where(q))
	}
}

func (r *review) unit() *render.Unit { return r.req.Subject().Unit }

func where(q query) string {
	if q.namespace == "" {
		return q.name
	}
	return q.namespace + "/" + q.name
}

func subresources(args []ref.Val) bool {
	l, ok := args[len(args)-1].(traits.Lister)
	return ok && l.Size() != types.IntZero
}

func (r *review) resourceList(args []ref.Val) ref.Val {
	q, _ := r.query(args)
	candidates := r.candidates(q)
	if len(candidates) == 0 && r.mocks == nil {
		return ask("needs the list of %s: give them with --with", q)
	}
	if len(candidates) == 0 && !r.mocks.HasCluster {
		return types.NewErr("failed to list resource: %s resource not found", q.gvr.Resource)
	}
	if r.mocks == nil {
		r.assume(fmt.Sprintf("assumed that there are no %s except those rendered or given", q))
	}
	kind := "List"
	if len(candidates) > 0 {
		kind = candidates[0].GetKind() + kind
	}
	return kyvernolib.Frozen(map[string]any{"apiVersion": q.gvr.GroupVersion().String(), "kind": kind, "items": r.items(q, candidates, selector(args))})
}

func (r *review) assume(line string) {
	if !slices.Contains(r.assumed, line) {
		r.assumed = append(r.assumed, line)
	}
}

// value returns an object in the requested version as a CEL value, built once.
func (r *review) value(o *render.Object, q query) ref.Val {
	key := lookedUp{o, q.gvr.Version}
	if v, ok := r.engine.frozen.Load(key); ok {
		return v.(ref.Val)
	}
	v, _ := r.engine.frozen.LoadOrStore(key, kyvernolib.Frozen(r.served(o, q)))
	return v.(ref.Val)
}

// lookedUp identifies an object converted to a version.
type lookedUp struct {
	object  *render.Object
	version string
}

func (r *review) served(o *render.Object, q query) map[string]any {
	if r.mocks != nil {
		return o.Object
	}
	tree, err := r.engine.options.Kinds.Admit(o, r.namespaceOf(o))
	if err != nil {
		return o.Object
	}
	kind := o.GroupVersionKind()
	if kind.Version == q.gvr.Version {
		return tree
	}
	kind.Version = q.gvr.Version
	if converted, err := r.engine.options.Kinds.Convert(tree, kind); err == nil {
		return converted
	}
	return tree
}

func (r *review) resourcePost(args []ref.Val) ref.Val {
	q, _ := r.query(args)
	return ask("needs the answer of the API server to a new object of %s", q)
}

func (r *review) toGVR(args []ref.Val) ref.Val {
	all := texts(args)
	kind := policy.ParseGroupVersion(all[0]).WithKind(all[1])
	res := r.engine.options.Kinds.Resource(kind)
	if !res.Known && r.mocks == nil {
		return ask("needs to know the resource of kind %s in %s: give its CustomResourceDefinition with --with", all[1], all[0])
	}
	return &gvr{res.GroupVersionResource}
}

// global implements globalContext.Get for an entry or a projection of an entry.
func (r *review) global(args []ref.Val) ref.Val {
	name := strings.TrimSuffix(strings.Join(texts(args), "."), ".")
	if r.mocks == nil {
		return r.globalEntry(name)
	}
	v, ok := r.mocks.Global[name]
	if !ok {
		return types.NullValue
	}
	data, ok := v.(map[string]any)
	if !ok {
		return kyvernolib.Frozen(v)
	}
	data = maps.Clone(data)
	for key, projection := range r.mocks.Global { // as Kyverno's mocks hold them
		if projected, ok := strings.CutPrefix(key, name+"."); ok {
			data[projected] = projection
		}
	}
	return kyvernolib.Frozen(data)
}

// globalEntry returns the objects of a GlobalContextEntry. Entries that call
// services, and projections, are undecided.
func (r *review) globalEntry(name string) ref.Val {
	kind := schema.GroupKind{Group: "kyverno.io", Kind: "GlobalContextEntry"}
	entry := r.engine.options.Cluster.Get(r.unit(), kind, "", name)
	if entry == nil {
		return ask("needs to know GlobalContextEntry %s", name)
	}
	spec, _ := entry.Object["spec"].(map[string]any)
	of, ok := spec["kubernetesResource"].(map[string]any)
	if !ok {
		return ask("needs the answer of the service that GlobalContextEntry %s calls", name)
	}
	text := func(key string) string { s, _ := of[key].(string); return s }
	q := query{gvr: schema.GroupVersionResource{Group: text("group"), Version: text("version"), Resource: text("resource")}, namespace: text("namespace")}
	r.secret = r.secret || q.gvr.Resource == "secrets"
	candidates := r.candidates(q)
	if len(candidates) == 0 {
		return ask("needs the list of %s: give them with --with", q)
	}
	r.assume(fmt.Sprintf("assumed that there are no %s except those rendered or given", q))
	return kyvernolib.Frozen(r.items(q, candidates, nil))
}

// items returns the candidates in the requested namespace that have the labels.
func (r *review) items(q query, candidates []*render.Object, having map[string]string) []any {
	wants := labels.Set(having).AsSelector()
	items := []any{}
	for _, o := range candidates {
		if (q.namespace == "" || r.namespaceOf(o) == q.namespace) && wants.Matches(labels.Set(o.GetLabels())) {
			items = append(items, r.value(o, q))
		}
	}
	return items
}

// imageMetadata implements image.GetMetadata.
func (r *review) imageMetadata(args []ref.Val) ref.Val {
	name := texts(args)[0]
	if r.mocks != nil {
		for _, image := range r.mocks.Images {
			if s, _ := image["image"].(string); sameImage(s, name) {
				return kyvernolib.Frozen(image)
			}
		}
	}
	return ask("needs the metadata of image %q from its registry", name)
}

func sameImage(a, b string) bool {
	if a == b {
		return true
	}
	x, err := kyvernolib.ParseReference(a)
	y, err2 := kyvernolib.ParseReference(b)
	return err == nil && err2 == nil && *x == *y
}

func (r *review) httpGet(args []ref.Val) ref.Val   { return r.http("GET", args) }
func (r *review) httpPost(args []ref.Val) ref.Val  { return r.http("POST", args) }
func (r *review) httpPut(args []ref.Val) ref.Val   { return r.http("PUT", args) }
func (r *review) httpPatch(args []ref.Val) ref.Val { return r.http("PATCH", args) }

// http returns the mocked body and status of a request.
func (r *review) http(method string, args []ref.Val) ref.Val {
	url := texts(args[:1])[0]
	if r.mocks != nil {
		for _, call := range r.mocks.HTTP {
			if strings.EqualFold(cmp.Or(call.Method, "GET"), method) && call.URL == url {
				return kyvernolib.Frozen(call.answer())
			}
		}
	}
	return ask("needs the answer of %s to %s", withoutQuery(url), method)
}

func (h HTTPCall) answer() map[string]any {
	return map[string]any{"body": h.Body, "statusCode": int64(cmp.Or(h.Status, 200))}
}

// withoutQuery removes the parts of a URL that may be secret.
func withoutQuery(url string) string {
	url, _, _ = strings.Cut(url, "?")
	if scheme, rest, ok := strings.Cut(url, "://"); ok {
		if _, host, ok := strings.Cut(rest, "@"); ok {
			return scheme + "://" + host
		}
	}
	return url
}

var _ ref.Val = (*gvr)(nil)

// ConvertToNative implements ref.Val.
func (g *gvr) ConvertToNative(reflect.Type) (any, error) {
	return nil, types.NewErr("a resource can't be converted").(error)
}

// ConvertToType implements ref.Val.
func (g *gvr) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return gvrType
	}
	return types.NewErr("a resource can't be converted")
}

// Equal implements ref.Val.
func (g *gvr) Equal(other ref.Val) ref.Val {
	o, ok := other.(*gvr)
	return types.Bool(ok && o.GroupVersionResource == g.GroupVersionResource)
}

// Type implements ref.Val.
func (g *gvr) Type() ref.Type { return gvrType }

// Value implements ref.Val.
func (g *gvr) Value() any { return g.GroupVersionResource }
