package schema

import (
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// priorityLevel converts a PriorityLevelConfiguration between v1beta3 and v1.
// They differ in the shares of a limited level: in v1beta3 zero means 30, and
// an annotation marks a real zero.
func priorityLevel(admitted map[string]any, apiVersion string) map[string]any {
	const zeroMeant = flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey
	converted := unstructured.Unstructured{Object: runtime.DeepCopyJSON(admitted)}
	converted.SetAPIVersion(apiVersion)
	annotations := converted.GetAnnotations()
	delete(annotations, zeroMeant)
	limited, ok, _ := unstructured.NestedMap(converted.Object, "spec", "limited")
	if shares, _ := limited["nominalConcurrencyShares"].(int64); ok && shares == 0 {
		if apiVersion == flowcontrolv1beta3.SchemeGroupVersion.String() {
			annotations = with(annotations, zeroMeant)
		}
		_ = unstructured.SetNestedField(converted.Object, int64(0), "spec", "limited", "nominalConcurrencyShares")
	}
	converted.SetAnnotations(annotations)
	return converted.Object
}

func with(annotations map[string]string, key string) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = ""
	return annotations
}
