package admission

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
