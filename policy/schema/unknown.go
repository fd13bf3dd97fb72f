package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// known lists the fields of a type that the API server's strict decoder accepts. A nil
// known accepts any value: it is a scalar, a map of scalars, or a type that decodes
// itself.
type known struct {
	fields   map[string]*known
	each     *known // of a list, or of a map's values
	metadata bool   // it is the metadata of objects
}

// in returns the fields below a key; ok is false if there is no such field.
func (k *known) in(key string) (below *known, ok bool) {
	if k.fields == nil {
		return k.each, true
	}
	below, ok = k.fields[key]
	return below, ok
}

// An unknownField is a field that the strict decoder refuses.
type unknownField struct {
	path    string // as the decoder writes it
	pointer string
	names   []string // to its parent, "" for an element
	key     string
	parent  *known
}

// maxUnknown is the most strict errors that the API server's decoder keeps.
const maxUnknown = 100

// unknown returns the first unknown fields of a value, in the order of the
// decoder, which gets sorted keys.
func (k *known) unknown(value map[string]any) []unknownField {
	if k.knows(value) {
		return nil
	}
	w := &strictWalk{}
	w.object(k, value, &spot{})
	return w.found
}

// knows reports whether a value has no unknown field.
func (k *known) knows(value any) bool {
	if k == nil {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if below, ok := k.in(key); !ok || !below.knows(child) {
				return false
			}
		}
	case []any:
		for _, child := range v {
			if !k.each.knows(child) {
				return false
			}
		}
	}
	return true
}

type strictWalk struct {
	names []string
	found []unknownField
}

func (s *strictWalk) value(k *known, value any, p *spot, name string) {
	if k == nil || len(s.found) == maxUnknown {
		return
	}
	s.names = append(s.names, name)
	switch v := value.(type) {
	case map[string]any:
		s.object(k, v, p)
	case []any:
		for i, child := range v {
			s.value(k.each, child, p.in(i), "")
		}
	}
	s.names = s.names[:len(s.names)-1]
}

func (s *strictWalk) object(k *known, value map[string]any, p *spot) {
	for _, key := range slices.Sorted(maps.Keys(value)) {
		if len(s.found) == maxUnknown {
			return
		}
		at := p.in(key)
		if below, ok := k.in(key); ok {
			s.value(below, value[key], at, key)
		} else {
			s.found = append(s.found, unknownField{at.path(), at.pointer(), slices.Clone(s.names), key, k})
		}
	}
}

func (k *known) has(name string) bool {
	if k == nil {
		return false
	}
	_, ok := k.fields[name]
	return ok
}

// descend follows field names.
func (k *known) descend(names []string) *known {
	for _, name := range names {
		switch {
		case k == nil:
			return nil
		case name == "" || k.fields == nil:
			k = k.each
		default:
			k = k.fields[name]
		}
	}
	return k
}

// knownOf returns the fields of a kind in a release, nil if they are not known. They
// come from the types of client-go for the newest release, else from the schema.
func knownOf(gvk schema.GroupVersionKind, r release) (*known, error) {
	if r == newest {
		typ := typeOf(gvk)
		if typ == nil {
			return nil, nil
		}
		return knownTypes{}.of(typ), nil
	}
	names, err := componentNames()
	if err != nil || names[gvk] == "" {
		return nil, err
	}
	all, err := components()
	if err != nil {
		return nil, err
	}
	c := &knownSchemas{all, r.bit(), map[string]*known{}}
	return c.component(names[gvk]), nil
}

// knownTypes holds known types, also those under construction, because types
// may contain themselves.
type knownTypes map[reflect.Type]*known

