package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/helper"
	"k8s.io/kubernetes/pkg/apis/networking"
	"k8s.io/kubernetes/pkg/apis/node"
	apinodev1 "k8s.io/kubernetes/pkg/apis/node/v1"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	systemclasses "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	"k8s.io/kubernetes/pkg/apis/storage"
	storageutil "k8s.io/kubernetes/pkg/apis/storage/util"
	"k8s.io/kubernetes/pkg/util/tolerations"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"
)

// Plugins are the admission plugins that a server runs by default and that need no data but objects of
// the cluster, in the order of AllOrderedPlugins (k8s.io/kubernetes/pkg/kubeapiserver/options). They are
// safe for concurrent use. Upstream's plugins that hold a client are written here again, because they
// would link the types of all clients into the program.
type Plugins struct {
	limits           []*corev1.LimitRange
	quotas           []*corev1.ResourceQuota
	storage, ingress string // names of the default classes
	classes          map[string]*storagev1.StorageClass
	priorities       map[string]*schedulingv1.PriorityClass
	runtimes         map[string]*nodev1.RuntimeClass
	tolerations      *defaulttolerationseconds.Plugin
	complete         func(kind schema.GroupKind) bool
	account          func(namespace, name string) *corev1.ServiceAccount
	disabled         []string // names of plugins that the server does not run
	sure             func(kind, namespace, name string) bool
	usage            *Usage
	cluster          any // identifies the cluster for usage
}

// PluginNames returns the names of the plugins, as in the server's flag --disable-admission-plugins.
func PluginNames() []string {
	return []string{
		"DefaultIngressClass", "DefaultStorageClass", "DefaultTolerationSeconds", "LimitRanger", "NamespaceLifecycle", "PersistentVolumeClaimResize",
		"Priority", "ResourceQuota", "RuntimeClass", "ServiceAccount", "StorageObjectInUseProtection",
	}
}

// CreationPlugins returns the names of the plugins that leave the new objects of updates as they are.
func CreationPlugins() []string {
	return slices.DeleteFunc(PluginNames(), func(name string) bool { return name == "DefaultTolerationSeconds" || name == "Priority" })
}

func (p *Plugins) runs(name string) bool { return !slices.Contains(p.disabled, name) }

// PluginKinds are the kinds of objects that plugins look up, besides ServiceAccounts.
func PluginKinds() []schema.GroupKind {
	return []schema.GroupKind{
		{Kind: "LimitRange"},
		{Kind: "ResourceQuota"},
		{Group: "scheduling.k8s.io", Kind: "PriorityClass"},
		{Group: "node.k8s.io", Kind: "RuntimeClass"},
		{Group: "storage.k8s.io", Kind: "StorageClass"},
		{Group: "networking.k8s.io", Kind: "IngressClass"},
	}
}

// A Listed is an object of the cluster in version v1.
type Listed struct {
	Source any    // identifies it
	Name   string // identifies it on another side of a change; "" if it has none
	Object runtime.Object
	Count  int // how many there are
}

// NewPlugins returns the plugins of a cluster with these objects of PluginKinds, in version v1.
// complete reports whether the cluster has no others of a kind. account returns a ServiceAccount, or nil
// if it is not known. sure reports whether one of the objects is known to be on the cluster. usage says
// how much objects use of quotas; there, the cluster has the key cluster. Plugins whose names are disabled do nothing.
func NewPlugins(objects []runtime.Object, disabled []string, complete func(schema.GroupKind) bool, account func(namespace, name string) *corev1.ServiceAccount, sure func(kind, namespace, name string) bool, usage *Usage, cluster any) *Plugins {
	p := &Plugins{
		priorities: make(map[string]*schedulingv1.PriorityClass), runtimes: make(map[string]*nodev1.RuntimeClass), classes: make(map[string]*storagev1.StorageClass),
		tolerations: defaulttolerationseconds.NewDefaultTolerationSeconds(), complete: complete, account: account, disabled: disabled,
		sure: sure, usage: usage, cluster: cluster,
	}
	p.tolerations.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	for _, c := range systemclasses.SystemPriorityClasses() {
		c = c.DeepCopy()
		systemclasses.SetDefaults_PriorityClass(c)
		p.priorities[c.Name] = c
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.LimitRange:
			if p.runs("LimitRanger") {
				p.limits = append(p.limits, o)
			}
		case *corev1.ResourceQuota:
			if p.runs("ResourceQuota") {
				if o.Status.Hard == nil && o.Spec.Hard != nil { // else it is in use already
					o.Status.Hard = o.Spec.Hard // as its controller does
				}
				p.quotas = append(p.quotas, o)
			}
		case *schedulingv1.PriorityClass:
			p.priorities[o.Name] = o
		case *nodev1.RuntimeClass:
			p.runtimes[o.Name] = o
		case *storagev1.StorageClass:
			p.classes[o.Name] = o
			if p.runs("DefaultStorageClass") && storageutil.IsDefaultAnnotation(o.ObjectMeta) && (p.storage == "" || o.Name < p.storage) {
				p.storage = o.Name
			}
		case *networkingv1.IngressClass:
			if p.runs("DefaultIngressClass") && o.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" && (p.ingress == "" || o.Name < p.ingress) {
				p.ingress = o.Name
			}
		}
	}
	return p
}

