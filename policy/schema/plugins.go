package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema/internal/apiserver"
	"github.com/preadmit/preadmit/render"
)

// PluginNames returns the names of the default admission plugins that On runs and can disable.
func PluginNames() []string { return apiserver.PluginNames() }

// On returns the kinds of a server that also runs its default admission plugins, except the disabled
// ones. The plugins look up objects of the cluster.
func (k *Kinds) On(c *policy.Cluster, disabled ...string) *Kinds {
	limits := slices.ContainsFunc(apiserver.PluginKinds(), func(kind schema.GroupKind) bool { return len(c.List(kind)) > 0 })
	quotas := len(c.List(schema.GroupKind{Kind: "ResourceQuota"})) > 0
	on := func(disabled []string) *Kinds {
		return &Kinds{server: k.server, customs: k.customs, resolved: k.resolved, mergers: k.mergers, bare: cmp.Or(k.bare, k), cluster: c, limits: limits, quotas: quotas, disabled: disabled, counts: make(map[schema.GroupKind]map[quotaGroup][]apiserver.Listed), made: make(map[*render.Unit]*apiserver.Plugins), shared: make(map[*render.Object]runtime.Object)}
	}
	created := on(disabled)
	created.claimed = sync.OnceValue(created.claimedBy)
	created.scaled = sync.OnceValues(created.scaledBy)
	created.usage = apiserver.NewUsage(created.listed)
	created.updates = on(append(apiserver.CreationPlugins(), disabled...))
	return created
}

// maxPlugins limits the units whose plugins are kept.
const maxPlugins = 64

