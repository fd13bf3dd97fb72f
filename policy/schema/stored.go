package schema

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/preadmit/preadmit/render"
)

// stored lists the changes to objects when the API server converts them to its
// internal types and back, which is the form that admission sees: the
// conversion.go files of k8s.io/kubernetes/pkg/apis/*/v*, where they do more
// than copy.
var stored = []rule{
	on(func(_ release, p *corev1.Pod) {
		dropInitAnnotations(&p.Annotations)
		if seconds := p.Spec.TerminationGracePeriodSeconds; seconds != nil && *seconds < 0 {
			*seconds = 1
		}
	}),
	on(func(_ release, t *corev1.PodTemplateSpec) { dropInitAnnotations(&t.Annotations) }),
	on(func(_ release, s *corev1.PodSpec) {
		fill(&s.ServiceAccountName, s.DeprecatedServiceAccount)
		s.DeprecatedServiceAccount = s.ServiceAccountName
	}),
	on(func(_ release, s *corev1.PodStatus) {
		if s.PodIP != "" && (len(s.PodIPs) == 0 || s.PodIPs[0].IP != s.PodIP) {
			s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
		}
		if len(s.PodIPs) > 0 {
			s.PodIP = s.PodIPs[0].IP
		}
	}),
	on(func(_ release, s *corev1.NodeSpec) {
		if s.PodCIDR != "" && (len(s.PodCIDRs) == 0 || s.PodCIDRs[0] != s.PodCIDR) {
			s.PodCIDRs = []string{s.PodCIDR}
		}
		if len(s.PodCIDRs) > 0 {
			s.PodCIDR = s.PodCIDRs[0]
		}
	}),
	on(secret),
	on(func(_ release, n *corev1.Namespace) { finalize(n) }),
	on(func(_ release, d *appsv1.Deployment) {
		if u := d.Spec.Strategy.RollingUpdate; u != nil {
			fillPtr(&u.MaxUnavailable, intstr.FromInt32(0))
			fillPtr(&u.MaxSurge, intstr.FromInt32(0))
		}
		if revision, ok := d.Annotations[appsv1.DeprecatedRollbackTo]; ok && revision == "" {
			delete(d.Annotations, appsv1.DeprecatedRollbackTo)
		} else if ok {
			d.Annotations[appsv1.DeprecatedRollbackTo] = integer(revision)
		}
	}),
	on(func(_ release, d *appsv1.DaemonSet) {
		if u := d.Spec.UpdateStrategy.RollingUpdate; u != nil {
			fillPtr(&u.MaxUnavailable, intstr.FromInt32(0))
			fillPtr(&u.MaxSurge, intstr.FromInt32(0))
		}
		if d.Annotations == nil {
			d.Annotations = map[string]string{}
		}
		d.Annotations[appsv1.DeprecatedTemplateGeneration] = integer(d.Annotations[appsv1.DeprecatedTemplateGeneration])
	}),
	on(func(_ release, s *appsv1.StatefulSet) {
		if u := s.Spec.UpdateStrategy.RollingUpdate; u != nil {
			fillPtr(&u.Partition, 0)
		}
		for i := range s.Spec.VolumeClaimTemplates {
			s.Spec.VolumeClaimTemplates[i].APIVersion = "v1"
			s.Spec.VolumeClaimTemplates[i].Kind = "PersistentVolumeClaim"
		}
	}),
	on(func(_ release, h *autoscalingv1.HorizontalPodAutoscaler) { *h = *hpaV1(hpaV2(h)) }),
	on(func(_ release, h *autoscalingv2.HorizontalPodAutoscaler) { dropHPAAnnotations(h.Annotations) }),
	on(func(_ release, d *apiextensionsv1.CustomResourceDefinition) { storedCRD(d) }),
	on(func(_ release, d *resourcev1beta1.Device) { fillPtr(&d.Basic, resourcev1beta1.BasicDevice{}) }),
	on(func(_ release, c *flowcontrolv1beta3.PriorityLevelConfiguration) {
		delete(c.Annotations, flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey)
		if c.Spec.Limited == nil || c.Spec.Limited.NominalConcurrencyShares != 0 {
			return
		}
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey] = ""
	}),
}

// integer formats a number as the API server does. It must be valid.
func integer(s string) string {
	n, _ := strconv.ParseInt(s, 10, 64)
	return strconv.FormatInt(n, 10)
}

// refuse returns the API server's error about an annotation from which a field
// of the stored form is read.
func refuse(typed any) error {
	switch o := typed.(type) {
	case *appsv1.Deployment:
		revision := o.Annotations[appsv1.DeprecatedRollbackTo]
		if _, err := strconv.ParseInt(revision, 10, 64); revision != "" && err != nil {
			return fieldError(fmt.Errorf("failed to parse annotation[%s]=%s as int64: %w", appsv1.DeprecatedRollbackTo, revision, err),
				render.Pointer("metadata", "annotations", appsv1.DeprecatedRollbackTo))
		}
	case *appsv1.DaemonSet:
		generation, ok := o.Annotations[appsv1.DeprecatedTemplateGeneration]
		if _, err := strconv.ParseInt(generation, 10, 64); ok && err != nil {
			return fieldError(err, render.Pointer("metadata", "annotations", appsv1.DeprecatedTemplateGeneration))
		}
	case *autoscalingv1.HorizontalPodAutoscaler:
		return refuseHPA(o.Annotations)
	}
	return nil
}

// dropInitAnnotations drops the annotations that held init containers in
// Kubernetes 1.5.
func dropInitAnnotations(annotations *map[string]string) {
	for _, level := range []string{"alpha", "beta"} {
		delete(*annotations, "pod."+level+".kubernetes.io/init-containers")
		delete(*annotations, "pod."+level+".kubernetes.io/init-container-statuses")
	}
}

// secret moves stringData, which can only be written, into data.
func secret(_ release, s *corev1.Secret) {
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

// storedCRD converts a definition to the API server's internal type and back. If
// that fails, the definition stays unchanged, and its validation reports why.
func storedCRD(d *apiextensionsv1.CustomResourceDefinition) {
	var internal apiextensions.CustomResourceDefinition
	var back apiextensionsv1.CustomResourceDefinition
	if apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(d, &internal, nil) != nil ||
		apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(&internal, &back, nil) != nil {
		return
	}
	back.TypeMeta = d.TypeMeta
	*d = back
}

// finalize sets the finalizer that the strategy of namespaces sets on creation.
func finalize(n *corev1.Namespace) {
	for _, f := range n.Spec.Finalizers {
		if f == corev1.FinalizerKubernetes {
			return
		}
	}
	n.Spec.Finalizers = append(n.Spec.Finalizers, corev1.FinalizerKubernetes)
}