// admit changes an object as the plugins do on its creation, and returns the causes for which they
// refuse it.
func (p *Plugins) admit(object runtime.Object, namespace string) (causes []Cause) {
	at := field.NewPath("spec")
	switch o := object.(type) {
	case *core.Pod:
		limits := p.limitsIn(namespace)
		for _, l := range limits {
			causes = append(causes, forbidden(at.Child("containers"), limitranger.PodMutateLimitFunc(l, o))...)
		}
		for _, l := range limits {
			causes = append(causes, limited(l, o)...)
		}
		p.identify(o, namespace)
		causes = append(causes, p.prioritize(o)...)
		if p.runs("DefaultTolerationSeconds") {
			kind, resource := core.SchemeGroupVersion.WithKind("Pod"), core.SchemeGroupVersion.WithResource("pods")
			a := admission.NewAttributesRecord(o, nil, kind, namespace, o.Name, resource, "", admission.Create, nil, false, nil)
			causes = append(causes, forbidden(at.Child("tolerations"), p.tolerations.Admit(context.Background(), a, nil))...)
		}
		causes = append(causes, p.runBy(o)...)
	case *core.PersistentVolumeClaim:
		causes = p.limitClaim(o, namespace)
		if p.storage != "" && !helper.PersistentVolumeClaimHasClass(o) { // plugin DefaultStorageClass
			o.Spec.StorageClassName = new(p.storage)
		}
		o.Finalizers = p.protected(o.Finalizers, "kubernetes.io/pvc-protection")
	case *scheduling.PriorityClass:
		causes = p.onlyDefault(o)
	case *core.PersistentVolume:
		o.Finalizers = p.protected(o.Finalizers, "kubernetes.io/pv-protection")
	case *storage.VolumeAttributesClass:
		o.Finalizers = p.protected(o.Finalizers, "kubernetes.io/vac-protection")
	case *networking.Ingress: // plugin DefaultIngressClass
		if _, named := o.Annotations[networkingv1beta1.AnnotationIngressClass]; p.ingress != "" && !named && o.Spec.IngressClassName == nil {
			o.Spec.IngressClassName = new(p.ingress)
		}
	}
	return causes
}

// admitUpdate returns the causes for which the plugins refuse an update.
func (p *Plugins) admitUpdate(object, old runtime.Object, namespace string) []Cause {
	switch o := object.(type) {
	case *core.PersistentVolumeClaim:
		return append(p.limitClaim(o, namespace), p.resize(o, old.(*core.PersistentVolumeClaim))...)
	case *scheduling.PriorityClass:
		if !old.(*scheduling.PriorityClass).GlobalDefault {
			return p.onlyDefault(o)
		}
	}
	return nil
}

