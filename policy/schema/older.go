package schema

import (
	"encoding/json"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// omitsNullTimestamps is the first release that omits an empty
// creationTimestamp instead of writing null.
const omitsNullTimestamps release = 34

// An adapter converts an object in client-go's types to the form that an older
// API server holds: fields that the older release does not have are dropped. A
// nil *adapter does nothing.
type adapter struct {
	drop  []string
	stamp bool // give metadata a null creationTimestamp if it has none
	into  []namedAdapter
	each  *adapter // of a list or map
}

type namedAdapter struct {
	name string
	*adapter
}

func (a *adapter) adapt(value any) {
	if a == nil {
		return
	}
	switch v := value.(type) {
	case []any:
		for _, child := range v {
			a.each.adapt(child)
		}
	case map[string]any:
		for _, child := range v {
			a.each.adapt(child)
		}
		for _, name := range a.drop {
			delete(v, name)
		}
		if _, ok := v["creationTimestamp"]; a.stamp && !ok {
			v["creationTimestamp"] = nil
		}
		for _, child := range a.into {
			child.adapt(v[child.name])
		}
	}
}

// newAdapter compares a kind's type with its schema in the release. The newest
// release has all fields.
func (s *server) newAdapter(gvk apischema.GroupVersionKind, typ reflect.Type) *adapter {
	if s.release == newest {
		return nil
	}
	name, err := s.ComponentOf(gvk)
	if err != nil || name == "" {
		return nil
	}
	all, err := s.Components()
	if err != nil {
		return nil
	}
	c := &adapterCompiler{all, s.release < omitsNullTimestamps, map[reflect.Type]bool{}}
	return c.adapter(&openAPI{Ref: refPrefix + name}, typ)
}

const refPrefix = "#/components/schemas/"

// An openAPI is the part of a schema that lists its fields.
type openAPI struct {
	Ref        string              `json:"$ref"`
	AllOf      []*openAPI          `json:"allOf"`
	Properties map[string]*openAPI `json:"properties"`
	Items      *openAPI            `json:"items"`
	Values     *openAPI            `json:"additionalProperties"`
}

type adapterCompiler struct {
	components map[string]json.RawMessage
	stamp      bool
	open       map[reflect.Type]bool // types may contain themselves
}

func (a *adapterCompiler) resolve(s *openAPI) *openAPI {
	for s != nil && (s.Ref != "" || len(s.AllOf) == 1) {
		if len(s.AllOf) == 1 {
			s = s.AllOf[0]
			continue
		}
		var target openAPI
		if json.Unmarshal(a.components[strings.TrimPrefix(s.Ref, refPrefix)], &target) != nil {
			return nil
		}
		s = &target
	}
	return s
}

func (a *adapterCompiler) adapter(s *openAPI, typ reflect.Type) *adapter {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	s = a.resolve(s)
	if s == nil || a.open[typ] || reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	switch typ.Kind() {
	case reflect.Slice:
		return a.each(s.Items, typ.Elem())
	case reflect.Map:
		return a.each(s.Values, typ.Elem())
	case reflect.Struct:
		a.open[typ] = true
		defer delete(a.open, typ)
		return a.fields(s, typ)
	}
	return nil
}

func (a *adapterCompiler) each(s *openAPI, typ reflect.Type) *adapter {
	if s == nil {
		return nil
	}
	if p := a.adapter(s, typ); p != nil {
		return &adapter{each: p}
	}
	return nil
}

func (a *adapterCompiler) fields(s *openAPI, typ reflect.Type) *adapter {
	if len(s.Properties) == 0 {
		return nil
	}
	p := &adapter{stamp: a.stamp && typ == reflect.TypeFor[metav1.ObjectMeta]()}
	for _, f := range fieldsOf(typ) {
		child := s.Properties[f.name]
		if child == nil {
			p.drop = append(p.drop, f.name)
		} else if below := a.adapter(child, f.typ); below != nil {
			p.into = append(p.into, namedAdapter{f.name, below})
		}
	}
	if len(p.drop)+len(p.into) == 0 && !p.stamp {
		return nil
	}
	return p
}
