package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
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
	claimed := sync.OnceValue(func() map[claim][]*render.Object { return claimed(c) })
	on := func(disabled []string) *Kinds {
		return &Kinds{server: k.server, customs: k.customs, resolved: k.resolved, mergers: k.mergers, bare: cmp.Or(k.bare, k), cluster: c, limits: limits, quotas: quotas, disabled: disabled, claimed: claimed, made: make(map[*render.Unit]*apiserver.Plugins)}
	}
	created := on(disabled)
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

// A claim is an address or a node port that a Service asks for.
type claim struct {
	on any // see clusterOf
	of string
}

// clusterOf returns an equal value for units that are known to be on one cluster.
func clusterOf(u *render.Unit) any {
	if u != nil && u.ID != "" && u.State != render.Unreached {
		return u.Cluster
	}
	return u
}

func claims(o *render.Object) (all []claim) {
	var s corev1.ServiceSpec
	spec, _ := o.Object["spec"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &s); err != nil || s.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	on := clusterOf(o.Unit)
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

// claimed returns the Services of a cluster by what they claim.
func claimed(c *policy.Cluster) map[claim][]*render.Object {
	all := make(map[claim][]*render.Object)
	for _, o := range c.List(schema.GroupKind{Kind: "Service"}) {
		for _, is := range claims(o) {
			all[is] = append(all[is], o)
		}
	}
	return all
}

// others returns a Service for each claim of o that another one makes, too.
func (k *Kinds) others(o *render.Object) (others []*corev1.Service) {
	if k == nil || k.claimed == nil || o.GetKind() != "Service" {
		return nil
	}
	for _, is := range claims(o) {
		for _, other := range k.claimed()[is] {
			if other.GetName() == o.GetName() && other.EffectiveNamespace() == o.EffectiveNamespace() {
				continue
			}
			if s, ok := k.typed(other).(*corev1.Service); ok {
				others = append(others, s)
				break
			}
		}
	}
	return others
}

func (k *Kinds) newPlugins(unit *render.Unit) *apiserver.Plugins {
	var objects []runtime.Object
	for _, kind := range apiserver.PluginKinds() {
		for _, o := range nearest(k.cluster.List(kind), unit) {
			if typed := k.typed(o); typed != nil {
				objects = append(objects, typed)
			}
		}
	}
	return apiserver.NewPlugins(objects, k.disabled, func(kind schema.GroupKind) bool { return !k.cluster.Lacks(kind) }, func(namespace, name string) *corev1.ServiceAccount {
		if o := k.cluster.Get(unit, schema.GroupKind{Kind: "ServiceAccount"}, namespace, name); o != nil {
			account, _ := k.typed(o).(*corev1.ServiceAccount)
			return account
		}
		return nil
	}, func(kind schema.GroupKind, namespace string) map[string]runtime.Object {
		all := make(map[string]runtime.Object)
		for _, o := range nearest(k.cluster.List(kind), unit) {
			if o.EffectiveNamespace() == namespace && clusterOf(o.Unit) == clusterOf(unit) {
				if typed := k.typed(o); typed != nil {
					all[o.GetName()] = typed
				}
			}
		}
		return all
	})
}

// typed returns an object as the API server stores it without plugins, or nil if it refuses the object.
func (k *Kinds) typed(o *render.Object) runtime.Object {
	_, typed, err := k.bare.AdmitTyped(o, o.EffectiveNamespace())
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
	exists := slices.ContainsFunc(k.cluster.Named(kind, name), func(o *render.Object) bool { return o.EffectiveNamespace() == req.Namespace })
	if exists || k.cluster.Lacks(kind) { // in this order, since the cache has to know that the answer depends on the kind
		return nil
	}
	r := result(req.Kind, ruleForbidden, policy.Fail)
	r.Fields = []string{template + "/spec/serviceAccountName"}
	r.Message = fmt.Sprintf("error looking up service account %s/%s: serviceaccount %q not found", req.Namespace, name, name)
	if req.Kind != policy.PodKind {
		r.AboutPods()
	}
	return []policy.Result{r}
}
