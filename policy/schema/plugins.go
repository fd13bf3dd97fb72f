package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
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
		return &Kinds{server: k.server, customs: k.customs, resolved: k.resolved, mergers: k.mergers, bare: cmp.Or(k.bare, k), cluster: c, limits: limits, quotas: quotas, disabled: disabled, counts: make(map[schema.GroupKind]map[quotaGroup][]apiserver.Listed), made: make(map[*render.Unit]*apiserver.Plugins)}
	}
	created := on(disabled)
	created.claimed = sync.OnceValue(created.claimedBy)
	created.updates = on(append(apiserver.CreationPlugins(), disabled...))
	return created
}

// maxPlugins limits the units whose plugins are kept.
const maxPlugins = 64

// plugins returns the admission plugins for objects of a kind in a unit, or nil if none runs.
func (k *Kinds) plugins(b *builtin, unit *render.Unit) *apiserver.Plugins {
	if k == nil || k.cluster == nil || !k.quotas && !slices.Contains([]string{"Pod", "PersistentVolumeClaim", "PersistentVolume", "VolumeAttributesClass", "Ingress", "PriorityClass"}, b.gvk.Kind) {
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
	for _, p := range s.Ports {
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

// listed returns the objects of a kind and a namespace that are known to be on the cluster of a unit, each once.
func (k *Kinds) listed(kind schema.GroupKind, unit *render.Unit, namespace string) []apiserver.Listed {
	k.counting.Lock()
	defer k.counting.Unlock()
	if _, known := k.counts[kind]; !known {
		places := make(map[quotaGroup][]apiserver.Listed)
		names := make(map[quotaGroup]map[string]bool)
		for _, o := range k.cluster.List(kind) {
			at, name := quotaGroup{kind, k.on(o), o.EffectiveNamespace()}, o.GetName()
			if names[at] == nil {
				names[at] = make(map[string]bool)
			}
			if name != "" && names[at][name] {
				continue
			}
			names[at][name] = true
			if typed := k.typed(o); typed != nil {
				places[at] = append(places[at], apiserver.Listed{Source: o, Name: name, Object: typed})
			}
		}
		k.counts[kind] = places
	}
	there, here := k.counts[kind][quotaGroup{kind, nil, namespace}], k.counts[kind][quotaGroup{kind, clusterOf(unit), namespace}]
	return append(slices.DeleteFunc(slices.Clone(there), func(o apiserver.Listed) bool {
		return slices.ContainsFunc(here, func(x apiserver.Listed) bool { return x.Name == o.Name })
	}), here...)
}

func (k *Kinds) newPlugins(unit *render.Unit) *apiserver.Plugins {
	var objects []runtime.Object
	sure := make(map[[3]string]bool)
	for _, kind := range apiserver.PluginKinds() {
		for _, o := range nearest(k.cluster.List(kind), unit) {
			if typed := k.typed(o); typed != nil {
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
	}, func(kind, namespace, name string) bool { return sure[[3]string{kind, namespace, name}] }, func(kind schema.GroupKind, namespace string) []apiserver.Listed {
		return k.listed(kind, unit, namespace)
	})
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

// homeless returns the refusal of the pods of an object whose ServiceAccount does not exist, by the plugin
// ServiceAccount. It is taken to exist unless all ServiceAccounts of the cluster are known.
func (k *Kinds) homeless(req *policy.Request) []policy.Result {
	kind := schema.GroupKind{Kind: "ServiceAccount"}
	template, makes := policy.PodTemplate(req.Kind.GroupKind())
	value, _ := render.Lookup(req.Admitted, template+"/spec/serviceAccountName")
	name, _ := value.(string)
	if !makes || req.Maker != nil || k.cluster == nil || name == "" || name == "default" || slices.Contains(k.disabled, "ServiceAccount") {
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
