package cel

import (
	"fmt"
	"maps"

	"github.com/google/cel-go/common/types/ref"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Objects are the object and the old object of a request, in each version that
// policies ask for. They are not for concurrent use.
type Objects struct {
	Request *policy.Request
	Kinds   policy.Kinds
	Absent  any // the value of a missing object in expressions
	// Typed freezes objects of kinds for which it is true by FreezeTyped; nil freezes none so.
	Typed func(schema.GroupVersionKind) bool

	versions []*Versioned
}

// A Versioned is the object and the old object in one version of their kind.
// A tree is nil where there is no such object. Err says why they could not be
// converted.
type Versioned struct {
	Kind          schema.GroupVersionKind
	Object, Old   ref.Val
	Tree, OldTree map[string]any
	Err           error
}

// Requests hold the variable `request` for each version that policies see. They are
// not for concurrent use.
type Requests []requestAs

type requestAs struct {
	as    policy.Version
	value ref.Val
}

// As returns the variable for a version of policies. fields is called for the first
// policy of the version; typed as for [FreezeTyped].
func (r *Requests) As(version policy.Version, typed bool, fields func(policy.Version) map[string]any) ref.Val {
	for _, v := range *r {
		if v.as == version {
			return v.value
		}
	}
	value := freeze(fields(version), typed)
	*r = append(*r, requestAs{version, value})
	return value
}

// In returns the objects in the version of a kind.
func (o *Objects) In(kind schema.GroupVersionKind) *Versioned {
	for _, v := range o.versions {
		if v.Kind == kind {
			return v
		}
	}
	v := &Versioned{Kind: kind, Tree: o.Request.Admitted, OldTree: o.Request.OldAdmitted}
	if kind != o.Request.Kind {
		v.Tree, v.Err = o.Convert(o.Request.Admitted, kind)
		if v.Err == nil {
			v.OldTree, v.Err = o.Convert(o.Request.OldAdmitted, kind)
		}
	}
	if v.Err == nil {
		typed := o.Typed != nil && o.Typed(kind)
		v.Object = o.freeze(v.Tree, typed)
		v.Old = o.freeze(v.OldTree, typed)
	}
	o.versions = append(o.versions, v)
	return v
}

func (o *Objects) freeze(tree map[string]any, typed bool) ref.Val {
	if tree == nil {
		return Freeze(o.Absent)
	}
	return freeze(tree, typed)
}

// Convert returns a tree in the version of a kind; nil for nil.
func (o *Objects) Convert(tree map[string]any, to schema.GroupVersionKind) (map[string]any, error) {
	if tree == nil {
		return nil, nil
	}
	converted, err := o.Kinds.Convert(tree, to)
	if err != nil {
		return nil, fmt.Errorf("failed to convert object version: %w", err)
	}
	return converted, nil
}

// NamespaceTree returns a Namespace as the API server stores it when in use: active,
// and labelled with its name.
func NamespaceTree(o *render.Object, name string) map[string]any {
	tree := map[string]any{
		"spec":   map[string]any{"finalizers": []any{"kubernetes"}},
		"status": map[string]any{"phase": "Active"},
	}
	for _, field := range []string{"spec", "status"} {
		if m, ok := o.Object[field].(map[string]any); ok && len(m) > 0 {
			tree[field] = m
		}
	}
	tree["metadata"] = NamespaceMetadata(o, name)
	return tree
}

// NamespaceMetadata returns the metadata of a Namespace, labelled with its name.
func NamespaceMetadata(o *render.Object, name string) map[string]any {
	given, _ := o.Object["metadata"].(map[string]any)
	metadata := map[string]any{}
	maps.Copy(metadata, given)
	labels := make(map[string]any)
	if all, ok := given["labels"].(map[string]any); ok {
		maps.Copy(labels, all)
	}
	labels[corev1.LabelMetadataName] = name // whatever the manifest says
	metadata["labels"] = labels
	return metadata
}

// AuthorizerValues returns the variables `authorizer` and
// `authorizer.requestResource` of a request in a namespace. by answers their checks.
func AuthorizerValues(r *policy.Request, namespace string, u policy.UserInfo, by authorizer.UnconditionalAuthorizer) (checks, resource ref.Val) {
	info := &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
	return library.NewAuthorizerVal(info, by), library.NewResourceAuthorizerVal(info, by, requestResource{r, namespace})
}

// requestResource is the request as seen by authorizer.requestResource.
type requestResource struct {
	*policy.Request
	namespace string
}

func (r requestResource) GetName() string        { return r.Name }
func (r requestResource) GetNamespace() string   { return r.namespace }
func (r requestResource) GetSubresource() string { return r.SubResource }
func (r requestResource) GetResource() schema.GroupVersionResource {
	return r.Resource.GroupVersionResource
}
