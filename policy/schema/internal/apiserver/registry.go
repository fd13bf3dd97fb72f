package apiserver

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-aggregator/pkg/registry/apiservice"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/resolver"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicy"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingadmissionpolicybinding"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apiserverinternal/storageversion"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/certificates/clustertrustbundle"
	"k8s.io/kubernetes/pkg/registry/certificates/podcertificaterequest"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/coordination/leasecandidate"
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
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourcepoolstatusrequest"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/podgroup"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/scheduling/workload"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattributesclass"
	"k8s.io/kubernetes/pkg/registry/storagemigration/storagemigration"
)

// A strategy is the server's code for the objects of a kind.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// unasked is the resolver of bindings, which must have one. Without an authorizer they
// do not ask it.
var unasked = resolver.ResourceResolverFunc(func(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	return schema.GroupVersionResource{}, fmt.Errorf("the resource of %s is not known", kind)
})

// strategies returns the strategies by the kind that is stored. Those of policies
// and bindings get no authorizer, so that everybody may refer to parameters.
var strategies = sync.OnceValue(func() map[schema.GroupKind]strategy {
	capabilities.Setup(true, 0) // --allow-privileged, which installers set
	return map[schema.GroupKind]strategy{
		{Group: "apiregistration.k8s.io", Kind: "APIService"}:                             apiservice.NewStrategy(extensions()),
		{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicy"}:          mutatingadmissionpolicy.NewStrategy(nil, nil),
		{Group: "admissionregistration.k8s.io", Kind: "MutatingAdmissionPolicyBinding"}:   mutatingadmissionpolicybinding.NewStrategy(nil, nil, unasked),
		{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:     mutatingwebhookconfiguration.Strategy,
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}:        validatingadmissionpolicy.NewStrategy(nil, nil),
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicyBinding"}: validatingadmissionpolicybinding.NewStrategy(nil, nil, unasked),
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}:   validatingwebhookconfiguration.Strategy,
		{Group: "internal.apiserver.k8s.io", Kind: "StorageVersion"}:                      storageversion.Strategy,
		{Group: "apps", Kind: "ControllerRevision"}:                                       controllerrevision.Strategy,
		{Group: "apps", Kind: "DaemonSet"}:                                                daemonset.Strategy,
		{Group: "apps", Kind: "Deployment"}:                                               deployment.Strategy,
		{Group: "apps", Kind: "ReplicaSet"}:                                               replicaset.Strategy,
		{Group: "apps", Kind: "StatefulSet"}:                                              statefulset.Strategy,
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}:                           horizontalpodautoscaler.Strategy,
		{Group: "batch", Kind: "CronJob"}:                                                 cronjob.Strategy,
		{Group: "batch", Kind: "Job"}:                                                     job.Strategy,
		{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}:                 certificates.Strategy,
		{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}:                        clustertrustbundle.Strategy,
		{Group: "certificates.k8s.io", Kind: "PodCertificateRequest"}:                     podcertificaterequest.NewStrategy(),
		{Group: "coordination.k8s.io", Kind: "Lease"}:                                     lease.Strategy,
		{Group: "coordination.k8s.io", Kind: "LeaseCandidate"}:                            leasecandidate.Strategy,
		{Kind: "ConfigMap"}:             configmap.Strategy,
		{Kind: "Endpoints"}:             endpoint.Strategy,
		{Kind: "Event"}:                 event.Strategy,
		{Kind: "LimitRange"}:            limitrange.Strategy,
		{Kind: "Namespace"}:             namespace.Strategy,
		{Kind: "Node"}:                  node.Strategy,
		{Kind: "PersistentVolume"}:      persistentvolume.Strategy,
		{Kind: "PersistentVolumeClaim"}: persistentvolumeclaim.Strategy,
		{Kind: "Pod"}:                   pod.Strategy,
		{Kind: "PodTemplate"}:           podtemplate.Strategy,
		{Kind: "ReplicationController"}: replicationcontroller.Strategy,
		{Kind: "ResourceQuota"}:         resourcequota.Strategy,
		{Kind: "Secret"}:                secret.Strategy,
		{Kind: "Service"}:               service.Strategy,
		{Kind: "ServiceAccount"}:        serviceaccount.Strategy,
		{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:                          endpointslice.Strategy,
		{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"}:                 flowschema.Strategy,
		{Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"}: prioritylevelconfiguration.Strategy,
		{Group: "networking.k8s.io", Kind: "IPAddress"}:                             ipaddress.Strategy,
		{Group: "networking.k8s.io", Kind: "Ingress"}:                               ingress.Strategy,
		{Group: "networking.k8s.io", Kind: "IngressClass"}:                          ingressclass.Strategy,
		{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:                         networkpolicy.Strategy,
		{Group: "networking.k8s.io", Kind: "ServiceCIDR"}:                           servicecidr.Strategy,
		{Group: "node.k8s.io", Kind: "RuntimeClass"}:                                runtimeclass.Strategy,
		{Group: "policy", Kind: "PodDisruptionBudget"}:                              poddisruptionbudget.Strategy,
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}:                   clusterrole.Strategy,
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:            clusterrolebinding.Strategy,
		{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                          role.Strategy,
		{Group: "rbac.authorization.k8s.io", Kind: "RoleBinding"}:                   rolebinding.Strategy,
		{Group: "resource.k8s.io", Kind: "DeviceClass"}:                             deviceclass.Strategy,
		{Group: "resource.k8s.io", Kind: "DeviceTaintRule"}:                         devicetaintrule.Strategy,
		{Group: "resource.k8s.io", Kind: "ResourceClaim"}:                           resourceclaim.NewStrategy(namespaces{}, nil),
		{Group: "resource.k8s.io", Kind: "ResourceClaimTemplate"}:                   resourceclaimtemplate.NewStrategy(namespaces{}),
		{Group: "resource.k8s.io", Kind: "ResourcePoolStatusRequest"}:               resourcepoolstatusrequest.Strategy,
		{Group: "resource.k8s.io", Kind: "ResourceSlice"}:                           resourceslice.Strategy,
		{Group: "scheduling.k8s.io", Kind: "PodGroup"}:                              podgroup.NewStrategy(),
		{Group: "scheduling.k8s.io", Kind: "PriorityClass"}:                         priorityclass.Strategy,
		{Group: "scheduling.k8s.io", Kind: "Workload"}:                              workload.Strategy,
		{Group: "storage.k8s.io", Kind: "CSIDriver"}:                                csidriver.Strategy,
		{Group: "storage.k8s.io", Kind: "CSINode"}:                                  csinode.Strategy,
		{Group: "storage.k8s.io", Kind: "CSIStorageCapacity"}:                       csistoragecapacity.Strategy,
		{Group: "storage.k8s.io", Kind: "StorageClass"}:                             storageclass.Strategy,
		{Group: "storage.k8s.io", Kind: "VolumeAttachment"}:                         volumeattachment.Strategy,
		{Group: "storage.k8s.io", Kind: "VolumeAttributesClass"}:                    volumeattributesclass.Strategy,
		{Group: "storagemigration.k8s.io", Kind: "StorageVersionMigration"}:         storagemigration.Strategy,
	}
})

// A Request asks to create an object, or to update Old to it. The objects are in the
// request's version, and completed.
type Request struct {
	Kind      schema.GroupVersionKind
	Resource  schema.GroupResource
	Namespace string
	Object    runtime.Object
	Old       runtime.Object    // nil on creation
	Replaces  bool              // the client sends the whole object, which lacks what the cluster has set in the old one
	Plugins   *Plugins          // may be nil
	Others    []*corev1.Service // of the cluster, which have an address or a node port
	Source    any               // identifies the object among the Listed ones
	Name      string            // identifies it on another side of a change; "" if it has none
	Count     int               // how many such objects a controller creates, else 1; 0 if none now
}

// A Cause is a reason for which the server refuses an object.
type Cause struct {
	metav1.StatusCause
	Changed bool   // it refuses the change: it would create the object
	Assumed string // holds of most clusters; "" if the cause holds of all
	Warns   bool   // in a cluster for which this is not so, the object may well be stored
	Plugin  bool   // an admission plugin refuses it
	Several bool   // it would admit one object, but not as many as a controller creates
}

// An Answer is the object as the registry would store it, in the request's version and without what it
// takes from clocks and random numbers, and the causes for which it refuses it instead. Other has the objects
// with other values of what the cluster allocates; it is nil if there are none. Known is false if the kind is
// not stored, and the answer empty.
type Answer struct {
	Object runtime.Object
	Old    runtime.Object // the old Service of an update, with what the cluster allocated; else nil
	Other  *Answer
	Causes []Cause
	Known  bool
}

// Store prepares and validates an object as Kubernetes 1.minor does between mutating
// and validating admission. The request's objects are not changed. The error is
// not nil if the server could not convert an object.
func Store(minor int, r Request) (answer Answer, err error) {
	s := strategies()[stored(r.Kind.GroupKind())]
	if s == nil {
		return Answer{}, nil
	}
	as(minor, func() {
		answer, err = r.store(s, lowest)
		if o, ok := answer.Object.(*corev1.Service); ok && err == nil && len(answer.Causes) == 0 && allocates(o.Spec.Type) {
			var other Answer
			other, err = r.store(s, highest)
			answer.Other = &other
		}
	})
	answer.Causes = slices.DeleteFunc(answer.Causes, func(c Cause) bool {
		return slices.ContainsFunc(added, func(a addition) bool {
			return minor < a.minor && a.kind[r.Kind.Kind] == a.of && strings.HasSuffix(c.Field, a.field)
		})
	})
	return answer, err
}

// An addition is a check that a release added without a feature gate.
type addition struct {
	minor int
	field string // the end of its path
	kind  map[string]bool
	of    bool // whether it concerns the kinds, or all others
}

var added = []addition{
	{33, "spec.serviceName", map[string]bool{"StatefulSet": true}, true},
	{37, ".image.reference", map[string]bool{"Pod": true}, false}, // of a volume
}

func (r Request) store(s strategy, free allocation) (Answer, error) {
	scheme := Scheme(r.Kind.Group)
	object, err := r.internal(s, r.Object)
	if err != nil {
		return Answer{}, err
	}
	ctx := r.context(object)
	var refusal error
	var byPlugins []Cause
	var old runtime.Object
	health := healthPorts{now: healthPort(object)}
	if r.Old == nil {
		if complete(object, free); r.Plugins != nil {
			byPlugins = r.Plugins.admit(object, r.Namespace) // the server calls them again after a mutation
		}
		refusal = rest.BeforeCreate(s, ctx, object)
	} else {
		if old, err = r.internal(s, r.Old); err != nil {
			return Answer{}, err
		}
		health.was = healthPort(old)
		r.keepAllocated(object, old, free)
		setResourceVersion(object, "1")
		setResourceVersion(old, "1")
		refusal = rest.BeforeUpdate(s, ctx, object, old)
		if r.Plugins != nil {
			byPlugins = r.Plugins.admitUpdate(object, old, r.Namespace)
		}
	}
	answer := Answer{Known: true}
	if answer.Causes, err = causes(object, refusal); err != nil {
		return Answer{}, err
	}
	if r.Old != nil && len(answer.Causes) > 0 {
		r.markChanges(s, answer.Causes)
	}
	answer.Causes = append(answer.Causes, allocated(object, old, health, r.Others, len(answer.Causes) == 0)...)
	answer.Causes = append(answer.Causes, byPlugins...)
	if r.Plugins != nil {
		answer.Causes = append(answer.Causes, r.Plugins.quota(r, object, old)...)
	}
	if m, err := meta.Accessor(object); err == nil {
		m.SetUID("")
		m.SetCreationTimestamp(metav1.Time{})
	}
	if len(answer.Causes) == 0 {
		allocate(object, free)
	}
	if answer.Object, err = scheme.UnsafeConvertToVersion(object, r.Kind.GroupVersion()); err != nil {
		return Answer{}, err
	}
	if _, ok := r.Old.(*corev1.Service); ok {
		allocate(old, free)
		answer.Old, err = scheme.UnsafeConvertToVersion(old, r.Kind.GroupVersion())
	}
	return answer, err
}

// markChanges marks the causes for which the server would not refuse to create the object.
func (r Request) markChanges(s strategy, all []Cause) {
	object, err := r.internal(s, r.Object)
	if err != nil {
		return
	}
	ctx := r.context(object)
	complete(object, lowest)
	alone, err := causes(object, rest.BeforeCreate(s, ctx, object))
	if err != nil {
		return
	}
	found := map[metav1.StatusCause]bool{}
	for _, c := range alone {
		found[c.StatusCause] = true
	}
	for i := range all {
		all[i].Changed = !found[all[i].StatusCause]
		r.assume(&all[i])
	}
}

// What the server generates, in place of what it would take from its clock and from
// random numbers.
const (
	uid      types.UID = "00000000-0000-4000-8000-000000000000"
	suffix             = "xxxxx"
	maxNamed           = 63 - len(suffix)
)

// internal returns a copy of an object in its internal type, with the metadata that the
// server gives every object.
func (r Request) internal(s strategy, given runtime.Object) (runtime.Object, error) {
	object := given.DeepCopyObject()
	object.GetObjectKind().SetGroupVersionKind(r.Kind)
	internal, err := toInternal(Scheme(r.Kind.Group), object)
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(internal)
	if err != nil {
		return nil, err
	}
	m.SetNamespace("")
	if s.NamespaceScoped() {
		m.SetNamespace(r.Namespace)
	}
	name := m.GetGenerateName()
	generates := m.GetName() == "" && name != "" // the registry then stores a copy, which shares nothing
	if generates {
		m.SetName(name[:min(len(name), maxNamed)] + suffix)
	}
	m.SetUID(uid)
	m.SetCreationTimestamp(metav1.Unix(0, 0))
	if j, ok := internal.(*batch.Job); ok && !generates && shareLabels(given) {
		j.Labels = j.Spec.Template.Labels
	}
	return internal, nil
}

// shareLabels reports whether a Job and its template have one map of labels, as defaulting gives a Job
// without labels. The labels that the server adds to the template are then the Job's, too.
func shareLabels(given runtime.Object) bool {
	j, ok := given.(*batchv1.Job)
	return ok && len(j.Labels) > 0 && reflect.ValueOf(j.Labels).Pointer() == reflect.ValueOf(j.Spec.Template.Labels).Pointer()
}

func setResourceVersion(object runtime.Object, version string) {
	if m, err := meta.Accessor(object); err == nil {
		m.SetResourceVersion(version)
	}
}

// context returns a request's context, which drops the server's warnings.
func (r Request) context(object runtime.Object) context.Context {
	name := ""
	if m, err := meta.Accessor(object); err == nil {
		name = m.GetName()
	}
	ctx := apirequest.WithNamespace(context.Background(), r.Namespace)
	return apirequest.WithRequestInfo(ctx, &apirequest.RequestInfo{
		IsResourceRequest: true, APIGroup: r.Kind.Group, APIVersion: r.Kind.Version, Namespace: r.Namespace, Name: name,
	})
}

// causes returns the causes of the refusal of an object. If there are none it returns the refusal as an
// error.
func causes(object runtime.Object, refusal error) ([]Cause, error) {
	if refusal == nil {
		return nil, nil
	}
	var status apierrors.APIStatus
	if !errors.As(refusal, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return nil, fmt.Errorf("validation: %w", refusal)
	}
	var all []Cause
	for _, c := range status.Status().Details.Causes {
		if set, ok := object.(*apps.StatefulSet); ok {
			c.Field = volumeOf(set, c)
		}
		cause := Cause{StatusCause: c}
		if strings.HasSuffix(c.Field, ".adminAccess") && c.Type == metav1.CauseTypeForbidden {
			cause.Warns, cause.Assumed = true, "the namespace has no such label"
		}
		all = append(all, cause)
	}
	return all, nil
}

// volumeOf returns the field that a cause is about, as the manifest numbers it. Before the server
// validates the volumes of a StatefulSet's pods, it puts a volume for each claim template in front of
// them, in random order (volumesToAddForTemplates in k8s.io/kubernetes/pkg/apis/apps/validation).
func volumeOf(s *apps.StatefulSet, c metav1.StatusCause) string {
	const list = "spec.template.spec.volumes["
	number, rest, _ := strings.Cut(strings.TrimPrefix(c.Field, list), "]")
	at, err := strconv.Atoi(number)
	if err != nil || !strings.HasPrefix(c.Field, list) {
		return c.Field
	}
	names := make(map[string]bool)
	for _, t := range s.Spec.VolumeClaimTemplates {
		names[t.Name] = true
	}
	if at < len(names) {
		for i, t := range s.Spec.VolumeClaimTemplates {
			if strings.Contains(c.Message, strconv.Quote(t.Name)) || t.Name == "" && c.Type == metav1.CauseTypeFieldValueRequired {
				return fmt.Sprintf("spec.volumeClaimTemplates[%d].metadata.name", i)
			}
		}
		return "spec.volumeClaimTemplates"
	}
	for i, v := range s.Spec.Template.Spec.Volumes {
		if names[v.Name] {
			continue
		}
		if at == len(names) {
			return list + strconv.Itoa(i) + "]" + rest
		}
		at--
	}
	return c.Field
}
