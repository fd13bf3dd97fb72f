// Package kindcheck validates objects of built-in kinds as the API server does
// before it stores them.
//
// [Check] takes an object as client-go's type, defaulted, and for an update the
// one before; it returns a [Fault] for each error that the server would give,
// with its fields. Package schema decodes the objects and makes results of the
// faults; it is the only caller.
//
// To add a check of a kind: write a method of check in the file of the kind, and
// call it from kind in check.go, or from update in update.go if it refuses a
// change. Fields without a check here pass.
package kindcheck

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Object is an object to validate: values of client-go's types, as the
// API server holds them.
type Object struct {
	Kind       schema.GroupVersionKind
	Namespaced bool
	Now, Old   any                                    // pointers; Old is nil on creation
	Autoscaler *autoscalingv2.HorizontalPodAutoscaler // Now as v2, if it is one of autoscaling/v1
}

// Check returns the faults that Kubernetes 1.minor finds in the object.
func Check(o Object, minor int) []*Fault {
	c := &check{release: release(minor)}
	c.object(o)
	return c.faults
}

// object validates an object as the API server does before it stores it: with
// defaults, and without the status, which it resets. The specification is
// k8s.io/kubernetes/pkg/apis/*/validation; fields without a check here pass.
func (c *check) object(o Object) {
	now, old := o.Now, o.Old
	late := o.Kind.Kind == "Event" || o.Kind.Kind == "PodDisruptionBudget" // whose metadata come last
	m, _ := now.(metav1.Object)
	if m != nil && !late {
		c.meta(metaOf(m), o, old == nil)
	}
	c.kind(o)
	if m != nil && late && len(c.faults) == 0 && o.Kind.Kind != "Event" {
		c.meta(metaOf(m), o, old == nil)
	}
	if old != nil {
		c.update(now, old)
	}
}

// kind validates spec, or the fields of a kind without spec.
func (c *check) kind(all Object) {
	spec, old := Top.In("spec"), all.Old
	switch o := all.Now.(type) {
	case *corev1.Pod:
		c.pod(o, old == nil)
	case *corev1.PodTemplate:
		c.template(&o.Template, Top.In("template"))
	case *corev1.ReplicationController:
		c.replicationController(&o.Spec, spec)
	case *appsv1.Deployment:
		c.deployment(&o.Spec, spec)
	case *appsv1.ReplicaSet:
		c.replicaSet(&o.Spec, spec)
	case *appsv1.DaemonSet:
		c.daemonSet(&o.Spec, spec)
	case *appsv1.StatefulSet:
		c.statefulSet(&o.Spec, spec, old == nil)
	case *batchv1.Job:
		c.job(o, spec)
	case *batchv1.CronJob:
		c.cronJob(o, old == nil)
	case *corev1.Service:
		was, _ := old.(*corev1.Service)
		c.service(o, was)
	case *corev1.ConfigMap:
		c.configMap(o)
	case *corev1.Secret:
		c.secret(o)
	case *corev1.PersistentVolumeClaim:
		c.claim(&o.Spec, spec)
	case *corev1.PersistentVolume:
		c.volume(&o.Spec, spec)
	case *corev1.LimitRange:
		c.limitRange(&o.Spec, spec)
	case *corev1.ResourceQuota:
		c.resourceQuota(&o.Spec, spec)
	case *networkingv1.Ingress:
		c.ingress(o, old == nil)
	case *networkingv1.IngressClass:
		c.ingressClass(&o.Spec, spec)
	case *networkingv1.NetworkPolicy:
		c.networkPolicy(&o.Spec, spec)
	case *rbacv1.Role:
		c.policyRules(o.Rules, true)
	case *rbacv1.ClusterRole:
		c.clusterRole(o)
	case *rbacv1.RoleBinding:
		c.binding(o.RoleRef, o.Subjects, true)
	case *rbacv1.ClusterRoleBinding:
		c.binding(o.RoleRef, o.Subjects, false)
	case *autoscalingv1.HorizontalPodAutoscaler:
		c.autoscaler(&all.Autoscaler.Spec, spec)
	case *autoscalingv2.HorizontalPodAutoscaler:
		c.autoscaler(&o.Spec, spec)
	case *policyv1.PodDisruptionBudget:
		c.disruptionBudget(&o.Spec, spec)
	case *schedulingv1.PriorityClass:
		if old == nil { // updates are validated by updatePriorityClass alone
			c.priorityClass(o)
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		was, ok := old.(*admissionv1.ValidatingWebhookConfiguration)
		if !ok {
			was = &admissionv1.ValidatingWebhookConfiguration{}
		}
		c.validatingWebhooks(o.Webhooks, was.Webhooks)
	case *admissionv1.MutatingWebhookConfiguration:
		was, ok := old.(*admissionv1.MutatingWebhookConfiguration)
		if !ok {
			was = &admissionv1.MutatingWebhookConfiguration{}
		}
		c.mutatingWebhooks(o.Webhooks, was.Webhooks)
	case *admissionv1.ValidatingAdmissionPolicy:
		c.admissionPolicy(&o.Spec, spec)
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		c.admissionBinding(&o.Spec, spec)
	case *coordinationv1.Lease:
		c.lease(&o.Spec, spec)
	case *storagev1.StorageClass:
		c.storageClass(o)
	case *nodev1.RuntimeClass:
		c.runtimeClass(o)
	case *corev1.Endpoints:
		was, _ := old.(*corev1.Endpoints)
		c.endpoints(o, was)
	case *discoveryv1.EndpointSlice:
		was, _ := old.(*discoveryv1.EndpointSlice)
		c.endpointSlice(o, was)
	}
}

func metaOf(o metav1.Object) *metav1.ObjectMeta {
	if a, ok := o.(metav1.ObjectMetaAccessor); ok {
		if m, ok := a.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return m
		}
	}
	return &metav1.ObjectMeta{
		Name: o.GetName(), GenerateName: o.GetGenerateName(), Namespace: o.GetNamespace(),
		Labels: o.GetLabels(), Annotations: o.GetAnnotations(), Finalizers: o.GetFinalizers(), OwnerReferences: o.GetOwnerReferences(),
	}
}
