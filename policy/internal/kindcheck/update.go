package kindcheck

import (
	"maps"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
)

// update refuses changes of immutable fields.
func (c *check) update(now, old any) {
	spec := Top.In("spec")
	switch o := now.(type) {
	case *corev1.Pod:
		c.updatePod(&o.Spec, &old.(*corev1.Pod).Spec, spec)
	case *appsv1.Deployment:
		c.immutable(spec.In("selector"), o.Spec.Selector, old.(*appsv1.Deployment).Spec.Selector)
	case *appsv1.ReplicaSet:
		c.immutable(spec.In("selector"), o.Spec.Selector, old.(*appsv1.ReplicaSet).Spec.Selector)
	case *appsv1.DaemonSet:
		c.immutable(spec.In("selector"), o.Spec.Selector, old.(*appsv1.DaemonSet).Spec.Selector)
	case *appsv1.StatefulSet:
		c.updateStatefulSet(&o.Spec, &old.(*appsv1.StatefulSet).Spec, spec)
	case *batchv1.Job:
		c.updateJob(&o.Spec, &old.(*batchv1.Job).Spec, spec)
	case *corev1.Service:
		c.updateService(&o.Spec, &old.(*corev1.Service).Spec, spec)
	case *corev1.ConfigMap:
		was := old.(*corev1.ConfigMap)
		c.frozen(o.Immutable, was.Immutable, map[string]bool{
			"data": equality.Semantic.DeepEqual(o.Data, was.Data), "binaryData": equality.Semantic.DeepEqual(o.BinaryData, was.BinaryData),
		})
	case *corev1.Secret:
		was := old.(*corev1.Secret)
		c.immutable(Top.In("type"), o.Type, was.Type)
		c.frozen(o.Immutable, was.Immutable, map[string]bool{"data": equality.Semantic.DeepEqual(o.Data, was.Data)})
	case *rbacv1.RoleBinding:
		c.roleRef(o.RoleRef, old.(*rbacv1.RoleBinding).RoleRef)
	case *rbacv1.ClusterRoleBinding:
		c.roleRef(o.RoleRef, old.(*rbacv1.ClusterRoleBinding).RoleRef)
	case *storagev1.StorageClass:
		was := old.(*storagev1.StorageClass)
		c.immutable(Top.In("parameters"), o.Parameters, was.Parameters)
		c.immutable(Top.In("provisioner"), o.Provisioner, was.Provisioner)
		c.immutable(Top.In("reclaimPolicy"), o.ReclaimPolicy, was.ReclaimPolicy)
		c.immutable(Top.In("volumeBindingMode"), o.VolumeBindingMode, was.VolumeBindingMode)
	case *schedulingv1.PriorityClass:
		was := old.(*schedulingv1.PriorityClass)
		if o.Value != was.Value {
			c.forbidden(Top.In("value"), "may not be changed in an update.").immutable = true
		}
		c.immutable(Top.In("preemptionPolicy"), o.PreemptionPolicy, was.PreemptionPolicy)
	case *storagev1.CSIDriver:
		was := old.(*storagev1.CSIDriver)
		for _, f := range c.immutable(spec.In("attachedRequired"), o.Spec.AttachRequired, was.Spec.AttachRequired) { // so the server's path
			f.at(spec.In("attachRequired"))
		}
		c.immutable(spec.In("volumeLifecycleModes"), o.Spec.VolumeLifecycleModes, was.Spec.VolumeLifecycleModes)
	case *corev1.PersistentVolume:
		c.updateVolume(&o.Spec, &old.(*corev1.PersistentVolume).Spec, spec)
	case *networkingv1.IngressClass:
		c.immutable(spec.In("controller"), o.Spec.Controller, old.(*networkingv1.IngressClass).Spec.Controller)
	case *nodev1.RuntimeClass:
		c.immutable(Top.In("handler"), o.Handler, old.(*nodev1.RuntimeClass).Handler)
	case *discoveryv1.EndpointSlice:
		c.immutable(Top.In("addressType"), o.AddressType, old.(*discoveryv1.EndpointSlice).AddressType)
	case *corev1.ResourceQuota:
		if is, was := o.Spec.Scopes, old.(*corev1.ResourceQuota).Spec.Scopes; !sameSet(is, was) {
			c.invalid(spec.In("scopes"), is, apivalidation.FieldImmutableErrorMsg)
		}
	case *corev1.PersistentVolumeClaim:
		c.updateClaim(&o.Spec, &old.(*corev1.PersistentVolumeClaim).Spec, spec)
	}
}

func sameSet[T comparable](a, b []T) bool {
	has := func(list []T) func(T) bool { return func(v T) bool { return !slices.Contains(list, v) } }
	return !slices.ContainsFunc(a, has(b)) && !slices.ContainsFunc(b, has(a))
}

