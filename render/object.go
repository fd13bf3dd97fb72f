package render

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Object is one Kubernetes object as a unit would apply it. Its value tree
// holds nil, bool, int64, float64, string, []any and map[string]any, and is
// read-only once rendered.
type Object struct {
	*unstructured.Unstructured
	Unit       *Unit      // set by Graph.Render
	Provenance Provenance // nil if the origins are unknown
	Assumed    []string   // assumptions of its rendering, such as an empty `lookup`
	Variant    Variant    // the variant that has this object, if not the default

	kindOf *unstructured.Unstructured // the value whose kind was stored by KeepKind
	kind   *schema.GroupVersionKind
}

// AssumedCopy begins the assumption of an object whose data is not known, because it is
// copied from an object that is not in the tree.
const AssumedCopy = "its data is copied from "

// A Key identifies an object in reports: what it is and which unit applies it.
type Key struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	Unit       string `json:"unit"`
}

// The methods below are those of Unstructured, which takes several times as long to
// look up a field.

// GetAPIVersion returns the apiVersion, "" if there is none.
func (o *Object) GetAPIVersion() string { return text(o.Object["apiVersion"]) }

// GetKind returns the kind, "" if there is none.
func (o *Object) GetKind() string { return text(o.Object["kind"]) }

// GetName returns the name, "" if there is none.
func (o *Object) GetName() string { return o.metadata("name") }

// GetNamespace returns the namespace, "" if there is none.
func (o *Object) GetNamespace() string { return o.metadata("namespace") }

func (o *Object) metadata(field string) string {
	m, _ := o.Object["metadata"].(map[string]any)
	return text(m[field])
}

// GroupVersionKind returns the kind with its group and version. It is empty if the
// apiVersion is not valid.
func (o *Object) GroupVersionKind() schema.GroupVersionKind {
	if o.kind != nil && o.kindOf == o.Unstructured {
		return *o.kind
	}
	group, version, ok := strings.Cut(o.GetAPIVersion(), "/")
	if !ok {
		group, version = "", group
	}
	if strings.Contains(version, "/") {
		return schema.GroupVersionKind{}
	}
	return schema.GroupVersionKind{Group: group, Version: version, Kind: o.GetKind()}
}

// KeepKind stores the kind, so that GroupVersionKind need not look it up again. The object must not
// change any more.
func (o *Object) KeepKind() {
	if o.kindOf != o.Unstructured {
		kind := o.GroupVersionKind()
		o.kindOf, o.kind = o.Unstructured, &kind
	}
}

// Key returns the object's identity. The name of an object with generateName is
// that prefix followed by "*".
func (o *Object) Key() Key {
	k := Key{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	if k.Name == "" && o.GetGenerateName() != "" {
		k.Name = o.GetGenerateName() + "*"
	}
	if o.Unit != nil {
		k.Unit = o.Unit.Identity()
	}
	return k
}

// Unversioned returns the object's identity in whatever version: APIVersion is the
// group alone.
func (o *Object) Unversioned() Key {
	k := o.Key()
	k.APIVersion = o.GroupVersionKind().Group
	return k
}

// Objects returns the objects of units, in order.
func Objects(units []*Unit) []*Object {
	n := 0
	for _, u := range units {
		n += len(u.Objects)
	}
	all := make([]*Object, 0, n)
	for _, u := range units {
		all = append(all, u.Objects...)
	}
	return all
}

// ByIdentity returns units by their Identity.
func ByIdentity(units []*Unit) map[string]*Unit {
	all := make(map[string]*Unit, len(units))
	for _, u := range units {
		all[u.Identity()] = u
	}
	return all
}

// At is Provenance.At, or nil if the object has no Provenance.
func (o *Object) At(pointer string) []Origin {
	if o == nil || o.Provenance == nil {
		return nil
	}
	return o.Provenance.At(pointer)
}

// Span returns where a person would edit a field, or the zero Span if that is
// unknown.
func (o *Object) Span(pointer string) Span {
	if origins := o.At(pointer); len(origins) > 0 {
		return origins[0].Span
	}
	return Span{}
}

// Line returns the places that made line n, from 0, of a field that is a text
// of several lines. They differ from line to line if the text was made of
// several values. It returns nil if the places of single lines are unknown.
func (o *Object) Line(pointer string, n int) []Origin {
	if o == nil {
		return nil
	}
	if p, ok := o.Provenance.(interface {
		Line(pointer string, n int) []Origin
	}); ok {
		return p.Line(pointer, n)
	}
	return nil
}

// Variants are the objects that only some installations of units have.
func Variants(units []*Unit) []*Object {
	var all []*Object
	for _, u := range units {
		all = append(all, u.Variants...)
	}
	return all
}

// Defines returns the kind that a CustomResourceDefinition defines.
func Defines(o *Object) (gk schema.GroupKind, ok bool) {
	group, _ := Lookup(o.Object, "/spec/group")
	kind, _ := Lookup(o.Object, "/spec/names/kind")
	gk.Group, _ = group.(string)
	gk.Kind, ok = kind.(string)
	return gk, ok && o.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}
