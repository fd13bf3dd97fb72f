package admission

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// A param is a value of the `params` variable.
type param struct {
	object *render.Object // nil for null
	value  ref.Val
	// assumed is the assumption that the parameter is used as written because
	// it could not be defaulted. err says why it can't be used.
	assumed string
	err     error
}

var nullParam = &param{value: types.NullValue}

// errNoParams is the API server's error for missing parameters.
var errNoParams = errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")

// params returns the parameters of a binding: a single null if the policy takes
// none, and an empty list if the cluster has none and parameterNotFoundAction is
// Allow (k8s.io/apiserver/pkg/admission/plugin/policy/generic.CollectParams).
func (e *Engine) params(r *review, kind *v1.ParamKind, ref *v1.ParamRef) ([]*param, error) {
	if kind == nil || ref == nil {
		return []*param{nullParam}, nil
	}
	gvk := policy.ParseGroupVersion(kind.APIVersion).WithKind(kind.Kind)
	namespace, err := e.paramNamespace(r, gvk, ref)
	if err != nil {
		return nil, err
	}
	selector := labels.Everything()
	if ref.Selector != nil {
		if selector, err = metav1.LabelSelectorAsSelector(ref.Selector); err != nil {
			return nil, err
		}
	}
	found := e.findParams(r, gvk.GroupKind(), namespace, func(o *render.Object) bool {
		if ref.Name != "" {
			return o.GetName() == ref.Name
		}
		return selector.Matches(labels.Set(o.GetLabels()))
	})
	if len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == v1.DenyAction {
		return nil, errNoParams
	}
	if len(found) == 0 && !e.options.Kinds.Resource(gvk).Known && len(e.options.Cluster.List(gvk.GroupKind())) == 0 {
		return nil, &cel.Undecided{Question: fmt.Sprintf("needs to know whether the cluster serves %v: give its CustomResourceDefinition with --with", gvk)}
	}
	if len(found) == 0 && e.options.Cluster.Lacks(gvk.GroupKind()) {
		return nil, &cel.Undecided{Question: policy.NeedsParameter(gvk.Kind, namespace, ref.Name)}
	}
	if e.options.ListParams && ref.Selector != nil && len(found) > 0 {
		list, err := e.listParam(found, gvk)
		return []*param{list}, err
	}
	params := make([]*param, len(found))
	for i, o := range found {
		if params[i] = e.param(o, gvk); params[i].err != nil {
			return nil, params[i].err
		}
	}
	return params, nil
}

// paramNamespace returns the namespace in which parameters are looked up, ""
// for cluster-scoped ones.
func (e *Engine) paramNamespace(r *review, kind schema.GroupVersionKind, ref *v1.ParamRef) (string, error) {
	switch namespaced := e.namespaced(kind, ref); {
	case !namespaced && ref.Namespace != "":
		return "", errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case !namespaced:
		return "", nil
	case ref.Namespace == "" && r.namespace == "":
		return "", errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	default:
		return cmp.Or(ref.Namespace, r.namespace), nil
	}
}

// namespaced reports whether a kind of parameters is namespaced. If the kind is
// unknown, its objects decide, or else whether the binding names a namespace.
func (e *Engine) namespaced(kind schema.GroupVersionKind, ref *v1.ParamRef) bool {
	if res := e.options.Kinds.Resource(kind); !res.Guessed {
		return res.Namespaced
	}
	for _, o := range e.options.Cluster.List(kind.GroupKind()) {
		if o.GetNamespace() != "" {
			return true
		}
	}
	return ref.Namespace != ""
}

// findParams returns the objects of a kind that want accepts, one for each
// name, in the order of the objects. Objects of the unit under evaluation take
// precedence.
func (e *Engine) findParams(r *review, kind schema.GroupKind, namespace string, want func(*render.Object) bool) []*render.Object {
	var found []*render.Object
	at := map[string]int{}
	unit := applier{r.req.Subject().Unit}
	for _, o := range e.options.Cluster.Select(kind, func(o *render.Object) bool {
		return (namespace == "" || o.EffectiveNamespace() == namespace) && want(o)
	}) {
		i, dup := at[o.GetName()]
		switch {
		case !dup:
			at[o.GetName()] = len(found)
			found = append(found, o)
		case unit.applies(o) && !unit.applies(found[i]):
			found[i] = o
		}
	}
	return found
}

// An applier is a unit, on either side of a change.
type applier struct{ *render.Unit }

func (a applier) applies(o *render.Object) bool {
	return a.Unit != nil && o.Unit != nil && a.Identity() == o.Unit.Identity() && a.Cluster == o.Unit.Cluster
}

// param returns an object as a parameter. Its value is built once for all
// requests.
func (e *Engine) param(o *render.Object, kind schema.GroupVersionKind) *param {
	key := paramKey{o, kind}
	if p, ok := e.frozen.Load(key); ok {
		return p.(*param)
	}
	p, _ := e.frozen.LoadOrStore(key, e.newParam(o, kind))
	return p.(*param)
}

type paramKey struct {
	object *render.Object
	kind   schema.GroupVersionKind
}

func (e *Engine) newParam(o *render.Object, kind schema.GroupVersionKind) *param {
	tree, assumed, err := e.paramTree(o, kind)
	if err != nil {
		return &param{err: err}
	}
	p := &param{object: o, assumed: assumed}
	if e.reflects && builtIn(kind) {
		p.value = cel.FreezeTyped(tree)
	} else {
		p.value = cel.Freeze(tree)
	}
	return p
}

// paramTree returns the object, defaulted, in the version of paramKind. If it
// can't be defaulted, it is used as written, and assumed says why.
func (e *Engine) paramTree(o *render.Object, kind schema.GroupVersionKind) (tree map[string]any, assumed string, err error) {
	namespace := ""
	if e.options.Kinds.Resource(o.GroupVersionKind()).Namespaced {
		namespace = o.EffectiveNamespace()
	}
	tree, err = e.options.Kinds.Admit(o, namespace)
	if err != nil {
		tree = o.Object
		assumed = policy.Shorten(fmt.Sprintf("parameter %s %s is used as it is written: %v", kind.Kind, o.GetName(), err), policy.MaxMessage)
	}
	if o.GroupVersionKind() == kind {
		return tree, assumed, nil
	}
	if tree, err = e.options.Kinds.Convert(tree, kind); err != nil {
		return nil, "", fmt.Errorf("parameter %s %s: %w", kind.Kind, o.GetName(), err)
	}
	return tree, assumed, nil
}

// listParam returns one parameter whose items are all the objects.
func (e *Engine) listParam(objects []*render.Object, kind schema.GroupVersionKind) (*param, error) {
	var items []any
	for _, o := range objects {
		tree, _, err := e.paramTree(o, kind)
		if err != nil {
			return nil, err
		}
		items = append(items, tree)
	}
	p := &param{
		object:  objects[0],
		assumed: "Kyverno's command line gives the parameters that a selector finds as one list, params.items; an API server evaluates the policy once for each",
	}
	p.value = cel.Freeze(map[string]any{"items": items})
	return p, nil
}
