package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// gvkExtension lists the kinds that a schema describes.
const gvkExtension = "x-kubernetes-group-version-kind"

// mergers caches type converters by kind.
type mergers struct{ byKind sync.Map }

// TypeConverter returns the converter with which apply configurations are
// merged into objects of a served kind, built from its OpenAPI schema as the
// API server does for MutatingAdmissionPolicies (TypeConverterManager of
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch). It is nil for a
// kind that is not served.
func (k *Kinds) TypeConverter(gvk schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	if !k.Resource(gvk).Known {
		return nil, nil
	}
	mergers := k.mergers
	if k.builtins[gvk] != nil {
		mergers = &k.server.mergers
	}
	made, ok := mergers.byKind.Load(gvk)
	if !ok {
		made, _ = mergers.byKind.LoadOrStore(gvk, sync.OnceValues(func() (managedfields.TypeConverter, error) {
			return k.newTypeConverter(gvk)
		}))
	}
	return made.(func() (managedfields.TypeConverter, error))()
}

func (k *Kinds) newTypeConverter(gvk schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	schemas, err := k.componentsOf(gvk)
	if schemas == nil || err != nil {
		return nil, err
	}
	converter, err := managedfields.NewTypeConverter(schemas, false)
	if err != nil {
		return nil, fmt.Errorf("the schema of %s %s: %w", gvk.GroupVersion(), gvk.Kind, short(err))
	}
	return converter, nil
}

// componentsOf returns the schemas of a kind and of everything that it refers
// to.
func (k *Kinds) componentsOf(gvk schema.GroupVersionKind) (map[string]*spec.Schema, error) {
	if k.builtins[gvk] == nil {
		s, ok := k.Schema(gvk)
		if !ok {
			return nil, nil
		}
		named := *s
		named.Extensions = spec.Extensions{}
		for key, value := range s.Extensions {
			named.Extensions[key] = value
		}
		named.Extensions[gvkExtension] = []any{map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}}
		return map[string]*spec.Schema{gvk.Kind: &named}, nil
	}
	name, err := k.ComponentOf(gvk)
	if name == "" || err != nil {
		return nil, err
	}
	all, err := k.Components()
	if err != nil {
		return nil, err
	}
	found := map[string]*spec.Schema{}
	for todo := []string{name}; len(todo) > 0; todo = todo[1:] {
		if raw, ok := all[todo[0]]; ok && found[todo[0]] == nil {
			s := &spec.Schema{}
			if err := json.Unmarshal(raw, s); err != nil {
				return nil, fmt.Errorf("the embedded schema of %s: %w", todo[0], err)
			}
			found[todo[0]] = s
			todo = append(todo, references(raw)...)
		}
	}
	return found, nil
}

const componentRef = `"#/components/schemas/`

// references returns the names of the components that a schema refers to.
func references(raw json.RawMessage) []string {
	var names []string
	for part := range strings.SplitSeq(string(raw), componentRef) {
		if name, _, ok := strings.Cut(part, `"`); ok && !strings.HasPrefix(part, "{") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