func (k knownTypes) of(typ reflect.Type) *known {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	if have, ok := k[typ]; ok {
		return have
	}
	have := &known{}
	k[typ] = have
	switch typ.Kind() {
	case reflect.Slice, reflect.Map:
		if have.each = k.of(typ.Elem()); have.each == nil {
			k[typ] = nil
		}
	case reflect.Struct:
		have.fields, have.metadata = map[string]*known{}, typ == reflect.TypeFor[metav1.ObjectMeta]()
		for _, f := range fieldsOf(typ) {
			have.fields[f.name] = k.of(f.typ)
		}
	default:
		k[typ] = nil
	}
	return k[typ]
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

type knownSchemas struct {
	components map[string]component
	bit        uint32
	done       map[string]*known
}

func (k *knownSchemas) component(name string) *known {
	if done, ok := k.done[name]; ok {
		return done
	}
	done := &known{}
	k.done[name] = done // schemas may refer to themselves
	var s *openAPI
	for _, variant := range k.components[name] {
		if variant.In&k.bit != 0 && json.Unmarshal(variant.Schema, &s) != nil {
			s = nil
		}
	}
	if compiled := k.schema(s); compiled != nil {
		*done = *compiled
		done.metadata = name == "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
		return done
	}
	k.done[name] = nil
	return nil
}

func (k *knownSchemas) schema(s *openAPI) *known {
	switch {
	case s == nil:
		return nil
	case s.Ref != "":
		return k.component(strings.TrimPrefix(s.Ref, refPrefix))
	case len(s.AllOf) == 1:
		return k.schema(s.AllOf[0])
	case len(s.Properties) > 0:
		fields := &known{fields: make(map[string]*known, len(s.Properties))}
		for name, property := range s.Properties {
			fields.fields[name] = k.schema(property)
		}
		return fields
	case s.Items != nil || s.Values != nil:
		each := s.Items
		if each == nil {
			each = s.Values
		}
		if below := k.schema(each); below != nil {
			return &known{each: below}
		}
	}
	return nil
}

// A strict holds the fields of a kind in the selected release, and on demand in
// the others.
type strict struct {
	now    *known
	others func() map[release]*known
}

func newStrict(gvk schema.GroupVersionKind, r release) (*strict, error) {
	now, err := knownOf(gvk, r)
	if now == nil || err != nil {
		return nil, err
	}
	return &strict{now, sync.OnceValue(func() map[release]*known {
		all := map[release]*known{}
		for other := oldest; other <= newest; other++ {
			if k, err := knownOf(gvk, other); err == nil && k != nil {
				all[other] = k
			}
		}
		return all
	})}, nil
}

// when returns the releases that have a field which the selected release r does
// not have, or "".
func (s *strict) when(u unknownField, r release) string {
	var in []release
	for other, k := range s.others() {
		if k.descend(u.names).has(u.key) {
			in = append(in, other)
		}
	}
	slices.Sort(in)
	switch {
	case len(in) == 0:
		return ""
	case in[0] > r:
		return fmt.Sprintf("added in Kubernetes %s", in[0])
	default:
		return fmt.Sprintf("Kubernetes %s was the last version with it", in[len(in)-1])
	}
}

// suggest returns a hint at the field that was probably meant: one that differs
// in letter case, separators or a typo or two, or one with this name elsewhere.
func (s *strict) suggest(u unknownField) string {
	if meant := render.DidYouMean(u.key, slices.Collect(maps.Keys(u.parent.fields))); meant != "" {
		return meant
	}
	for i := len(u.names) - 1; i >= 0; i-- {
		outer := s.now.descend(u.names[:i])
		if outer.has(u.key) {
			return u.key + " is a field of " + describe(u.names[:i]) + ": is it indented too far?"
		}
		if last := u.names[len(u.names)-1]; outer.has(last) && outer.fields[last].has(u.key) && i < len(u.names)-1 {
			return u.key + " is a field of " + describe(append(slices.Clone(u.names[:i]), last))
		}
	}
	if inner := below(u); inner != "" {
		return u.key + " is a field of " + inner
	}
	return ""
}

// below finds the only sibling that has the field.
func below(u unknownField) string {
	var found []string
	for name, k := range u.parent.fields {
		if k.has(u.key) {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		return ""
	}
	return describe(append(slices.Clone(u.names), found[0]))
}

func describe(names []string) string {
	parts := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "" })
	if len(parts) == 0 {
		return "the object itself"
	}
	return strings.Join(parts, ".")
}
