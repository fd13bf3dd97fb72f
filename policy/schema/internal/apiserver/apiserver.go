// Package apiserver runs the API server's own code: the packages of
// k8s.io/kubernetes that default, convert, prepare and validate objects of
// built-in kinds.
//
// [Complete] takes a decoded object and sets what the server sets before
// admission. [Store] takes the object that mutation leaves, and the one before an
// update, and does what the server's registry does then; it returns the object
// to store and the causes of a refusal. Package schema decodes the objects and
// finds the fields of the causes; it is the only caller.
//
// registry.go lists the strategies of the kinds; cluster.go stands in for the
// parts of a cluster that they ask; plugins.go runs admission plugins.
package apiserver

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install" // each installs its types in legacyscheme
	_ "k8s.io/kubernetes/pkg/apis/apiserverinternal/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/lifecycle/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"
)

// extensions is the scheme of the two groups that kube-apiserver serves with other
// modules.
var extensions = sync.OnceValue(func() *runtime.Scheme {
	s := runtime.NewScheme()
	apiextensions.Install(s)
	apiregistration.Install(s)
	return s
})

// Scheme returns the scheme in which a group is installed.
func Scheme(group string) *runtime.Scheme {
	if group == "apiextensions.k8s.io" || group == "apiregistration.k8s.io" {
		return extensions()
	}
	return legacyscheme.Scheme
}

// Complete sets the defaults of Kubernetes 1.minor in a decoded object, and what plugins
// set in it on its creation. It returns the object as policies see it: converted to the
// internal type and back. It may change object. plugins may be nil. The error is the
// server's for an object that it can't convert.
func Complete(minor int, gvk schema.GroupVersionKind, object runtime.Object, namespace string, plugins *Plugins) (completed runtime.Object, err error) {
	scheme := Scheme(gvk.Group)
	object.GetObjectKind().SetGroupVersionKind(gvk)
	if !scheme.Recognizes(gvk) {
		return object, nil
	}
	as(minor, func() {
		scheme.Default(object)
		if m, err := meta.Accessor(object); err == nil {
			rest.WipeObjectMetaSystemFields(m)
		}
		if n, ok := object.(*corev1.Namespace); ok { // as its strategy does on creation
			n.Spec.Finalizers = withFinalizer(n.Spec.Finalizers, corev1.FinalizerKubernetes)
		}
		if completed, err = toInternal(scheme, object); err != nil {
			return
		}
		if plugins != nil {
			plugins.admit(completed, namespace) // Store returns the causes
		}
		completed, err = scheme.UnsafeConvertToVersion(completed, gvk.GroupVersion())
	})
	return completed, err
}

func withFinalizer[T comparable](all []T, finalizer T) []T {
	if slices.Contains(all, finalizer) {
		return all
	}
	return append(all, finalizer)
}

// Convert returns an object in another version of its kind.
func Convert(object runtime.Object, from, to schema.GroupVersionKind) (runtime.Object, error) {
	scheme := Scheme(from.Group)
	if !scheme.Recognizes(from) || !scheme.Recognizes(to) {
		return nil, fmt.Errorf("%s %s can't be converted to %s offline", from.GroupVersion(), from.Kind, to.GroupVersion())
	}
	object.GetObjectKind().SetGroupVersionKind(from)
	return convert(scheme, object, to.GroupVersion())
}

// convert returns an object in a version, by way of the internal one. It takes over the
// object.
func convert(scheme *runtime.Scheme, object runtime.Object, to runtime.GroupVersioner) (runtime.Object, error) {
	internal, err := toInternal(scheme, object)
	if err != nil {
		return nil, err
	}
	return scheme.UnsafeConvertToVersion(internal, to)
}

func toInternal(scheme *runtime.Scheme, object runtime.Object) (runtime.Object, error) {
	return scheme.UnsafeConvertToVersion(object, internalVersion{scheme, object.GetObjectKind().GroupVersionKind().GroupKind()})
}

// An internalVersion finds the internal version of a kind. That of events is in
// another group.
type internalVersion struct {
	scheme *runtime.Scheme
	kind   schema.GroupKind
}

// KindForGroupVersionKinds implements runtime.GroupVersioner.
func (i internalVersion) KindForGroupVersionKinds([]schema.GroupVersionKind) (schema.GroupVersionKind, bool) {
	internal := stored(i.kind).WithVersion(runtime.APIVersionInternal)
	return internal, i.scheme.Recognizes(internal)
}

// Identifier implements runtime.GroupVersioner.
func (i internalVersion) Identifier() string { return "internal" }

// stored returns the kind under which the server stores a kind.
func stored(kind schema.GroupKind) schema.GroupKind {
	if kind.Group == "events.k8s.io" {
		kind.Group = ""
	}
	return kind
}

// gates guards the feature gates of the process. minor is the release that they are set to, users the number of
// running calls that need that release.
var gates struct {
	sync.Mutex
	minor, users int
	free         sync.Cond // users is 0
}

func init() { gates.free.L = &gates }

// as calls f with the feature gates as Kubernetes 1.minor has them by default. Calls for one release run at the
// same time, and f may call as again for it; those for another release wait.
func as(minor int, f func()) {
	gates.Lock()
	for gates.minor != minor && gates.users > 0 {
		gates.free.Wait()
	}
	if gates.minor != minor {
		// An error could only be about gates that were set one by one, and none are.
		_ = utilfeature.DefaultMutableFeatureGate.SetEmulationVersion(version.MajorMinor(1, uint(minor)))
		gates.minor = minor
	}
	gates.users++
	gates.Unlock()
	defer func() {
		gates.Lock()
		if gates.users--; gates.users == 0 {
			gates.free.Broadcast()
		}
		gates.Unlock()
	}()
	f()
}
