package admission

import (
	v1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/match"
	"github.com/preadmit/preadmit/render"
)

// truth, criteria and what follows are those of package match, in the terms of
// a review.
type truth = match.Truth

const (
	no      = match.No
	yes     = match.Yes
	unknown = match.Unknown
)

type criteria match.Criteria

// newCriteria compiles defaulted match resources; the selectors are known to
// be valid. nil matches everything.
func newCriteria(m *v1.MatchResources) *criteria { return (*criteria)(match.New(m)) }

// match says whether the criteria hold for the request under review, and in
// which version of the resource the policy sees the object.
func (c *criteria) match(r *review) (truth, policy.Version) {
	return (*match.Criteria)(c).Match(subject{r})
}

// checks lists the questions that match answers.
func (c *criteria) checks(r *review, o *render.Object, base string) []policy.Check {
	return (*match.Criteria)(c).Checks(subject{r}, o, base)
}

// subject is a review as what is matched.
type subject struct{ *review }

// Request implements match.Subject.
func (s subject) Request() *policy.Request { return s.req }

// In implements match.Subject.
func (s subject) In() string { return s.namespace }

// NamespaceLabels implements match.Subject.
func (s subject) NamespaceLabels() (map[string]string, bool) { return s.namespaceLabels() }

// Equivalents implements match.Subject.
func (s subject) Equivalents() []policy.Version { return s.equivalents() }

var namespaces = match.Namespaces()

func wildcard(items []string, requested string) bool { return match.Wildcard(items, requested) }

func matchResource(resources []string, resource, sub string) bool {
	return match.Resource(resources, resource, sub)
}

func labelsOf(object map[string]any) map[string]string { return match.LabelsOf(object) }

// exempt says whether the API server never shows the resource to policies:
// those that configure admission, and reviews, which are not stored.
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

func resourceText(r schema.GroupVersionResource) string { return match.ResourceText(r) }