// resize returns the cause for which a claim may not grow, as the plugin PersistentVolumeClaimResize does. A class that is
// not known may allow it.
func (p *Plugins) resize(now, old *core.PersistentVolumeClaim) []Cause {
	to, from := now.Spec.Resources.Requests[core.ResourceStorage], old.Spec.Resources.Requests[core.ResourceStorage]
	if !p.runs("PersistentVolumeClaimResize") || to.Cmp(from) <= 0 || !helper.PersistentVolumeClaimHasClass(old) {
		return nil
	}
	is, was := helper.GetPersistentVolumeClaimClass(now), helper.GetPersistentVolumeClaimClass(old)
	if is == was && is != "" {
		class := p.classes[is]
		absent := class == nil && p.complete(schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"})
		if !absent && !p.sure("StorageClass", "", is) || class != nil && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion {
			return nil
		}
	}
	return forbidden(storageRequest, errors.New("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"))
}

// onlyDefault returns the cause for which a class may not be the default, as the plugin Priority does. Which of two
// new ones is created first is not known.
func (p *Plugins) onlyDefault(c *scheduling.PriorityClass) []Cause {
	if !c.GlobalDefault || !p.runs("Priority") {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.priorities)) {
		if name != c.Name && p.priorities[name].GlobalDefault && p.sure("PriorityClass", "", name) {
			causes := forbidden(field.NewPath("globalDefault"), fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", name))
			causes[0].Assumed = createdFirst
			return causes
		}
	}
	return nil
}

func (p *Plugins) limitsIn(namespace string) []*corev1.LimitRange {
	return slices.DeleteFunc(slices.Clone(p.limits), func(l *corev1.LimitRange) bool { return l.Namespace != namespace })
}

// limitClaim returns the causes for which LimitRanges refuse a claim, also on an update.
func (p *Plugins) limitClaim(c *core.PersistentVolumeClaim, namespace string) (causes []Cause) {
	for _, l := range p.limitsIn(namespace) {
		causes = append(causes, forbidden(storageRequest, limitranger.PersistentVolumeClaimValidateLimitFunc(l, c))...)
	}
	return causes
}

var storageRequest = field.NewPath("spec", "resources", "requests", "storage")

// protected adds a finalizer, if the plugin StorageObjectInUseProtection runs.
func (p *Plugins) protected(finalizers []string, finalizer string) []string {
	if !p.runs("StorageObjectInUseProtection") {
		return finalizers
	}
	return withFinalizer(finalizers, finalizer)
}

// limited returns the causes for which a LimitRange refuses a pod: those of one container at its
// resources, and those of the whole pod.
func limited(l *corev1.LimitRange, pod *core.Pod) (causes []Cause) {
	each, all := *l, *l
	each.Spec.Limits = slices.DeleteFunc(slices.Clone(l.Spec.Limits), func(i corev1.LimitRangeItem) bool { return i.Type != corev1.LimitTypeContainer })
	all.Spec.Limits = slices.DeleteFunc(slices.Clone(l.Spec.Limits), func(i corev1.LimitRangeItem) bool { return i.Type == corev1.LimitTypeContainer })
	in := func(containers []core.Container, at *field.Path) {
		for i := range containers {
			alone := &core.Pod{Spec: core.PodSpec{Containers: containers[i : i+1]}}
			causes = append(causes, forbidden(at.Index(i).Child("resources"), limitranger.PodValidateLimitFunc(&each, alone))...)
		}
	}
	at := field.NewPath("spec")
	in(pod.Spec.InitContainers, at.Child("initContainers"))
	in(pod.Spec.Containers, at.Child("containers"))
	return append(causes, forbidden(at.Child("containers"), limitranger.PodValidateLimitFunc(&all, pod))...)
}

// identify gives a pod its ServiceAccount, which is assumed to exist, with the account's token and
// secrets, as the plugin ServiceAccount does.
func (p *Plugins) identify(pod *core.Pod, namespace string) {
	if !p.runs("ServiceAccount") {
		return
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = serviceaccount.DefaultServiceAccountName, serviceaccount.DefaultServiceAccountName
	}
	account := cmp.Or(p.account(namespace, pod.Spec.ServiceAccountName), &corev1.ServiceAccount{})
	if mounts := cmp.Or(pod.Spec.AutomountServiceAccountToken, account.AutomountServiceAccountToken); mounts == nil || *mounts {
		mountToken(pod)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		for _, s := range account.ImagePullSecrets {
			pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, core.LocalObjectReference{Name: s.Name})
		}
	}
}

// mountToken mounts the token of the ServiceAccount in each container that has nothing else there.
func mountToken(pod *core.Pod) {
	const prefix = serviceaccount.ServiceAccountVolumeName + "-"
	name, needed := prefix+suffix, false
	i := slices.IndexFunc(pod.Spec.Volumes, func(v core.Volume) bool { return strings.HasPrefix(v.Name, prefix) })
	if i >= 0 {
		name = pod.Spec.Volumes[i].Name
	}
	podutil.VisitContainers(&pod.Spec, podutil.InitContainers|podutil.Containers, func(c *core.Container, _ podutil.ContainerType) bool {
		if !slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return m.MountPath == serviceaccount.DefaultAPITokenMountPath }) {
			c.VolumeMounts = append(c.VolumeMounts, core.VolumeMount{Name: name, ReadOnly: true, MountPath: serviceaccount.DefaultAPITokenMountPath})
			needed = true
		}
		return true
	})
	if i < 0 && needed {
		pod.Spec.Volumes = append(pod.Spec.Volumes, core.Volume{Name: name, VolumeSource: core.VolumeSource{Projected: serviceaccount.TokenVolumeSource()}})
	}
}

