package schema

import (
	"encoding/json"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// omitsNullTimestamps is the release since which metadata without a creation
// time is without creationTimestamp, too, rather than with a null.
const omitsNullTimestamps release = 34

// An adapter makes of an object in the types of client-go what an older API
// server holds. It drops the fields that the older one doesn't know, which
// ignores them in what it reads. nil does nothing.
type adapter struct {
	drop  []string
	stamp bool // metadata has a null creationTimestamp rather than none
	into  []namedAdapter
	each  *adapter // of a list or map
}

type namedAdapter struct {
	name string
	*adapter
}

func (p *adapter) adapt(value any) {
	if p == nil {
		return
	}
	switch v := value.(type) {
	case []any:
		for _, child := range v {
			p.each.adapt(child)
		}
	case map[string]any:
		for _, child := range v {
			p.each.adapt(child)
		}
		for _, name := range p.drop {
			delete(v, name)
		}
		if _, ok := v["creationTimestamp"]; p.stamp && !ok {
			v["creationTimestamp"] = nil
		}
		for _, child := range p.into {
			child.adapt(v[child.name])
		}
	}
}

// newAdapter compares a kind's type with its schema in the release. The newest
// release knows all fields.
func (k *server) newAdapter(gvk apischema.GroupVersionKind, typ reflect.Type) *adapter {
	if k.release == newest {
		return nil
	}
	name, err := k.ComponentOf(gvk)
	if err != nil || name == "" {
		return nil
	}
	all, err := k.Components()
	if err != nil {
		return nil
	}
	c := &adapterCompiler{all, k.release < omitsNullTimestamps, map[reflect.Type]bool{}}
	return c.adapter(&openAPI{Ref: refPrefix + name}, typ)
}

const refPrefix = "#/components/schemas/"

// An openAPI is the part of a schema that says which fields there are.
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

func (c *adapterCompiler) resolve(s *openAPI) *openAPI {
	for s != nil && (s.Ref != "" || len(s.AllOf) == 1) {
		if len(s.AllOf) == 1 {
			s = s.AllOf[0]
			continue
		}
		var target openAPI
		if json.Unmarshal(c.components[strings.TrimPrefix(s.Ref, refPrefix)], &target) != nil {
			return nil
		}
		s = &target
	}
	return s
}

func (c *adapterCompiler) adapter(s *openAPI, typ reflect.Type) *adapter {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	s = c.resolve(s)
	if s == nil || c.open[typ] || reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	switch typ.Kind() {
	case reflect.Slice:
		return c.each(s.Items, typ.Elem())
	case reflect.Map:
		return c.each(s.Values, typ.Elem())
	case reflect.Struct:
		c.open[typ] = true
		defer delete(c.open, typ)
		return c.fields(s, typ)
	}
	return nil
}

func (c *adapterCompiler) each(s *openAPI, typ reflect.Type) *adapter {
	if s == nil {
		return nil
	}
	if p := c.adapter(s, typ); p != nil {
		return &adapter{each: p}
	}
	return nil
}

func (c *adapterCompiler) fields(s *openAPI, typ reflect.Type) *adapter {
	if len(s.Properties) == 0 {
		return nil
	}
	p := &adapter{stamp: c.stamp && typ == reflect.TypeFor[metav1.ObjectMeta]()}
	for _, f := range fieldsOf(typ) {
		child := s.Properties[f.name]
		if child == nil {
			p.drop = append(p.drop, f.name)
		} else if below := c.adapter(child, f.typ); below != nil {
			p.into = append(p.into, namedAdapter{f.name, below})
		}
	}
	if len(p.drop)+len(p.into) == 0 && !p.stamp {
		return nil
	}
	return p
}
