package schema

import (
	"encoding/json"
	"reflect"
	"strings"

	apischema "k8s.io/apimachinery/pkg/runtime/schema"
)

// A pruner drops the fields that the types of client-go have and an older API
// server doesn't know: it ignores them in what it reads. nil drops nothing.
type pruner struct {
	drop []string
	into []namedPruner
	each *pruner // of a list or map
}

type namedPruner struct {
	name string
	*pruner
}

func (p *pruner) prune(value any) {
	if p == nil {
		return
	}
	switch v := value.(type) {
	case []any:
		for _, child := range v {
			p.each.prune(child)
		}
	case map[string]any:
		for _, child := range v {
			p.each.prune(child)
		}
		for _, name := range p.drop {
			delete(v, name)
		}
		for _, child := range p.into {
			child.prune(v[child.name])
		}
	}
}

// newPruner compares a kind's type with its schema in the release. The newest
// release knows all fields.
func (k *Kinds) newPruner(gvk apischema.GroupVersionKind, typ reflect.Type) *pruner {
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
	c := &pruneCompiler{all, map[reflect.Type]bool{}}
	return c.pruner(&openAPI{Ref: refPrefix + name}, typ)
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

type pruneCompiler struct {
	components map[string]json.RawMessage
	open       map[reflect.Type]bool // types may contain themselves
}

func (c *pruneCompiler) resolve(s *openAPI) *openAPI {
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

func (c *pruneCompiler) pruner(s *openAPI, typ reflect.Type) *pruner {
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

func (c *pruneCompiler) each(s *openAPI, typ reflect.Type) *pruner {
	if s == nil {
		return nil
	}
	if p := c.pruner(s, typ); p != nil {
		return &pruner{each: p}
	}
	return nil
}

func (c *pruneCompiler) fields(s *openAPI, typ reflect.Type) *pruner {
	if len(s.Properties) == 0 {
		return nil
	}
	p := &pruner{}
	for _, f := range fieldsOf(typ) {
		child := s.Properties[f.name]
		if child == nil {
			p.drop = append(p.drop, f.name)
		} else if below := c.pruner(child, f.typ); below != nil {
			p.into = append(p.into, namedPruner{f.name, below})
		}
	}
	if len(p.drop)+len(p.into) == 0 {
		return nil
	}
	return p
}
