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

// A goType is a kind's type in Go and what is done with its values. It is
// safe for concurrent use.
type goType struct {
	typ      reflect.Type
	shape    *shape
	form     *form // nil: the library knows it alone
	defaults *plan
	stored   *plan
	older    *adapter
}

// newGoType returns nil for a kind that client-go has no type for: such as
// were dropped before the version that this module requires.
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

// typeOf finds the type of a kind: in client-go, but for the two groups that
// other modules serve.
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

// decode makes a typed object, a pointer, of a value tree. What the API
// server would refuse is a *policy.FieldError in the server's words.
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

// typed is decode for an object whose quantities are harmless and in which
// fault is the first value of a wrong type, or "".
func (g *goType) typed(object map[string]any, fault string) (any, error) {
	if fault == "" {
		if typed, err := g.fromTree(object); err == nil {
			return typed, nil
		}
	}
	typed := reflect.New(g.typ).Interface()
	// The words are those of the decoder that the API server uses, which also
	// has the last one on whether something is wrong.
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if err := serverjson.Unmarshal(data, typed); err != nil {
		return nil, fieldError(short(err), fault)
	}
	return typed, nil
}

// short keeps an error that quotes its input within bounds.
func short(err error) error {
	const limit = 1000
	if text := err.Error(); len(text) > limit {
		return fmt.Errorf("%s…", text[:limit])
	}
	return err
}

// complete does to a decoded object what the API server does: it fills in
// defaults, then goes by the form that the server stores.
func (g *goType) complete(r release, typed any) {
	value := reflect.ValueOf(typed).Elem()
	g.defaults.apply(r, value)
	g.stored.apply(r, value)
}
