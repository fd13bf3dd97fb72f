package admission

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// testKinds knows the built-in types without their defaults, and the kinds
// that CustomResourceDefinitions among its objects define.
type testKinds struct{ crds []*render.Object }

var clusterScoped = map[string]bool{
	"Namespace": true, "Node": true, "PersistentVolume": true, "ClusterRole": true, "ClusterRoleBinding": true,
	"StorageClass": true, "CustomResourceDefinition": true, "ValidatingAdmissionPolicy": true, "ValidatingAdmissionPolicyBinding": true,
	"PriorityClass": true,
}

func (t testKinds) Resource(gvk schema.GroupVersionKind) policy.Resource {
	for _, o := range t.crds {
		spec := o.Object["spec"].(map[string]any)
		names := spec["names"].(map[string]any)
		if spec["group"] == gvk.Group && names["kind"] == gvk.Kind {
			plural, _ := names["plural"].(string)
			return policy.Resource{GroupVersionResource: gvk.GroupVersion().WithResource(plural), Namespaced: spec["scope"] == "Namespaced", Known: true}
		}
	}
	name := strings.ToLower(gvk.Kind)
	switch {
	case name == "endpoints":
	case strings.HasSuffix(name, "y"):
		name = strings.TrimSuffix(name, "y") + "ies"
	case strings.HasSuffix(name, "s"):
		name += "es"
	default:
		name += "s"
	}
	return policy.Resource{GroupVersionResource: gvk.GroupVersion().WithResource(name), Namespaced: !clusterScoped[gvk.Kind], Known: scheme.Scheme.Recognizes(gvk)}
}

func (t testKinds) Admit(o *render.Object, namespace string) (map[string]any, error) {
	tree := runtime.DeepCopyJSON(o.Object)
	if typed, err := scheme.Scheme.New(o.GroupVersionKind()); err == nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, typed); err != nil {
			return nil, err
		}
		if tree, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
			return nil, err
		}
	}
	if namespace != "" {
		tree["metadata"].(map[string]any)["namespace"] = namespace
	}
	return tree, nil
}

func (t testKinds) Equivalent(r schema.GroupVersionResource) []policy.Version {
	all := map[string][]string{"deployments": {"apps/v1", "apps/v1beta1"}, "cronjobs": {"batch/v1", "batch/v1beta1"}}
	kinds := map[string]string{"deployments": "Deployment", "cronjobs": "CronJob"}
	var vs []policy.Version
	for _, v := range all[r.Resource] {
		gv := policy.ParseGroupVersion(v)
		vs = append(vs, policy.Version{Resource: gv.WithResource(r.Resource), Kind: gv.WithKind(kinds[r.Resource])})
	}
	return vs
}

func (t testKinds) Convert(tree map[string]any, to schema.GroupVersionKind) (map[string]any, error) {
	if to.Version == "v1beta1" && to.Kind == "CronJob" {
		return nil, fmt.Errorf("no conversion to %v", to)
	}
	out := runtime.DeepCopyJSON(tree)
	out["apiVersion"] = to.GroupVersion().String()
	return out, nil
}

func always(*render.Object) bool { return true }
