package overlay

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// A shape is the Go type of the Kubernetes API for the values at a place, and how a
// list there is merged. The zero shape is unknown.
type shape struct {
	t     reflect.Type
	merge bool     // a list whose elements are merged
	keys  []string // merge keys; none for lists of scalars
}

// known reports whether the schema has the place.
func (s shape) known() bool { return s.t != nil }

// shapeOf returns the shape of a built-in kind's objects.
func shapeOf(object map[string]any) shape {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	gv, err := schema.ParseGroupVersion(version)
	if version == "" || kind == "" || err != nil {
		return shape{}
	}
	o, err := scheme.Scheme.New(gv.WithKind(kind))
	if err != nil {
		return shape{}
	}
	return shape{t: reflect.TypeOf(o).Elem()}
}

// elements returns the shape of a list's elements.
func (s shape) elements() shape {
	if s.t != nil && s.t.Kind() == reflect.Slice {
		return shape{t: indirect(s.t.Elem())}
	}
	return shape{}
}

// field returns the shape of a map's value.
func (s shape) field(name string) shape {
	if s.t == nil {
		return shape{}
	}
	switch s.t.Kind() {
	case reflect.Map:
		return shape{t: indirect(s.t.Elem())}
	case reflect.Struct:
		return structField(s.t, name)
	}
	return shape{}
}

func structField(t reflect.Type, name string) shape {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && tag == "" {
			if s := structField(indirect(f.Type), name); s.known() {
				return s
			}
		}
		if tag == name && name != "" {
			return fieldShape(t, f)
		}
	}
	return shape{}
}

func fieldShape(owner reflect.Type, f reflect.StructField) shape {
	s := shape{t: indirect(f.Type)}
	strategies := strings.Split(f.Tag.Get("patchStrategy"), ",")
	if !slices.Contains(strategies, "merge") {
		return s
	}
	name := owner.Name() + "." + f.Name
	if slices.Contains(replaced, name) {
		return s
	}
	s.merge = true
	if key := f.Tag.Get("patchMergeKey"); key != "" {
		s.keys = []string{key}
	}
	if second, ok := secondKeys[name]; ok {
		s.keys = append(s.keys, second)
	}
	return s
}

// secondKeys are the second keys of lists whose elements one key does not identify.
var secondKeys = map[string]string{
	"Container.Ports":                   "protocol",
	"EphemeralContainerCommon.Ports":    "protocol",
	"ServiceSpec.Ports":                 "protocol",
	"PodSpec.TopologySpreadConstraints": "whenUnsatisfiable",
}

// replaced are lists that the API merges but kustomize, whose schema is that of
// Kubernetes 1.21, replaces.
var replaced = []string{"PodSpec.SchedulingGates", "PodSpec.ResourceClaims"}

func indirect(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
