package schema

import (
	"slices"
)

// defaults lists the API servers' defaults by type: the SetDefaults functions
// of k8s.io/kubernetes/pkg/apis/*/v*/defaults.go and the values of +default
// markers, for the releases in kinds.tsv. A default behind a feature gate
// applies from the release in which the gate is on by default.
var defaults = slices.Concat(
	podDefaults, volumeDefaults, coreDefaults, workloadDefaults,
	autoscalingDefaults, admissionDefaults, clusterDefaults, deviceDefaults, apiServiceDefaults,
)

// fill sets a value that is the zero value of its type.
func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// fillPtr sets a value that is absent.
func fillPtr[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
