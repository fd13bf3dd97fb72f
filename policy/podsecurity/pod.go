package podsecurity

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/podsecurity"
	"github.com/preadmit/preadmit/render"
)

// ignoredSubresources are subresources of pods without a pod.
var ignoredSubresources = map[string]bool{
	"exec": true, "attach": true, "binding": true, "eviction": true,
	"log": true, "portforward": true, "proxy": true, "status": true,
}

// examined reports whether the plugin checks the request's subresource.
func examined(req *policy.Request) bool {
	if req.SubResource == "" {
		return true
	}
	return isPod(req) && !ignoredSubresources[req.SubResource]
}

func isPod(req *policy.Request) bool { return req.Kind.GroupKind() == schema.GroupKind{Kind: "Pod"} }

// A pod is the pod that the controls check, with its place in its object.
type pod struct {
	meta *metav1.ObjectMeta
	spec *corev1.PodSpec
	at   string // pointer of the parent of metadata and spec: "" for a Pod

	read *podsecurity.Pod // for finding fields; nil until they are needed
}

// extract reads the pod at a pointer of an admitted object. It returns nil if there
// is none, as in some ReplicationControllers.
func extract(tree map[string]any, at string) (*pod, error) {
	v, ok := render.Lookup(tree, at)
	template, isMap := v.(map[string]any)
	if !ok || !isMap {
		return nil, nil
	}
	p := &pod{meta: &metav1.ObjectMeta{}, spec: &corev1.PodSpec{}, at: at}
	if meta, ok := template["metadata"].(map[string]any); ok {
		p.meta.Annotations = stringMap(meta["annotations"])
	}
	if spec, ok := template["spec"].(map[string]any); ok {
		clean, _ := podsecurity.WithoutQuantities(spec).(map[string]any)
		return p, runtime.DefaultUnstructuredConverter.FromUnstructured(clean, p.spec)
	}
	return p, nil
}

// typedPod is extract for an admitted object in its Go type. It returns nil for other
// types.
func typedPod(typed any, at string) *pod {
	switch o := typed.(type) {
	case *corev1.Pod:
		return &pod{meta: &o.ObjectMeta, spec: &o.Spec, at: at}
	case *appsv1.Deployment:
		return podOf(&o.Spec.Template, at)
	case *appsv1.StatefulSet:
		return podOf(&o.Spec.Template, at)
	case *appsv1.DaemonSet:
		return podOf(&o.Spec.Template, at)
	case *appsv1.ReplicaSet:
		return podOf(&o.Spec.Template, at)
	case *batchv1.Job:
		return podOf(&o.Spec.Template, at)
	case *batchv1.CronJob:
		return podOf(&o.Spec.JobTemplate.Spec.Template, at)
	}
	return nil
}

func podOf(t *corev1.PodTemplateSpec, at string) *pod {
	return &pod{meta: &t.ObjectMeta, spec: &t.Spec, at: at}
}

// stringMap returns the strings of a map; an admitted object has no other values.
func stringMap(v any) map[string]string {
	m, _ := v.(map[string]any)
	found := make(map[string]string, len(m))
	for k, x := range m {
		if s, ok := x.(string); ok {
			found[k] = s
		}
	}
	return found
}

// significant reports whether the plugin checks a request: an update of a pod only if
// it adds or removes containers or changes an image.
func significant(req *policy.Request, p *pod) bool {
	if req.Operation != policy.Update || !isPod(req) || req.OldAdmitted == nil {
		return true
	}
	old, err := extract(req.OldAdmitted, p.at)
	if err != nil || old == nil {
		return true
	}
	if !sameImages(p.spec.Containers, old.spec.Containers) || !sameImages(p.spec.InitContainers, old.spec.InitContainers) {
		return true
	}
	images := make(map[string]string)
	for _, c := range old.spec.EphemeralContainers {
		images[c.Name] = c.Image
	}
	for _, c := range p.spec.EphemeralContainers {
		if was, ok := images[c.Name]; !ok || was != c.Image {
			return true
		}
	}
	return false
}

func sameImages(a, b []corev1.Container) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Image != b[i].Image {
			return false
		}
	}
	return true
}
