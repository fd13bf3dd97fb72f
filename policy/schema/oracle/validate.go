package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/ingressclass"
	"k8s.io/kubernetes/pkg/registry/networking/ipaddress"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"
)

// A strategy is what the registry asks about the objects of a kind.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// strategies are those of the kinds that people write, by stored kind.
var strategies = map[string]strategy{
	"MutatingAdmissionPolicy.admissionregistration.k8s.io":          mutatingadmissionpolicy.NewStrategy(nil, nil),
	"MutatingAdmissionPolicyBinding.admissionregistration.k8s.io":   mutatingadmissionpolicybinding.NewStrategy(nil, nil, noResources{}),
	"MutatingWebhookConfiguration.admissionregistration.k8s.io":     mutatingwebhookconfiguration.Strategy,
	"ValidatingAdmissionPolicy.admissionregistration.k8s.io":        validatingadmissionpolicy.NewStrategy(nil, nil),
	"ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io": validatingadmissionpolicybinding.NewStrategy(nil, nil, noResources{}),
	"ValidatingWebhookConfiguration.admissionregistration.k8s.io":   validatingwebhookconfiguration.Strategy,
	"ControllerRevision.apps":                                       controllerrevision.Strategy,
	"DaemonSet.apps":                                                daemonset.Strategy,
	"Deployment.apps":                                               deployment.Strategy,
	"ReplicaSet.apps":                                               replicaset.Strategy,
	"StatefulSet.apps":                                              statefulset.Strategy,
	"HorizontalPodAutoscaler.autoscaling":                           horizontalpodautoscaler.Strategy,
	"CronJob.batch":                                                 cronjob.Strategy,
	"Job.batch":                                                     job.Strategy,
	"CertificateSigningRequest.certificates.k8s.io":                 certificates.Strategy,
	"Lease.coordination.k8s.io":                                     lease.Strategy,
	"ConfigMap":                                                     configmap.Strategy,
	"Endpoints":                                                     endpoint.Strategy,
	"Event":                                                         event.Strategy,
	"LimitRange":                                                    limitrange.Strategy,
	"Namespace":                                                     namespace.Strategy,
	"Node":                                                          node.Strategy,
	"PersistentVolume":                                              persistentvolume.Strategy,
	"PersistentVolumeClaim":                                         persistentvolumeclaim.Strategy,
	"Pod":                                                           pod.Strategy,
	"PodTemplate":                                                   podtemplate.Strategy,
	"ReplicationController":                                         replicationcontroller.Strategy,
	"ResourceQuota":                                                 resourcequota.Strategy,
	"Secret":                                                        secret.Strategy,
	"Service":                                                       service.Strategy,
	"ServiceAccount":                                                serviceaccount.Strategy,
	"EndpointSlice.discovery.k8s.io":                                endpointslice.Strategy,
	"FlowSchema.flowcontrol.apiserver.k8s.io":                       flowschema.Strategy,
	"PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io": prioritylevelconfiguration.Strategy,
	"Ingress.networking.k8s.io":                               ingress.Strategy,
	"IngressClass.networking.k8s.io":                          ingressclass.Strategy,
	"IPAddress.networking.k8s.io":                             ipaddress.Strategy,
	"NetworkPolicy.networking.k8s.io":                         networkpolicy.Strategy,
	"ServiceCIDR.networking.k8s.io":                           servicecidr.Strategy,
	"RuntimeClass.node.k8s.io":                                runtimeclass.Strategy,
	"PodDisruptionBudget.policy":                              poddisruptionbudget.Strategy,
	"ClusterRole.rbac.authorization.k8s.io":                   clusterrole.Strategy,
	"ClusterRoleBinding.rbac.authorization.k8s.io":            clusterrolebinding.Strategy,
	"Role.rbac.authorization.k8s.io":                          role.Strategy,
	"RoleBinding.rbac.authorization.k8s.io":                   rolebinding.Strategy,
	"DeviceClass.resource.k8s.io":                             deviceclass.Strategy,
	"ResourceClaim.resource.k8s.io":                           resourceclaim.NewStrategy(nil, nil),
	"ResourceClaimTemplate.resource.k8s.io":                   resourceclaimtemplate.NewStrategy(nil),
	"PriorityClass.scheduling.k8s.io":                         priorityclass.Strategy,
	"CSIDriver.storage.k8s.io":                                csidriver.Strategy,
	"StorageClass.storage.k8s.io":                             storageclass.Strategy,
	"VolumeAttributesClass.storage.k8s.io":                    volumeattributesclass.Strategy,
}