// plugins returns the admission plugins for objects of a kind in a unit, or nil if none runs.
func (k *Kinds) plugins(kind string, unit *render.Unit) *apiserver.Plugins {
	if k == nil || k.cluster == nil || !k.quotas && !slices.Contains([]string{"Pod", "PersistentVolumeClaim", "PersistentVolume", "VolumeAttributesClass", "Ingress", "PriorityClass"}, kind) {
		return nil
	}
	if !k.limits {
		unit = nil // all units have the same
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	p, ok := k.made[unit]
	if !ok {
		if len(k.made) >= maxPlugins {
			clear(k.made)
		}
		p = k.newPlugins(unit)
		k.made[unit] = p
	}
	return p
}

// on identifies the cluster of an object: of two objects with the same value it is known that they share a cluster. It is
// nil for objects that --with gives, which are on each cluster.
func (k *Kinds) on(o *render.Object) any {
	if k.cluster.Has(o) {
		return nil
	}
	return clusterOf(o.Unit)
}

// clusterOf returns what on returns for the objects of a unit.
func clusterOf(u *render.Unit) any {
	switch {
	case u == nil:
		return nil
	case u.ID != "" && u.State != render.Unreached:
		return u.Cluster
	}
	return u
}

// A claim is an address or a node port that a Service asks for.
type claim struct {
	on any
	of string
}

func (k *Kinds) claims(o *render.Object) (all []claim) {
	var s corev1.ServiceSpec
	spec, _ := o.Object["spec"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &s); err != nil || s.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	on := k.on(o)
	for _, ip := range append(s.ClusterIPs, s.ClusterIP) {
		if ip != "" && ip != corev1.ClusterIPNone {
			all = append(all, claim{on, ip})
		}
	}
	for _, p := range append(s.Ports, corev1.ServicePort{NodePort: s.HealthCheckNodePort}) {
		if p.NodePort != 0 && s.Type != "" && s.Type != corev1.ServiceTypeClusterIP {
			all = append(all, claim{on, strconv.Itoa(int(p.NodePort))})
		}
	}
	return all
}

// claimedBy returns the valid Services that make each claim. Two are enough: for each Service one of them is another.
func (k *Kinds) claimedBy() map[claim][]*corev1.Service {
	all := make(map[claim][]*corev1.Service)
	for _, o := range k.cluster.List(schema.GroupKind{Kind: "Service"}) {
		wanted := slices.DeleteFunc(k.claims(o), func(is claim) bool {
			return slices.ContainsFunc(all[is], func(s *corev1.Service) bool { return len(all[is]) == 2 || isNamed(s, o) })
		})
		if len(wanted) == 0 {
			continue
		}
		if s, ok := k.typed(o).(*corev1.Service); ok {
			for _, is := range wanted {
				all[is] = append(all[is], s)
			}
		}
	}
	return all
}

func isNamed(s *corev1.Service, o *render.Object) bool {
	return s.Name == o.GetName() && s.Namespace == o.EffectiveNamespace()
}

// others returns, for each claim of o, another Service that makes it.
func (k *Kinds) others(o *render.Object) (others []*corev1.Service) {
	if k == nil || k.claimed == nil || o.GetKind() != "Service" {
		return nil
	}
	for _, is := range k.claims(o) {
		there := slices.Concat(k.claimed()[claim{nil, is.of}], k.claimed()[is])
		if i := slices.IndexFunc(there, func(s *corev1.Service) bool { return !isNamed(s, o) }); i >= 0 {
			others = append(others, there[i])
		}
	}
	return others
}

// A quotaGroup has the objects of a kind in one namespace of one cluster, which a quota counts together.
type quotaGroup struct {
	schema.GroupKind
	on        any
	namespace string
}

// listed returns the objects of a kind and a namespace that are known to be on a cluster, each once. Pods and claims that
// controllers create are among them, if they last. Objects that --with gives are on the cluster nil.
func (k *Kinds) listed(kind schema.GroupKind, on any, namespace string) []apiserver.Listed {
	k.counting.Lock()
	defer k.counting.Unlock()
	if _, known := k.counts[kind]; !known {
		places := make(map[quotaGroup][]apiserver.Listed)
		names := make(map[quotaGroup]map[string]bool)
		add := func(of *render.Object, l apiserver.Listed) {
			at := quotaGroup{kind, k.on(of), of.EffectiveNamespace()}
			if names[at] == nil {
				names[at] = make(map[string]bool)
			}
			if l.Name != "" && names[at][l.Name] {
				return
			}
			names[at][l.Name] = true
			if l.Object != nil && l.Count > 0 {
				places[at] = append(places[at], l)
			}
		}
		for _, o := range k.cluster.List(kind) {
			if !k.ofMaker(o) {
				add(o, apiserver.Listed{Source: o, Name: o.GetName(), Object: k.admitted(o, o.EffectiveNamespace()), Count: 1})
			}
		}
		if kind == policy.PodKind.GroupKind() || kind == policy.ClaimKind.GroupKind() {
			k.eachMade(kind.WithVersion("v1"), add)
		}
		k.counts[kind] = places
	}
	return k.counts[kind][quotaGroup{kind, on, namespace}]
}

// admitted returns an object as the API server holds it after its plugins, or nil if it refuses the object or does not
// count it, such as a pod that ends.
func (k *Kinds) admitted(o *render.Object, namespace string) runtime.Object {
	if k.builtins[o.GroupVersionKind()] == nil {
		return o.Unstructured
	}
	_, typed, err := k.AdmitTyped(o, namespace)
	if p, ok := typed.(*corev1.Pod); err != nil || ok && p.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		return nil
	}
	object, _ := typed.(runtime.Object)
	return object
}

// ofMaker reports whether a controller has created an object of another one that is known, as in a dump of a cluster.
func (k *Kinds) ofMaker(o *render.Object) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		kind := policy.ParseGroupVersion(r.APIVersion).WithKind(r.Kind).GroupKind()
		return r.Controller != nil && *r.Controller && (policy.IsMaker(kind) || kind == policy.PodKind.GroupKind()) && len(k.cluster.Named(kind, r.Name)) > 0
	})
}

// eachMade calls add for each object of a kind that a controller creates, if it lasts.
func (k *Kinds) eachMade(kind schema.GroupVersionKind, add func(*render.Object, apiserver.Listed)) {
	for _, maker := range append(policy.MakerKinds(), policy.PodKind.GroupKind()) {
		for _, o := range k.cluster.List(maker) {
			if k.ofMaker(o) {
				continue
			}
			held, _, err := k.bare.AdmitTyped(o, o.EffectiveNamespace())
			if err != nil {
				continue
			}
			for _, m := range policy.MadeOf(o, held, kind) {
				if k.scale(&m, o); m.Lasts {
					add(o, apiserver.Listed{Source: m.Source, Name: m.Name, Count: m.Count, Object: k.admitted(m.Object, o.EffectiveNamespace())})
				}
			}
		}
	}
}

