package schema

import (
	"slices"
	"testing"
)

// TestAPIVersions holds what charts ask for against what clusters of a version
// serve when nobody configured them.
func TestAPIVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version, api string
		served       bool
	}{
		{"", "v1", true},
		{"", "apps/v1/Deployment", true},
		{"", "apiregistration.k8s.io/v1", true},
		{"", "apiregistration.k8s.io/v1/APIService", true},
		{"", "apiextensions.k8s.io/v1/CustomResourceDefinition", true},
		{"", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy", true},
		{"", "resource.k8s.io/v1/DeviceClass", true},
		{"1.29", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy", false},
		{"1.29", "flowcontrol.apiserver.k8s.io/v1beta3", true},
		{"1.33.2", "resource.k8s.io/v1", false},
		{"", "flowcontrol.apiserver.k8s.io/v1beta3", false},
		{"", "apiextensions.k8s.io/v1beta1", false},
		{"", "policy/v1beta1/PodSecurityPolicy", false},
		{"", "networking.k8s.io/v1beta1", false},
		{"", "extensions/v1beta1", false},
		{"", "metrics.k8s.io/v1beta1", false},
	} {
		if got := slices.Contains(APIVersions(c.version), c.api); got != c.served {
			t.Errorf("Kubernetes %q serves %s: %v, want %v", c.version, c.api, got, c.served)
		}
	}
	if all := APIVersions("1.2"); len(all) > 0 {
		t.Errorf("an unknown version serves %v", all)
	}
}
