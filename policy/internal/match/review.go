package match

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A Review is a request with its namespace and resource as the cluster knows them.
// It is not for concurrent use.
type Review struct {
	Req       *policy.Request
	Namespace string          // of the request; that of a Namespace is its name
	Cluster   *policy.Cluster // nil: all namespaces are unknown
	Kinds     policy.Kinds

	equivalent    []policy.Version
	hasEquivalent bool
}

// NewReview returns the Review of a request.
func NewReview(req *policy.Request, cluster *policy.Cluster, kinds policy.Kinds) Review {
	r := Review{Req: req, Namespace: req.Namespace, Cluster: cluster, Kinds: kinds}
	if req.Resource.GroupVersionResource == Namespaces() {
		r.Namespace = cmp.Or(r.Namespace, req.Name)
	}
	return r
}

// Request implements Subject.
func (r *Review) Request() *policy.Request { return r.Req }

// In implements Subject.
func (r *Review) In() string { return r.Namespace }

// Equivalents implements Subject.
func (r *Review) Equivalents() []policy.Version {
	if !r.hasEquivalent {
		r.equivalent, r.hasEquivalent = r.Kinds.Equivalent(r.Req.Resource.GroupVersionResource), true
	}
	return r.equivalent
}

// NamespaceObject returns the request's namespace, nil if it is unknown.
func (r *Review) NamespaceObject() *render.Object {
	return r.Cluster.Namespace(r.Req.Subject().Unit, r.Namespace)
}

// OfNamespace reports whether the request is about a Namespace itself.
func (r *Review) OfNamespace() bool {
	return r.Req.Resource.Resource == "namespaces" && r.Req.SubResource == ""
}

// NamespaceLabels implements Subject.
func (r *Review) NamespaceLabels() (set map[string]string, complete bool) {
	if !r.OfNamespace() {
		o := r.NamespaceObject()
		if o == nil {
			return r.Labelled(nil), false
		}
		return r.Labelled(o.GetLabels()), true
	}
	tree := r.Req.Admitted
	if tree == nil {
		tree = r.Req.OldAdmitted
	}
	return r.Labelled(LabelsOf(tree)), true
}

// Labelled returns a Namespace's labels with the label of its name, which the API
// server always sets to the name.
func (r *Review) Labelled(set map[string]string) map[string]string {
	if set == nil {
		set = map[string]string{}
	}
	set[corev1.LabelMetadataName] = cmp.Or(r.Namespace, set[corev1.LabelMetadataName])
	return set
}
