package flux

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// checkDependencies warns of unknown and circular dependencies, for which Flux
// waits forever.
func (t *task) checkDependencies(all []reference) {
	kind := t.object.GroupVersionKind().GroupKind()
	for i, ref := range all {
		ref = reference{Kind: kind.Kind, Name: ref.Name, Namespace: cmp.Or(ref.Namespace, t.object.GetNamespace())}
		pointer := render.Pointer("spec", "dependsOn", i)
		if t.world.Object(kind, ref.Namespace, ref.Name) == nil {
			t.warn(t.error(pointer, "unknown-dependency", "%s %s/%s depends on %s, which nothing in the tree deploys",
				kind.Kind, t.object.GetNamespace(), t.object.GetName(), ref))
			continue
		}
		if circle := t.circle(kind, ref, nil, make(map[string]bool)); circle != nil {
			t.warn(t.error(pointer, "dependency-cycle", "%s %s/%s waits for itself: %s",
				kind.Kind, t.object.GetNamespace(), t.object.GetName(), strings.Join(circle, " → ")))
		}
	}
}

// circle returns the names on the path from a dependency back to the task's
// object.
func (t *task) circle(kind schema.GroupKind, ref reference, way []string, seen map[string]bool) []string {
	name := ref.Namespace + "/" + ref.Name
	if name == t.object.GetNamespace()+"/"+t.object.GetName() {
		return append(way, name)
	}
	if seen[name] || len(way) > 100 {
		return nil
	}
	seen[name] = true
	o := t.world.Object(kind, ref.Namespace, ref.Name)
	if o == nil {
		return nil
	}
	var spec struct {
		DependsOn []reference `json:"dependsOn"`
	}
	if decodeSpec(o, &spec) != nil {
		return nil
	}
	for _, next := range spec.DependsOn {
		next.Namespace = cmp.Or(next.Namespace, ref.Namespace)
		if found := t.circle(kind, next, append(way[:len(way):len(way)], name), seen); found != nil {
			return found
		}
	}
	return nil
}

// checkObjects warns of objects without a namespace. Flux has no default for
// them and applies nothing of such a unit.
func (t *task) checkObjects() {
	var without []*render.Object
	for _, o := range t.unit.Objects {
		if o.GetNamespace() == "" && t.namespaced(o) {
			without = append(without, o)
		}
	}
	if len(without) == 0 {
		return
	}
	more := ""
	if n := len(without) - 1; n > 0 {
		more = fmt.Sprintf(", nor have %d more objects", n)
	}
	e := errorAt(without[0], "/metadata", "no-namespace", "%s %s has no namespace%s: Flux sets no default, so the API server refuses it",
		without[0].GetKind(), without[0].GetName(), more)
	e.Hint = "set metadata.namespace, or spec.targetNamespace of the Kustomization"
	t.warn(e)
}

// namespaced reports whether an object's kind is known to be namespaced.
func (t *task) namespaced(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	if kinds, ok := namespacedKinds[gvk.Group]; ok {
		return slices.Contains(kinds, gvk.Kind)
	}
	for _, crd := range t.world.Objects(schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}) {
		group, _ := render.Lookup(crd.Object, "/spec/group")
		kind, _ := render.Lookup(crd.Object, "/spec/names/kind")
		if group == gvk.Group && kind == gvk.Kind {
			scope, _ := render.Lookup(crd.Object, "/spec/scope")
			return scope == "Namespaced"
		}
	}
	return false
}

// namespacedKinds are the namespaced kinds, by API group.
var namespacedKinds = map[string][]string{
	"": {
		"ConfigMap", "Endpoints", "Event", "LimitRange", "PersistentVolumeClaim", "Pod", "PodTemplate",
		"ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount",
	},
	"apps":                      {"ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
	"autoscaling":               {"HorizontalPodAutoscaler"},
	"batch":                     {"CronJob", "Job"},
	"coordination.k8s.io":       {"Lease"},
	"discovery.k8s.io":          {"EndpointSlice"},
	"networking.k8s.io":         {"Ingress", "NetworkPolicy"},
	"policy":                    {"PodDisruptionBudget"},
	"rbac.authorization.k8s.io": {"Role", "RoleBinding"},
	kustomizeGroup:              {"Kustomization"},
	helmGroup:                   {"HelmRelease"},
	sourceGroup:                 {"Bucket", "ExternalArtifact", "GitRepository", "HelmChart", "HelmRepository", "OCIRepository"},
	extensionsGroup:             {"ArtifactGenerator"},
}