// updateVolume refuses changes of a volume's source or mode.
func (c *check) updateVolume(now, old *corev1.PersistentVolumeSpec, p *Spot) {
	is, was := now.PersistentVolumeSource.DeepCopy(), &old.PersistentVolumeSource
	if is.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		is.CSI.ControllerExpandSecretRef = nil // which may be added
	}
	if !equality.Semantic.DeepEqual(is, was) {
		f := c.forbidden(p.In("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation")
		f.immutable, f.Fields = true, nil
		for _, kind := range sourceKinds(reflect.ValueOf(is).Elem()) {
			f.also(p.In(kind))
		}
		if len(f.Fields) == 0 {
			f.also(p)
		}
	}
	c.volumeMode(now.VolumeMode, old.VolumeMode, p)
}

// volumeMode refuses a change of the mode of a volume or claim; the server's path lacks spec.
func (c *check) volumeMode(now, old *corev1.PersistentVolumeMode, p *Spot) {
	for _, f := range c.immutable(Top.In("volumeMode"), now, old) {
		f.at(p.In("volumeMode"))
	}
}

const podFields = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`," +
	"`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// updatePod refuses most changes but those of images.
func (c *check) updatePod(now, old *corev1.PodSpec, p *Spot) {
	if len(now.Containers) != len(old.Containers) {
		c.forbidden(p.In("containers"), "pod updates may not add or remove containers").immutable = true
		return
	}
	if len(now.InitContainers) != len(old.InitContainers) {
		c.forbidden(p.In("initContainers"), "pod updates may not add or remove containers").immutable = true
		return
	}
	same := now.DeepCopy()
	for i := range same.Containers {
		same.Containers[i].Image = old.Containers[i].Image
	}
	for i := range same.InitContainers {
		same.InitContainers[i].Image = old.InitContainers[i].Image
	}
	same.ActiveDeadlineSeconds, same.Tolerations, same.SchedulingGates = old.ActiveDeadlineSeconds, old.Tolerations, old.SchedulingGates
	if len(old.SchedulingGates) == 0 && !equality.Semantic.DeepEqual(same, old) {
		c.forbidden(p, podFields).immutable = true
	}
}

func (c *check) updateStatefulSet(now, old *appsv1.StatefulSetSpec, p *Spot) {
	same := *old
	same.Replicas, same.Template, same.UpdateStrategy, same.MinReadySeconds = now.Replicas, now.Template, now.UpdateStrategy, now.MinReadySeconds
	same.Ordinals, same.RevisionHistoryLimit, same.PersistentVolumeClaimRetentionPolicy = now.Ordinals, now.RevisionHistoryLimit, now.PersistentVolumeClaimRetentionPolicy
	if equality.Semantic.DeepEqual(&same, now) {
		return
	}
	f := c.forbidden(p, "updates to statefulset spec for fields other than "+c.statefulFields()+" are forbidden")
	f.immutable = true
	f.Fields = nil
	for _, part := range []struct {
		name string
		same bool
	}{
		{"serviceName", now.ServiceName == old.ServiceName},
		{"selector", equality.Semantic.DeepEqual(now.Selector, old.Selector)},
		{"volumeClaimTemplates", equality.Semantic.DeepEqual(now.VolumeClaimTemplates, old.VolumeClaimTemplates)},
		{"podManagementPolicy", now.PodManagementPolicy == old.PodManagementPolicy},
	} {
		if !part.same {
			f.also(p.In(part.name))
		}
	}
	if len(f.Fields) == 0 {
		f.also(p)
	}
}

// statefulFields lists the mutable fields: revisionHistoryLimit since 1.33.
func (c *check) statefulFields() string {
	if c.release < 33 {
		return "'replicas', 'ordinals', 'template', 'updateStrategy', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds'"
	}
	return "'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds'"
}

// suspendedResources is the release since which the resources of suspended Jobs are
// mutable by default (MutablePodResourcesForSuspendedJobs).
const suspendedResources release = 36

// updateSuspended refuses changes of a suspended Job's template except where its Pods
// run and, in newer releases, their resources.
func (c *check) updateSuspended(now, old *corev1.PodTemplateSpec, p *Spot) {
	same := old.DeepCopy()
	same.Labels, same.Annotations, same.Spec.NodeSelector = now.Labels, now.Annotations, now.Spec.NodeSelector
	same.Spec.Tolerations, same.Spec.SchedulingGates = now.Spec.Tolerations, now.Spec.SchedulingGates
	var affinity corev1.Affinity
	if same.Spec.Affinity != nil {
		affinity = *same.Spec.Affinity
	}
	affinity.NodeAffinity = nil
	if now.Spec.Affinity != nil {
		affinity.NodeAffinity = now.Spec.Affinity.NodeAffinity
	}
	if same.Spec.Affinity = &affinity; now.Spec.Affinity == nil && affinity == (corev1.Affinity{}) {
		same.Spec.Affinity = nil
	}
	if c.release >= suspendedResources {
		p = p.In("spec")
		same.ObjectMeta = now.ObjectMeta
		keepResources(same.Spec.Containers, now.Spec.Containers)
		keepResources(same.Spec.InitContainers, now.Spec.InitContainers)
	}
	if !equality.Semantic.DeepEqual(now, same) {
		c.omitted(p, apivalidation.FieldImmutableErrorMsg)
	}
}