// noResources resolves none, as where a parameter's kind is not served.
type noResources struct{}

func (noResources) Resolve(gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	return schema.GroupVersionResource{}, fmt.Errorf("no %s", gvk)
}

// A fault is one error of a field, or of decoding, which has none.
type fault struct {
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

var strictDecoder = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// validate says what is wrong with an object: to create it, or to update the
// old one to it.
func validate(req request) ([]fault, error) {
	object, gvk, faults := decodeStrict(req.Object)
	if len(faults) > 0 {
		return faults, nil
	}
	s := strategies[stored(gvk).String()]
	if s == nil {
		return nil, fmt.Errorf("no strategy for %s", gvk.Kind)
	}
	ctx, accessor, err := prepare(s, object, gvk)
	if err != nil {
		return nil, err
	}
	if s, ok := object.(*core.Service); ok {
		if faults := families(s); len(faults) > 0 {
			return faults, nil
		}
	}
	if len(req.Old) == 0 {
		return faultsOf(rest.BeforeCreate(s, ctx, object))
	}
	old, _, faults := decodeStrict(req.Old)
	if len(faults) > 0 {
		return faults, nil
	}
	_, was, err := prepare(s, old, gvk)
	if err != nil {
		return nil, err
	}
	was.SetUID("u")
	switch o := object.(type) {
	case *core.Service:
		keepAllocated(o, old.(*core.Service))
	case *core.PersistentVolumeClaim:
		bind(old.(*core.PersistentVolumeClaim))
	case *batch.Job:
		s.PrepareForCreate(ctx, old)
		keepGenerated(o, old.(*batch.Job))
	}
	was.SetResourceVersion("1")
	accessor.SetUID("u")
	accessor.SetResourceVersion("1")
	return faultsOf(rest.BeforeUpdate(s, ctx, object, old))
}

func stored(gvk schema.GroupVersionKind) schema.GroupKind {
	gk, _ := internal{gvk.GroupKind()}.KindForGroupVersionKinds(nil)
	return gk.GroupKind()
}

// decodeStrict decodes, defaults and converts to the stored form.
func decodeStrict(data json.RawMessage) (runtime.Object, schema.GroupVersionKind, []fault) {
	decoded, gvk, err := strictDecoder.Decode(data, nil, nil)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		var faults []fault
		for _, e := range strict.Errors() {
			faults = append(faults, fault{Message: e.Error()})
		}
		return nil, schema.GroupVersionKind{}, faults
	}
	if err != nil {
		return nil, schema.GroupVersionKind{}, []fault{{Message: err.Error()}}
	}
	legacyscheme.Scheme.Default(decoded)
	object, err := legacyscheme.Scheme.ConvertToVersion(decoded, internal{gvk.GroupKind()})
	if err != nil {
		return nil, *gvk, []fault{{Message: err.Error()}}
	}
	return object, *gvk, nil
}

// prepare does what the create handler and the registry do before a strategy
// has its say.
func prepare(s strategy, object runtime.Object, gvk schema.GroupVersionKind) (context.Context, metav1.Object, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, nil, err
	}
	if s.NamespaceScoped() && accessor.GetNamespace() == "" {
		accessor.SetNamespace("default")
	}
	if !s.NamespaceScoped() {
		accessor.SetNamespace("")
	}
	rest.FillObjectMetaSystemFields(accessor)
	if accessor.GetName() == "" && accessor.GetGenerateName() != "" {
		accessor.SetName(s.GenerateName(accessor.GetGenerateName()))
	}
	complete(object)
	ctx := apirequest.WithNamespace(context.Background(), accessor.GetNamespace())
	ctx = apirequest.WithRequestInfo(ctx, &apirequest.RequestInfo{
		IsResourceRequest: true, APIGroup: gvk.Group, APIVersion: gvk.Version, Namespace: accessor.GetNamespace(), Name: accessor.GetName(),
	})
	return ctx, accessor, nil
}

