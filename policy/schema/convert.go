package schema

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema/internal/apiserver"
)

// Equivalent returns the other resources that the API server serves from the
// same storage. For built-in resources these are the other versions that are on
// by default, and for events the other of their two groups
// (AddCohabitatingResources in pkg/kubeapiserver).
func (k *Kinds) Equivalent(gvr schema.GroupVersionResource) []policy.Version {
	if found, builtin := k.equivalents()[gvr]; builtin {
		return found
	}
	return k.equivalentCustoms(gvr)
}

// newEquivalents returns the equivalents of every built-in resource.
func (s *server) newEquivalents() map[schema.GroupVersionResource][]policy.Version {
	kept := make(map[schema.GroupResource][]policy.Version)
	for _, b := range s.sortedKinds((*builtin).byDefault) {
		storage := storageOf(b.gvr().GroupResource())
		kept[storage] = append(kept[storage], policy.Version{Resource: b.gvr(), Kind: b.gvk})
	}
	all := make(map[schema.GroupVersionResource][]policy.Version, len(s.byName))
	for gvr := range s.byName {
		all[gvr] = nil
		for _, v := range kept[storageOf(gvr.GroupResource())] {
			if v.Resource != gvr {
				all[gvr] = append(all[gvr], v)
			}
		}
	}
	return all
}

// storageOf returns the resource under which the objects of a resource are
// stored.
func storageOf(gr schema.GroupResource) schema.GroupResource {
	if gr == (schema.GroupResource{Group: "events.k8s.io", Resource: "events"}) {
		return schema.GroupResource{Resource: "events"}
	}
	return gr
}

// Convert returns an admitted object in another version of its kind, as the API
// server converts it for a policy that names that version. It fails if the API
// server would call a conversion webhook, or if the conversion is not known
// here.
func (k *Kinds) Convert(admitted map[string]any, to schema.GroupVersionKind) (map[string]any, error) {
	apiVersion, _ := admitted["apiVersion"].(string)
	kind, _ := admitted["kind"].(string)
	from := policy.ParseGroupVersion(apiVersion).WithKind(kind)
	if from == to {
		return runtime.DeepCopyJSON(admitted), nil
	}
	if c := k.customs[from.GroupKind()]; c != nil && to.GroupKind() == from.GroupKind() {
		return c.convert(admitted, from, to)
	}
	a, b := k.builtins[from], k.builtins[to]
	if from.GroupKind() == to.GroupKind() && a == nil && b == nil {
		return nil, errors.New("its CustomResourceDefinition is not in the tree or --with")
	}
	if a == nil || b == nil || storageOf(a.gvr().GroupResource()) != storageOf(b.gvr().GroupResource()) {
		return nil, fmt.Errorf("%s %s is not another version of %s %s", to.GroupVersion(), to.Kind, from.GroupVersion(), from.Kind)
	}
	return k.convertBuiltin(a, b, admitted)
}

func (*server) convertBuiltin(from, to *builtin, admitted map[string]any) (map[string]any, error) {
	a, b := from.goType(), to.goType()
	if a == nil || b == nil {
		return nil, fmt.Errorf("%s %s can't be converted to %s offline", from.gvk.GroupVersion(), from.gvk.Kind, to.gvk.GroupVersion())
	}
	typed, err := a.decode(admitted)
	if err != nil {
		return nil, err
	}
	converted, err := apiserver.Convert(typed, from.gvk, to.gvk)
	if err != nil {
		return nil, err
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(converted)
	if err != nil {
		return nil, err
	}
	b.older.adapt(tree)
	return tree, nil
}
