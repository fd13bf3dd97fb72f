package kyvernocel

import (
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

// A review is the evaluation of one request. It holds the variables of
// expressions, which are built once for all policies. It is not safe for
// concurrent use.
type review struct {
	match.Review
	ctx    context.Context
	engine *Engine
	mocks  *Mocks         // nil outside Kyverno's command line
	req    policy.Request // Admitted and OldAdmitted are the objects as they are evaluated
	policy *Policy        // the policy under evaluation; lookups of a namespaced policy are in its namespace

	objects        cel.Objects
	requests       cel.Requests
	namespaceValue ref.Val

	assumed   []string // assumptions of the policy under evaluation
	secret    bool     // the policy under evaluation looked up a Secret
	generated []map[string]any
}

func (e *Engine) review(ctx context.Context, req *policy.Request, mocks *Mocks) *review {
	r := &review{ctx: ctx, engine: e, mocks: mocks, req: *req}
	if mocks != nil {
		r.req.Admitted, r.req.OldAdmitted = asWritten(req.Object, req.Namespace), asWritten(req.OldObject, req.Namespace)
	}
	r.objects = cel.Objects{Request: &r.req, Kinds: e.options.Kinds, Absent: map[string]any{}}
	r.Review = match.NewReview(&r.req, e.options.Cluster, e.options.Kinds)
	return r
}

// asWritten returns an object as written. If it names no namespace, namespace
// is set.
func asWritten(o *render.Object, namespace string) map[string]any {
	if o == nil || namespace == "" || o.GetNamespace() != "" {
		if o == nil {
			return nil
		}
		return o.Object
	}
	metadata, _ := o.Object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["namespace"] = namespace
	tree := maps.Clone(o.Object)
	tree["metadata"] = metadata
	return tree
}

// Equivalents implements match.Subject. Kyverno's command line knows no
// equivalent versions.
func (r *review) Equivalents() []policy.Version {
	if r.mocks != nil {
		return nil
	}
	return r.Review.Equivalents()
}

// NamespaceLabels implements match.Subject.
func (r *review) NamespaceLabels() (set map[string]string, complete bool) {
	if r.mocks == nil || r.OfNamespace() {
		return r.Review.NamespaceLabels()
	}
	set = map[string]string{}
	if o := r.mocks.Namespaces[r.Namespace]; o != nil {
		maps.Copy(set, o.GetLabels())
	}
	maps.Copy(set, r.mocks.Labels[r.Namespace])
	return r.Labelled(set), true
}

// requestTree returns the `request` variable as Kyverno fills it in: with the
// objects, without the uid.
func (r *review) requestTree(as policy.Version) map[string]any {
	tree := r.req.Fields(as)
	delete(tree, "uid")
	tree["name"], tree["userInfo"], tree["options"] = r.req.Name, r.userTree(), map[string]any{}
	if v := r.objects.In(r.req.Kind); v.Err == nil {
		tree["object"], tree["oldObject"] = v.Object, v.Old
	}
	return tree
}

// userTree returns request.userInfo. If the request has no user, it is unknown,
// or with Mocks empty.
func (r *review) userTree() any {
	u := r.req.UserInfo
	if r.mocks != nil {
		u = policy.UserInfo{}
		if r.mocks.UserInfo != nil {
			u = *r.mocks.UserInfo
		}
	} else if !u.Known() {
		return partial(policy.NeedsUser)
	}
	return u.Fields()
}

// namespaceVar returns the `namespaceObject` variable, which is null for a
// cluster-scoped object.
func (r *review) namespaceVar() ref.Val {
	if r.namespaceValue == nil {
		r.namespaceValue = r.newNamespace()
	}
	return r.namespaceValue
}

func (r *review) newNamespace() ref.Val {
	switch {
	case r.req.Namespace == "":
		return types.NullValue
	case r.mocks != nil:
		if o := r.mocks.Namespaces[r.req.Namespace]; o != nil {
			return cel.Freeze(o.Object)
		}
		return types.NullValue
	}
	if o := r.NamespaceObject(); o != nil {
		tree := maps.Clone(o.Object)
		tree["metadata"] = cel.NamespaceMetadata(o, r.Namespace)
		return cel.Freeze(tree)
	}
	ask := asking(fmt.Sprintf("needs to know namespace %s: give the Namespace with --with", r.Namespace))
	return cel.PartialNamespace(r.Namespace, ask)
}