func keepResources(same, now []corev1.Container) {
	for i := range same {
		if len(same) == len(now) && same[i].Name == now[i].Name {
			same[i].Resources = now[i].Resources
		}
	}
}

// updateJob refuses changes of a Job's immutable fields.
func (c *check) updateJob(now, old *batchv1.JobSpec, p *Spot) {
	if suspended := old.Suspend != nil && *old.Suspend; suspended {
		c.updateSuspended(&now.Template, &old.Template, p.In("template"))
	} else if !equality.Semantic.DeepEqual(now.Template, old.Template) {
		c.omitted(p.In("template"), apivalidation.FieldImmutableErrorMsg)
	}
	if !indexed(now) && !equality.Semantic.DeepEqual(now.Completions, old.Completions) {
		c.immutable(p.In("completions"), now.Completions, old.Completions)
	}
	c.immutable(p.In("completionMode"), now.CompletionMode, old.CompletionMode)
	c.immutable(p.In("podFailurePolicy"), now.PodFailurePolicy, old.PodFailurePolicy)
	c.immutable(p.In("backoffLimitPerIndex"), now.BackoffLimitPerIndex, old.BackoffLimitPerIndex)
	c.immutable(p.In("managedBy"), now.ManagedBy, old.ManagedBy)
	c.immutable(p.In("successPolicy"), now.SuccessPolicy, old.SuccessPolicy)
}

// frozen refuses changes of an object that is marked immutable. same is whether each
// field is unchanged.
func (c *check) frozen(now, old *bool, same map[string]bool) {
	if old == nil || !*old {
		return
	}
	const text = "field is immutable when `immutable` is set"
	if now == nil || !*now {
		c.forbidden(Top.In("immutable"), text).immutable = true
	}
	for _, name := range slices.Sorted(maps.Keys(same)) {
		if !same[name] {
			c.forbidden(Top.In(name), text).immutable = true
		}
	}
}

func (c *check) roleRef(now, old rbacv1.RoleRef) {
	if now != old {
		c.invalid(Top.In("roleRef"), now, "cannot change roleRef").immutable = true
	}
}

// updateClaim refuses changes of a claim, except growth and fields that the cluster
// fills in.
func (c *check) updateClaim(now, old *corev1.PersistentVolumeClaimSpec, p *Spot) {
	same := now.DeepCopy()
	same.VolumeAttributesClassName = old.VolumeAttributesClassName
	same.DataSource, same.DataSourceRef = old.DataSource, old.DataSourceRef // compared below
	if old.VolumeName == "" {
		same.VolumeName = ""
	}
	if old.StorageClassName == nil {
		same.StorageClassName = nil
	}
	if same.Resources.Requests == nil {
		same.Resources.Requests = corev1.ResourceList{}
	}
	same.Resources.Requests[corev1.ResourceStorage] = old.Resources.Requests[corev1.ResourceStorage]
	if !equality.Semantic.DeepEqual(same, old) || sourceOf(now) != sourceOf(old) {
		c.forbidden(p, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims").immutable = true
	}
	c.volumeMode(now.VolumeMode, old.VolumeMode, p)
	size, was := now.Resources.Requests[corev1.ResourceStorage], old.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(was) < 0 {
		f := c.forbidden(p.In("resources", "requests", "storage"), "field can not be less than status.capacity")
		f.Assumed = []string{"the claim has the capacity that it requested"}
	}
}

// sourceOf returns the API group, kind and name of what fills a claim: the server keeps a
// dataSource and a dataSourceRef equal.
func sourceOf(s *corev1.PersistentVolumeClaimSpec) [3]string {
	group := func(g *string) string {
		if g == nil {
			return ""
		}
		return *g
	}
	if r := s.DataSourceRef; r != nil {
		if group(r.Namespace) != "" {
			return [3]string{}
		}
		return [3]string{group(r.APIGroup), r.Kind, r.Name}
	}
	if d := s.DataSource; d != nil && fills(group(d.APIGroup), d.Kind) {
		return [3]string{group(d.APIGroup), d.Kind, d.Name}
	}
	return [3]string{}
}