// complete does what admission plugins that are on by default and the allocators
// of Services do, as far as validation looks at it.
func complete(object runtime.Object) {
	switch o := object.(type) {
	case *core.Pod:
		if o.Spec.ServiceAccountName == "" {
			o.Spec.ServiceAccountName = "default"
		}
	case *core.Service:
		if o.Spec.ClusterIP != "" && len(o.Spec.ClusterIPs) == 0 {
			o.Spec.ClusterIPs = []string{o.Spec.ClusterIP}
		}
		local := o.Spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal
		if o.Spec.Type == core.ServiceTypeLoadBalancer && local && o.Spec.HealthCheckNodePort == 0 {
			o.Spec.HealthCheckNodePort = 30000
		}
	}
}

// families are the faults that the allocator of addresses finds before the validation
// (initIPFamilyFields of pkg/registry/core/service/storage) and that do not depend on the cluster.
func families(s *core.Service) []fault {
	single := core.IPFamilyPolicySingleStack
	policy := s.Spec.IPFamilyPolicy
	headless := s.Spec.ClusterIP == core.ClusterIPNone && len(s.Spec.Selector) == 0
	if policy == nil && !headless {
		policy = &single
	}
	if s.Spec.Type == core.ServiceTypeExternalName || policy == nil || *policy != single || len(validation.ValidateServiceClusterIPsRelatedFields(s, nil)) > 0 {
		return nil
	}
	const field, text = "spec.ipFamilyPolicy", `Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple `
	var faults []fault
	if len(s.Spec.ClusterIPs) == 2 {
		faults = append(faults, fault{field, text + "cluster IPs are specified"})
	}
	if len(s.Spec.IPFamilies) == 2 {
		faults = append(faults, fault{field, text + "IP families are specified"})
	}
	return faults
}

// keepAllocated gives a Service that is updated the address that the cluster gave it, as
// normalizeClusterIPs and patchAllocatedValues of pkg/registry/core/service/storage do.
func keepAllocated(now, old *core.Service) {
	if now.Spec.Type == core.ServiceTypeExternalName || old.Spec.Type == core.ServiceTypeExternalName {
		return
	}
	if old.Spec.ClusterIP == "" && len(old.Spec.ClusterIPs) == 0 {
		old.Spec.ClusterIP, old.Spec.ClusterIPs = "10.96.0.1", []string{"10.96.0.1"}
	}
	if now.Spec.ClusterIP == "" && len(now.Spec.ClusterIPs) == 0 {
		now.Spec.ClusterIP, now.Spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
	}
	if len(now.Spec.IPFamilies) == 0 {
		now.Spec.IPFamilies = old.Spec.IPFamilies
	}
	if len(old.Spec.IPFamilies) == 0 {
		old.Spec.IPFamilies = now.Spec.IPFamilies
	}
}

// bind gives a claim the status of one that is bound to a volume of the size that it requests.
func bind(c *core.PersistentVolumeClaim) {
	c.Status.Phase = core.ClaimBound
	c.Status.Capacity = core.ResourceList{core.ResourceStorage: c.Spec.Resources.Requests[core.ResourceStorage]}
}

// keepGenerated gives a Job that is updated the selector and labels that the server generated for
// the old one, which clients leave alone.
func keepGenerated(now, old *batch.Job) {
	if now.Spec.Selector != nil || *now.Spec.ManualSelector {
		return
	}
	now.Spec.Selector = old.Spec.Selector
	for key, value := range old.Spec.Selector.MatchLabels {
		metav1.SetMetaDataLabel(&now.Spec.Template.ObjectMeta, key, value)
	}
	for _, key := range []string{batch.JobNameLabel, "job-name", "controller-uid"} {
		metav1.SetMetaDataLabel(&now.Spec.Template.ObjectMeta, key, old.Spec.Template.Labels[key])
	}
}

func faultsOf(err error) ([]fault, error) {
	if err == nil {
		return nil, nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil, err
	}
	var faults []fault
	for _, c := range status.Status().Details.Causes {
		faults = append(faults, fault{c.Field, c.Message})
	}
	if len(faults) == 0 {
		faults = append(faults, fault{Message: err.Error()})
	}
	return faults, nil
}