// scalers are the kinds whose controllers decide how many pods a workload has, with the pointers of their target and of
// the least number, and that number where it is not given.
var scalers = []struct {
	kind      schema.GroupKind
	of, least string
	otherwise int
}{
	{schema.GroupKind{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}, "/spec/scaleTargetRef", "/spec/minReplicas", 1},
	{schema.GroupKind{Group: "keda.sh", Kind: "ScaledObject"}, "/spec/scaleTargetRef", "/spec/minReplicaCount", 0},
}

// resizer is the kind whose controller decides how much the pods of a workload use.
var resizer = schema.GroupKind{Group: "autoscaling.k8s.io", Kind: "VerticalPodAutoscaler"}

// A workload is the target of a scaler on a cluster.
type workload struct {
	on                    any
	kind, namespace, name string
}

// scaledBy returns the least number of pods of each workload that a scaler or resizer changes. What a resizer's pods use is
// not known, so they do not count.
func (k *Kinds) scaledBy() (least map[workload]int, resized map[workload]bool) {
	target := func(o *render.Object, at string) workload {
		of, _ := render.Lookup(o.Object, at)
		target, _ := of.(map[string]any)
		kind, _ := cmp.Or(target["kind"], any("Deployment")).(string) // the default of ScaledObjects
		name, _ := target["name"].(string)
		return workload{k.on(o), kind, o.EffectiveNamespace(), name}
	}
	least, resized = make(map[workload]int), make(map[workload]bool)
	for _, s := range scalers {
		for _, o := range k.cluster.List(s.kind) {
			given, _ := render.Lookup(o.Object, s.least)
			n, err := strconv.Atoi(fmt.Sprint(given))
			if err != nil {
				n = s.otherwise
			}
			least[target(o, s.of)] = n
		}
	}
	for _, o := range k.cluster.List(resizer) {
		if mode, _ := render.Lookup(o.Object, "/spec/updatePolicy/updateMode"); mode != "Off" {
			resized[target(o, "/spec/targetRef")] = true
		}
	}
	return least, resized
}

// scale corrects how often a controller creates an object: by what scales the workload, and by the claims of a StatefulSet
// that exist already.
func (k *Kinds) scale(m *policy.Made, of *render.Object) {
	is := workload{k.on(of), of.GetKind(), of.EffectiveNamespace(), of.GetName()}
	given := is
	given.on = nil
	least, resized := k.scaled()
	for _, w := range []workload{is, given} {
		if n, ok := least[w]; ok && m.Count > 0 { // without replicas nothing is scaled
			m.Count, m.Field = n, ""
		}
		if resized[w] && m.Object.GetKind() == "Pod" {
			m.Count, m.Field = 0, ""
		}
	}
	name := m.Object.GetName()
	at := strings.LastIndex(name, "-")
	first, err := strconv.Atoi(name[at+1:])
	if m.Object.GetKind() != "PersistentVolumeClaim" || of.GetKind() != "StatefulSet" || err != nil {
		return
	}
	exists := func(i int) bool {
		return slices.ContainsFunc(k.cluster.Named(policy.ClaimKind.GroupKind(), name[:at+1]+strconv.Itoa(i)), func(c *render.Object) bool {
			return c.EffectiveNamespace() == is.namespace && (k.on(c) == is.on || k.on(c) == nil)
		})
	}
	existing := 0
	for i := range min(m.Count, maxClaims) {
		if exists(first + i) {
			existing++
		}
	}
	m.Count -= existing
}

// maxClaims limits the claims of a StatefulSet that are looked up.
const maxClaims = 1000

func (k *Kinds) newPlugins(unit *render.Unit) *apiserver.Plugins {
	var objects []runtime.Object
	sure := make(map[[3]string]bool)
	for _, kind := range apiserver.PluginKinds() {
		for _, o := range nearest(k.cluster.List(kind), unit) {
			typed, known := k.shared[o]
			if !known {
				typed = k.typed(o)
				k.shared[o] = typed
			}
			if typed != nil {
				objects = append(objects, typed)
				namespace := ""
				if m, ok := typed.(metav1.Object); ok {
					namespace = m.GetNamespace()
				}
				on := k.on(o)
				sure[[3]string{kind.Kind, namespace, o.GetName()}] = on == nil || on == clusterOf(unit)
			}
		}
	}
	return apiserver.NewPlugins(objects, k.disabled, func(kind schema.GroupKind) bool { return !k.cluster.Lacks(kind) }, func(namespace, name string) *corev1.ServiceAccount {
		if o := k.cluster.Get(unit, schema.GroupKind{Kind: "ServiceAccount"}, namespace, name); o != nil {
			account, _ := k.typed(o).(*corev1.ServiceAccount)
			return account
		}
		return nil
	}, func(kind, namespace, name string) bool { return sure[[3]string{kind, namespace, name}] }, k.usage, clusterOf(unit))
}

