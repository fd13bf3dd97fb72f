package schema

import (
	"encoding/json"
	"fmt"
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"
)

// A goType is a kind's Go type with its decoding, defaulting and conversion. It
// is safe for concurrent use.
type goType struct {
	typ      reflect.Type
	shape    *shape
	form     *form // nil: only the library can convert the type
	defaults *plan
	stored   *plan
	older    *adapter
}

// newGoType returns the type of a kind, or nil if client-go no longer has it.
func (s *server) newGoType(gvk schema.GroupVersionKind) *goType {
	typ := typeOf(gvk)
	if typ == nil {
		return nil
	}
	t := &goType{typ: typ, shape: shapeOf(typ), form: formOf(typ), stored: newPlan(typ, stored), older: s.newAdapter(gvk, typ)}
	if gvk.Group != "node.k8s.io" { // has no defaults, not even for the quantities of core that it holds
		t.defaults = newPlan(typ, defaults)
	}
	return t
}

// typeOf returns the Go type of a kind, from client-go or for two groups from
// other modules.
func typeOf(gvk schema.GroupVersionKind) reflect.Type {
	switch gvk {
	case apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"):
		return reflect.TypeFor[apiextensionsv1.CustomResourceDefinition]()
	case schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}:
		return apiServiceType
	}
	object, err := scheme.Scheme.New(gvk)
	if err != nil {
		return nil
	}
	return reflect.TypeOf(object).Elem()
}

// decode converts a value tree to a pointer to a typed object. If the API server
// would refuse the tree, the error is a *policy.FieldError with its message.
func (g *goType) decode(object map[string]any) (any, error) {
	faults := g.shape.faults(object)
	if faults.hostile != nil {
		return nil, faults.hostile
	}
	typed, err := g.typed(object, faults.first)
	if err != nil {
		return nil, err
	}
	return typed, refuse(typed)
}

// typed decodes an object whose quantities are harmless. fault is the pointer
// of the first value of a wrong type, or "".
func (g *goType) typed(object map[string]any, fault string) (any, error) {
	if fault == "" {
		if typed, err := g.fromTree(object); err == nil {
			return typed, nil
		}
	}
	typed := reflect.New(g.typ).Interface()
	// The API server's decoder decides whether something is wrong, and words
	// the error.
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if err := serverjson.Unmarshal(data, typed); err != nil {
		return nil, fieldError(short(err), fault)
	}
	return typed, nil
}

// short limits the length of an error that quotes its input.
func short(err error) error {
	const limit = 1000
	if text := err.Error(); len(text) > limit {
		return fmt.Errorf("%s…", text[:limit])
	}
	return err
}

// complete sets the API server's defaults in a decoded object, and then applies
// the conversions of stored.
func (g *goType) complete(r release, typed any) {
	value := reflect.ValueOf(typed).Elem()
	g.defaults.apply(r, value)
	g.stored.apply(r, value)
}
