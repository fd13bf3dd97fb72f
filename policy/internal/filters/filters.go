// Package filters finds the requests that Kyverno ignores unless it is configured
// otherwise: by the resourceFilters that its chart installs
// (config.resourceFilters and config.excludeKyvernoNamespace of chart 3.9, Kyverno
// 1.19).
//
// It takes a request. If an installed Kyverno would ignore it, it returns the
// assumption that the verdict depends on.
package filters

import (
	"fmt"
	"slices"

	"github.com/preadmit/preadmit/policy"
)

// Namespaces whose objects are ignored, and kinds.
var (
	namespaces = []string{"kube-system", "kube-public", "kube-node-lease", "kyverno"}
	kinds      = []string{
		"APIService", "Binding", "ClusterEphemeralReport", "EphemeralReport", "Event", "Node", "ReplicaSet",
		"SelfSubjectAccessReview", "SubjectAccessReview", "TokenReview",
	}
)

// With adds the assumption about a request, if any, to a verdict's assumptions.
func With(assumed []string, req *policy.Request) []string {
	if more := Assumed(req); more != "" {
		return append(slices.Clip(assumed), more)
	}
	return assumed
}

// Assumed returns the assumption under which Kyverno's policies evaluate a request,
// or "".
func Assumed(req *policy.Request) string {
	namespace := req.Namespace
	if req.Kind.Group == "" && req.Kind.Kind == "Namespace" {
		namespace = req.Name
	}
	switch {
	case slices.Contains(namespaces, namespace):
		return fmt.Sprintf("Kyverno is configured to check namespace %s, which it leaves out by default", namespace)
	case slices.Contains(kinds, req.Kind.Kind):
		return fmt.Sprintf("Kyverno is configured to check kind %s, which it leaves out by default", req.Kind.Kind)
	}
	return ""
}
