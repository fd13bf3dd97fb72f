package podsecurity

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/render"
)

// A Pod is the input of the checks.
type Pod struct {
	Metadata metav1.ObjectMeta
	Spec     corev1.PodSpec
	At       string // pointer in its object of the spec's parent: "" for a Pod
	metadata string // pointer of its metadata

	places []place // of its containers, in the library's order; nil: not yet computed
}

// NewPod returns a Pod of its metadata and spec, whose parent is at a pointer of its
// object.
func NewPod(meta *metav1.ObjectMeta, spec *corev1.PodSpec, at string) *Pod {
	return &Pod{Metadata: *meta, Spec: *spec, At: at, metadata: at + "/metadata"}
}

// cronJobPod is the pointer of a CronJob's pod. Kyverno takes the metadata from the
// job above it.
const (
	cronJobPod      = "/spec/jobTemplate/spec/template"
	cronJobMetadata = "/spec/jobTemplate/metadata"
)

// Read reads the pod whose metadata and spec are at a pointer of an object: "",
// /spec/template or /spec/jobTemplate/spec/template. It returns nil if the object has
// no map there, and an error if that can't be decoded as a pod.
func Read(object map[string]any, at string) (*Pod, error) {
	v, _ := render.Lookup(object, at)
	template, ok := v.(map[string]any)
	if !ok {
		return nil, nil
	}
	pod := NewPod(&metav1.ObjectMeta{}, &corev1.PodSpec{}, at)
	if at == cronJobPod {
		pod.metadata = cronJobMetadata
	}
	meta, _ := render.Lookup(object, pod.metadata)
	pod.Metadata.Annotations = annotations(meta)
	spec, ok := template["spec"].(map[string]any)
	if !ok {
		return pod, nil
	}
	clean, _ := WithoutQuantities(spec).(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(clean, &pod.Spec); err != nil {
		return nil, errors.New("the pod has fields of a wrong type, so no check can look at it")
	}
	return pod, nil
}

func annotations(metadata any) map[string]string {
	m, _ := metadata.(map[string]any)
	all, _ := m["annotations"].(map[string]any)
	found := make(map[string]string, len(all))
	for k, v := range all {
		if s, ok := v.(string); ok {
			found[k] = s
		}
	}
	return found
}

// maxDepth bounds the depth of a pod's spec; the API has nothing that deep.
const maxDepth = 64

// WithoutQuantities copies a value without fields that hold quantities. No check
// reads them, and parsing one such as 1e-2147483647 does not end.
func WithoutQuantities(v any) any { return withoutQuantities(v, maxDepth) }

func withoutQuantities(v any, depth int) any {
	if depth == 0 {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			if !isQuantity(k) {
				m[k] = withoutQuantities(e, depth-1)
			}
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = withoutQuantities(e, depth-1)
		}
		return list
	}
	return v
}

// isQuantity reports whether a field of a pod holds quantities.
func isQuantity(name string) bool {
	return name == "resources" || name == "overhead" || name == "sizeLimit" || name == "divisor"
}