// prioritize sets the priority of a pod's class, as the plugin Priority does.
func (p *Plugins) prioritize(pod *core.Pod) []Cause {
	if !p.runs("Priority") {
		return nil
	}
	lower, spec := corev1.PreemptLowerPriority, field.NewPath("spec")
	class := &schedulingv1.PriorityClass{PreemptionPolicy: &lower}
	if name := pod.Spec.PriorityClassName; name != "" {
		if class = p.priorities[name]; class == nil {
			known := len(p.priorities) > len(systemclasses.SystemPriorityClasses()) // others than the server creates
			return p.missing(known, "scheduling.k8s.io", "PriorityClass", spec.Child("priorityClassName"), fmt.Sprintf("no PriorityClass with name %v was found", name))
		}
	} else {
		for _, name := range slices.Sorted(maps.Keys(p.priorities)) {
			if c := p.priorities[name]; c.GlobalDefault && (class.Name == "" || c.Value < class.Value) {
				class = c
			}
		}
	}
	pod.Spec.PriorityClassName = class.Name
	if pod.Spec.Priority != nil && *pod.Spec.Priority != class.Value {
		return forbidden(spec.Child("priority"), fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *pod.Spec.Priority, class.Value))
	}
	pod.Spec.Priority = new(class.Value)
	if class.PreemptionPolicy == nil {
		return nil
	}
	policy := core.PreemptionPolicy(*class.PreemptionPolicy)
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy != policy {
		return forbidden(spec.Child("preemptionPolicy"), fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *pod.Spec.PreemptionPolicy, policy))
	}
	pod.Spec.PreemptionPolicy = &policy
	return nil
}

// runBy sets the overhead, the tolerations and the nodes of a pod's RuntimeClass, as the plugin
// RuntimeClass does.
func (p *Plugins) runBy(pod *core.Pod) []Cause {
	if !p.runs("RuntimeClass") {
		return nil
	}
	spec, class := field.NewPath("spec"), &nodev1.RuntimeClass{}
	if name := pod.Spec.RuntimeClassName; name != nil {
		if class = p.runtimes[*name]; class == nil {
			return p.missing(len(p.runtimes) > 0, "node.k8s.io", "RuntimeClass", spec.Child("runtimeClassName"), fmt.Sprintf("pod rejected: RuntimeClass %q not found", *name))
		}
	}
	var internal node.RuntimeClass
	if err := apinodev1.Convert_v1_RuntimeClass_To_node_RuntimeClass(class.DeepCopy(), &internal, nil); err != nil {
		return forbidden(spec.Child("runtimeClassName"), err)
	}
	switch o := internal.Overhead; {
	case o == nil && pod.Spec.Overhead != nil:
		return forbidden(spec.Child("overhead"), fmt.Errorf("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
	case o == nil:
	case len(pod.Spec.Overhead) > 0 && !apiequality.Semantic.DeepEqual(o.PodFixed, pod.Spec.Overhead):
		return forbidden(spec.Child("overhead"), fmt.Errorf("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
	default:
		pod.Spec.Overhead = o.PodFixed
	}
	if internal.Scheduling == nil {
		return nil
	}
	nodes := maps.Clone(internal.Scheduling.NodeSelector)
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		value := pod.Spec.NodeSelector[key]
		if other, ok := nodes[key]; ok && other != value {
			return forbidden(spec.Child("nodeSelector").Key(key), fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, other, key, value))
		}
		if nodes == nil {
			nodes = make(map[string]string)
		}
		nodes[key] = value
	}
	pod.Spec.NodeSelector = nodes
	pod.Spec.Tolerations = tolerations.MergeTolerations(pod.Spec.Tolerations, internal.Scheduling.Tolerations)
	return nil
}

// missing returns the refusal of a pod whose class does not exist. If the cluster may have others, it
// returns a warning, or nil if no class of the kind is known.
func (p *Plugins) missing(known bool, group, kind string, at *field.Path, text string) []Cause {
	complete := p.complete(schema.GroupKind{Group: group, Kind: kind})
	if !known && !complete {
		return nil
	}
	causes := forbidden(at, errors.New(text))
	if !complete {
		causes[0].Warns, causes[0].Assumed = true, "the cluster has no other "+kind
	}
	return causes
}

// forbidden returns the causes of a plugin's error about a field.
func forbidden(at *field.Path, err error) (all []Cause) {
	if err == nil {
		return nil
	}
	errs := []error{err}
	if several, ok := err.(utilerrors.Aggregate); ok {
		errs = slices.SortedFunc(slices.Values(several.Errors()), func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	}
	for _, e := range errs {
		c := causeOf(field.Forbidden(at, e.Error()))
		c.Plugin = true
		all = append(all, c)
	}
	return all
}
