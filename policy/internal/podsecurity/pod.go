package podsecurity

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy/internal/pattern"
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

// WithoutQuantities copies a value without fields that hold quantities. No check
// reads them, and parsing one such as 1e-2147483647 does not end.
func WithoutQuantities(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			if !isQuantity(k) {
				m[k] = WithoutQuantities(e)
			}
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = WithoutQuantities(e)
		}
		return list
	}
	return v
}

// isQuantity reports whether a field of a pod holds quantities.
func isQuantity(name string) bool {
	return name == "resources" || name == "overhead" || name == "sizeLimit" || name == "divisor"
}

// maxKey bounds the length of a key.
const maxKey = 16 << 10

// Key returns a key that is equal for objects whose pods get the same result from all
// checks: it holds all that [Read] reads except images, for which see [ImageKey]. It is
// "" if there is no pod, or if the pod is larger than maxKey or not JSON.
func Key(object map[string]any, at string) string {
	v, _ := render.Lookup(object, at)
	template, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	metadata := at + "/metadata"
	if at == cronJobPod {
		metadata = cronJobMetadata
	}
	meta, _ := render.Lookup(object, metadata)
	k := key{bytes: make([]byte, 0, 512)}
	k.text(at)
	found := annotations(meta)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		k.text(name)
		k.text(found[name])
	}
	k.bytes = append(k.bytes, 'e')
	k.value(template["spec"], false)
	if k.unfit || len(k.bytes) > maxKey {
		return ""
	}
	return string(k.bytes)
}

// ImageKey returns a key that is equal for lists of images of which the excludes select
// the same ones. The images are those of a pod's containers ([Images]).
func ImageKey(excludes []Exclude, images []string) string {
	var b []byte
	for i := range excludes {
		if len(excludes[i].Images) == 0 {
			continue
		}
		for _, image := range images {
			if pattern.AnyWildcard(excludes[i].Images, image) {
				b = append(b, '+')
			} else {
				b = append(b, '-')
			}
		}
	}
	return string(b)
}

// Images returns the images of the containers of the pod at a pointer of an object.
func Images(object map[string]any, at string) (images []string) {
	for _, name := range containerLists {
		list, _ := render.Lookup(object, at+"/spec/"+name)
		containers, _ := list.([]any)
		for _, c := range containers {
			m, _ := c.(map[string]any)
			image, _ := m["image"].(string)
			images = append(images, image)
		}
	}
	return images
}

// A key is written with types and lengths, so that different values have different
// keys.
type key struct {
	bytes []byte
	unfit bool
}

func (k *key) text(s string) {
	k.bytes = append(binary.AppendUvarint(append(k.bytes, 's'), uint64(len(s))), s...)
}

// value writes a value as WithoutQuantities would return it.
func (k *key) value(v any, container bool) {
	if len(k.bytes) > maxKey {
		k.unfit = true
		return
	}
	switch v := v.(type) {
	case nil:
		k.bytes = append(k.bytes, '0')
	case bool:
		k.bytes = append(k.bytes, 'f')
		if v {
			k.bytes[len(k.bytes)-1] = 't'
		}
	case int64:
		k.bytes = binary.AppendVarint(append(k.bytes, 'i'), v)
	case float64:
		k.bytes = binary.BigEndian.AppendUint64(append(k.bytes, 'd'), math.Float64bits(v))
	case string:
		k.text(v)
	case []any:
		k.bytes = binary.AppendUvarint(append(k.bytes, 'l'), uint64(len(v)))
		for _, e := range v {
			k.value(e, container)
		}
	case map[string]any:
		k.object(v, container)
	default:
		k.unfit = true
	}
}

func (k *key) object(m map[string]any, container bool) {
	k.bytes = append(k.bytes, 'm')
	for _, name := range slices.Sorted(maps.Keys(m)) {
		switch _, isText := m[name].(string); {
		case isQuantity(name), container && name == "image" && isText:
			continue
		}
		k.text(name)
		k.value(m[name], !container && slices.Contains(containerLists, name))
	}
	k.bytes = append(k.bytes, 'e')
}

var containerLists = []string{"initContainers", "containers", "ephemeralContainers"}
