package crd

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
)

// Catalogued builds a CustomResourceDefinition for a kind from its JSON Schemas
// by version, as catalogues of schemas publish them. They were generated from
// definitions, for validators that do not know Kubernetes. The name of the
// resource and its scope are those of policy.ResourceOf. Catalogued fails if the
// schemas make no valid definition.
func Catalogued(kind schema.GroupKind, schemas map[string][]byte) (map[string]any, error) {
	resource := policy.ResourceOf(kind.WithVersion("v1"))
	var versions []any
	for _, version := range slices.Sorted(maps.Keys(schemas)) {
		var root map[string]any
		if err := json.Unmarshal(schemas[version], &root); err != nil {
			return nil, fmt.Errorf("the schema of %s %s is not a JSON Schema", kind, version)
		}
		if err := (&restorer{}).restore(root); err != nil {
			return nil, fmt.Errorf("the schema of %s %s: %w", kind, version, err)
		}
		root["type"] = "object"
		ownMetadata(root)
		if err := checkStructural(root); err != nil {
			return nil, fmt.Errorf("the schema of %s %s is not that of a CustomResourceDefinition: %w", kind, version, err)
		}
		versions = append(versions, map[string]any{
			"name": version, "served": true, "storage": len(versions) == 0, "schema": map[string]any{"openAPIV3Schema": root},
		})
	}
	metadata := map[string]any{"name": resource.Resource + "." + kind.Group}
	if resource.Guessed {
		metadata["annotations"] = map[string]any{policy.GuessedResource: "true"}
	}
	scope := apiextensionsv1.ClusterScoped
	if resource.Namespaced {
		scope = apiextensionsv1.NamespaceScoped
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata,
		"spec": map[string]any{
			"group": kind.Group, "scope": string(scope), "versions": versions,
			"names": map[string]any{"kind": kind.Kind, "listKind": kind.Kind + "List", "plural": resource.Resource, "singular": strings.ToLower(kind.Kind)},
		},
	}, nil
}

// A restorer converts a catalogue's JSON Schema to the schema of a
// CustomResourceDefinition.
type restorer struct{ fields int }

const maxCatalogued = 100_000

// restore undoes, in place, the changes that catalogues make to a definition's
// schema: closed objects, and types in place of Kubernetes' extensions.
func (r *restorer) restore(s map[string]any) error {
	if r.fields++; r.fields > maxCatalogued {
		return fmt.Errorf("it has more than %d fields", maxCatalogued)
	}
	if _, ok := s["$ref"]; ok {
		return errors.New("it refers to another schema")
	}
	delete(s, "$schema")
	if isIntOrString(s["oneOf"]) {
		delete(s, "oneOf")
		s["x-kubernetes-int-or-string"] = true
	}
	if types, ok := s["type"].([]any); ok { // with null
		delete(s, "type")
		for _, t := range types {
			if t == "null" {
				s["nullable"] = true
			} else if s["type"] == nil {
				s["type"] = t
			}
		}
	}
	if closed, ok := s["additionalProperties"].(bool); ok {
		delete(s, "additionalProperties")
		if closed {
			s["x-kubernetes-preserve-unknown-fields"] = true
		}
	}
	r.open(s)
	if err := r.children(s); err != nil {
		return err
	}
	if s["x-kubernetes-embedded-resource"] == true {
		ownMetadata(s)
	}
	return nil
}

// ownMetadata removes the schema of an object's metadata, which Kubernetes
// validates itself.
func ownMetadata(s map[string]any) {
	if properties, _ := s["properties"].(map[string]any); properties["metadata"] != nil {
		properties["metadata"] = map[string]any{"type": "object"}
	}
}

// open allows unknown fields where a JSON Schema has no type.
func (r *restorer) open(s map[string]any) {
	_, hasProperties := s["properties"]
	_, isMap := s["additionalProperties"]
	switch {
	case s["x-kubernetes-int-or-string"] == true:
	case s["type"] == nil && hasProperties:
		s["type"] = "object"
	case s["type"] == nil, s["type"] == "object" && !hasProperties && !isMap:
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
}

func (r *restorer) children(s map[string]any) error {
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		child, ok := p.(map[string]any)
		if !ok {
			return fmt.Errorf("its property %q has no schema", name)
		}
		if err := r.restore(child); err != nil {
			return err
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if child, ok := s[key].(map[string]any); ok {
			if err := r.restore(child); err != nil {
				return err
			}
		}
	}
	return nil
}

// isIntOrString reports whether alternatives are a catalogue's form of
// x-kubernetes-int-or-string.
func isIntOrString(alternatives any) bool {
	list, _ := alternatives.([]any)
	if len(list) != 2 {
		return false
	}
	types := make(map[any]bool)
	for _, a := range list {
		if m, ok := a.(map[string]any); ok && len(m) == 1 {
			if t, ok := m["type"].(string); ok {
				types[t] = true
			}
		}
	}
	return types["string"] && (types["integer"] || types["number"])
}

// checkStructural returns an error if an API server would refuse a schema.
func checkStructural(root map[string]any) error {
	data, err := json.Marshal(root)
	if err != nil {
		return err
	}
	var props apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(data, &props); err != nil {
		return errors.New("it has fields of another type")
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		return err
	}
	s, err := structural.NewStructural(&internal)
	if err != nil {
		return err
	}
	return structural.ValidateStructural(nil, s).ToAggregate()
}
