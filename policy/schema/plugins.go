package schema

import (
	"slices"

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
	on := func(disabled []string) *Kinds {
		return &Kinds{server: k.server, customs: k.customs, resolved: k.resolved, mergers: k.mergers, cluster: c, limits: limits, disabled: disabled, made: make(map[*render.Unit]*apiserver.Plugins)}
	}
	created := on(disabled)
	created.updates = on(append(apiserver.CreationPlugins(), disabled...))
	return created
}

// maxPlugins limits the units whose plugins are kept.
const maxPlugins = 64

// plugins returns the admission plugins for objects of a kind in a unit, or nil if none runs.
func (k *Kinds) plugins(b *builtin, unit *render.Unit) *apiserver.Plugins {
	if k.cluster == nil || !slices.Contains([]string{"Pod", "PersistentVolumeClaim", "PersistentVolume", "VolumeAttributesClass", "Ingress"}, b.gvk.Kind) {
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
	})
}

// typed returns an object as the API server stores it, or nil if it refuses the object.
func (k *Kinds) typed(o *render.Object) runtime.Object {
	_, typed, err := k.AdmitTyped(o, o.EffectiveNamespace())
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