// typed returns an object as the API server stores it without plugins, or nil if it refuses the object.
func (k *Kinds) typed(o *render.Object) runtime.Object {
	_, typed, err := cmp.Or(k.bare, k).AdmitTyped(o, o.EffectiveNamespace())
	if err != nil {
		return nil
	}
	object, _ := typed.(runtime.Object)
	return object
}

// nearest returns the objects that a unit's objects find on the cluster. Of several with one name those
// of the unit count. If others differ, none does: which one is on the cluster is not known.
func nearest(all []*render.Object, unit *render.Unit) []*render.Object {
	var found []*render.Object
	for _, o := range all {
		same := func(other *render.Object) bool {
			return other.GetName() == o.GetName() && other.EffectiveNamespace() == o.EffectiveNamespace()
		}
		if o.Unit != unit && slices.ContainsFunc(all, func(other *render.Object) bool {
			return same(other) && (other.Unit == unit || !render.Equal(other.Object, o.Object))
		}) || slices.ContainsFunc(found, same) {
			continue
		}
		found = append(found, o)
	}
	return found
}

// counted returns the refusal of a custom resource of which a ResourceQuota allows fewer.
func (k *Kinds) counted(req *policy.Request) (results []policy.Result) {
	if !k.quotas || req.Operation != policy.Create || req.Resource.Guessed {
		return nil
	}
	r := apiserver.Request{Kind: req.Kind, Resource: req.Resource.GroupResource(), Namespace: req.Namespace, Object: req.Object.Unstructured, Source: req.Object, Name: req.Name, Count: 1}
	for _, c := range k.plugins(req.Kind.Kind, req.Object.Unit).Count(r) {
		r := result(req.Kind, ruleForbidden, policy.Fail)
		r.Fields, r.Reason, r.Message = []string{"/metadata/name"}, "Forbidden", c.Field+": "+c.Message
		if c.Assumed != "" {
			r.Assumed = []string{c.Assumed}
		}
		results = append(results, r)
	}
	return results
}

// homeless returns the refusal of the pods of an object whose ServiceAccount does not exist, by the plugin
// ServiceAccount, which leaves updates of pods alone. The ServiceAccount is taken to exist unless all of the
// cluster are known.
func (k *Kinds) homeless(req *policy.Request) []policy.Result {
	kind := schema.GroupKind{Kind: "ServiceAccount"}
	template, makes := policy.PodTemplate(req.Kind.GroupKind())
	value, _ := render.Lookup(req.Admitted, template+"/spec/serviceAccountName")
	name, _ := value.(string)
	if !makes || req.Maker != nil || req.Kind == policy.PodKind && req.Operation == policy.Update || k.cluster == nil || name == "" || name == "default" || slices.Contains(k.disabled, "ServiceAccount") {
		return nil
	}
	if req.Object.GetNamespace() == "" && (req.Object.Unit == nil || req.Object.Unit.Namespace == "") {
		return nil // the namespace is known to who applies it
	}
	exists := slices.ContainsFunc(k.cluster.Named(kind, name), func(o *render.Object) bool { return o.EffectiveNamespace() == req.Namespace })
	if exists || k.cluster.Lacks(kind) { // in this order, since the cache has to know that the answer depends on the kind
		return nil
	}
	r := result(req.Kind, ruleForbidden, policy.Fail)
	r.Fields, r.Reason = []string{template + "/spec/serviceAccountName"}, "Forbidden"
	r.Assumed = []string{"all ServiceAccounts of the cluster are given by --with or in the tree"}
	r.Message = fmt.Sprintf("error looking up service account %s/%s: serviceaccount %q not found", req.Namespace, name, name)
	if req.Kind != policy.PodKind {
		r.AboutPods()
	}
	return []policy.Result{r}
}
