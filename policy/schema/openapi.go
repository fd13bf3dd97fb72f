package schema

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:embed openapi.json.gz
var openapiGZ []byte

// A component holds the variants of a schema of the OpenAPI documents, each
// with the bits of its releases.
type component []struct {
	In     uint32          `json:"in"`
	Schema json.RawMessage `json:"schema"`
}

// components parses the embedded schemas on first use.
var components = sync.OnceValues(func() (map[string]component, error) {
	z, err := gzip.NewReader(bytes.NewReader(openapiGZ))
	if err != nil {
		return nil, fmt.Errorf("the embedded OpenAPI schemas: %w", err)
	}
	var all map[string]component
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		return nil, fmt.Errorf("the embedded OpenAPI schemas: %w", err)
	}
	return all, nil
})

// Components returns the component schemas of the API server's OpenAPI v3
// documents by name, such as "io.k8s.api.apps.v1.Deployment", without
// descriptions. References between them are "#/components/schemas/NAME".
// Kubernetes 1.37 has the schemas of 1.36, because no newer ones are published
// as a module.
func (s *server) Components() (map[string]json.RawMessage, error) {
	all, err := components()
	if err != nil {
		return nil, err
	}
	schemas := make(map[string]json.RawMessage, len(all))
	for name, variants := range all {
		for _, v := range variants {
			if v.In&s.release.bit() != 0 {
				schemas[name] = v.Schema
			}
		}
	}
	return schemas, nil
}

// ComponentOf returns the name of the component that describes a built-in kind,
// or "".
func (s *server) ComponentOf(gvk schema.GroupVersionKind) (string, error) {
	names, err := componentNames()
	if err != nil || s.builtins[gvk] == nil {
		return "", err
	}
	return names[gvk], nil
}

// componentNames maps kinds to components by x-kubernetes-group-version-kind.
// Lists and options, which have many kinds, are left out.
var componentNames = sync.OnceValues(func() (map[schema.GroupVersionKind]string, error) {
	all, err := components()
	if err != nil {
		return nil, err
	}
	names := map[schema.GroupVersionKind]string{}
	for name, variants := range all {
		var s struct {
			Kinds []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
		}
		for _, v := range variants {
			if err := json.Unmarshal(v.Schema, &s); err != nil {
				return nil, fmt.Errorf("the embedded schema of %s: %w", name, err)
			}
			if len(s.Kinds) == 1 && strings.HasSuffix(name, "."+s.Kinds[0].Kind) {
				names[s.Kinds[0]] = name
			}
		}
	}
	return names, nil
})

// Subresources returns the served subresources of a built-in resource, in
// order: "scale", "status".
func (s *server) Subresources(gvr schema.GroupVersionResource) []string {
	if b := s.byName[gvr]; b != nil {
		return slices.Clone(b.subresources)
	}
	return nil
}
