package document

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/policy/internal/filters"
	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
	"github.com/preadmit/preadmit/render"
)

// decode sets the fields of the struct that into points to from those of x that their tags
// name: kyverno:"a/b" is b in a, and "." is x itself. After a comma a tag has
//
//	has      for a flag that is true if the field is set
//	true     for a flag, its value if the field is missing
//	pointer  for the pointer of the field in the policy
//	action   for an action, in today's spelling
//	filled   for a struct that is nil if its map is empty
//
// or the default of a string. Fields without a tag are left to the caller.
func (r reader) decode(x field, into any) {
	v := reflect.ValueOf(into).Elem()
	for i := range v.NumField() {
		tag, tagged := v.Type().Field(i).Tag.Lookup("kyverno")
		if !tagged {
			continue
		}
		name, option, _ := strings.Cut(tag, ",")
		from := x
		if name != "." {
			from = x.at(strings.Split(name, "/")...)
		}
		r.set(v.Field(i), from, option)
	}
}

// set sets a value. Types that are read in their own way come first.
func (r reader) set(v reflect.Value, x field, option string) {
	switch to := v.Addr().Interface().(type) {
	case *string:
		*to = x.asText(option)
	case *bool:
		*to = x.asFlag(option)
	case **bool:
		if b, ok := x.value.(bool); ok {
			*to = &b
		}
	case *int:
		*to = len(x.list())
	case *any:
		*to = x.value
	case *[]any:
		*to, _ = x.value.([]any)
	case *[]string:
		*to = x.strings()
	case *map[string]any:
		*to = x.keys()
	case **conditions.Block:
		*to = r.conditions(x, r.form)
	case **Match:
		if x.isSet() {
			*to = match(x)
		}
	case *KindSelector:
		*to = filters.ParseKindSelector(x.asText(""))
	case *[]*AttestorSet:
		*to = attestorSets(x, maxAttestors)
	default:
		r.setAny(v, x, option)
	}
}

func (r reader) setAny(v reflect.Value, x field, option string) {
	switch v.Kind() {
	case reflect.Struct:
		r.decode(x, v.Addr().Interface())
	case reflect.Pointer:
		if x.isSet() && (option != "filled" || len(x.keys()) > 0) {
			v.Set(reflect.New(v.Type().Elem()))
			r.set(v.Elem(), x, "")
		}
	case reflect.Slice:
		for _, item := range x.list() {
			e := reflect.New(v.Type().Elem()).Elem()
			if e.Kind() == reflect.Pointer {
				e.Set(reflect.New(e.Type().Elem()))
				r.set(e.Elem(), item, "")
			} else {
				r.set(e, item, "")
			}
			v.Set(reflect.Append(v, e))
		}
	case reflect.Map:
		if x.isSet() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for key := range x.keys() {
			value := reflect.New(v.Type().Elem()).Elem()
			r.set(value, x.at(key), "")
			v.SetMapIndex(reflect.ValueOf(key), value)
		}
	}
}

func (f field) asText(option string) string {
	s, _ := f.value.(string)
	switch option {
	case "pointer":
		return f.pointer
	case "action":
		return actionOf(s)
	}
	return cmp.Or(s, option)
}

func (f field) asFlag(option string) bool {
	if option == "has" {
		return f.isSet()
	}
	b, ok := f.value.(bool)
	return b || !ok && option == "true"
}

// A field is a value of the policy and its pointer. A missing field has the value
// nil, and so have its children.
type field struct {
	value   any
	pointer string
}

func (f field) at(keys ...string) field {
	for _, key := range keys {
		f = field{f.get(key), child(f.pointer, key)}
	}
	return f
}

// child returns the pointer of a key in the map at a pointer.
func child(pointer, key string) string {
	if strings.ContainsAny(key, "~/") {
		return pointer + render.Pointer(key)
	}
	return pointer + "/" + key
}

func (f field) get(key string) any {
	m, _ := f.value.(map[string]any)
	return m[key]
}

func (f field) isSet() bool { return f.value != nil }

func (f field) list() []field {
	items, _ := f.value.([]any)
	all := make([]field, len(items))
	for i, item := range items {
		all[i] = field{item, f.pointer + "/" + strconv.Itoa(i)}
	}
	return all
}

// fields returns the fields of a map, in the order of their keys.
func (f field) fields() []field {
	var all []field
	for _, key := range slices.Sorted(maps.Keys(f.keys())) {
		all = append(all, f.at(key))
	}
	return all
}

func (f field) text(key string) string {
	s, _ := f.get(key).(string)
	return s
}

func (f field) texts(key string) []string { return f.at(key).strings() }

func (f field) strings() []string {
	items, _ := f.value.([]any)
	var all []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

func (f field) keys() map[string]any {
	m, _ := f.value.(map[string]any)
	return m
}

//go:embed shapes.yaml
var shapesYAML []byte

// shapes returns the shapes of Kyverno's kinds: policy, policyV2beta1 and exception.
var shapes = sync.OnceValue(func() map[string]*shape {
	var all map[string]any
	if err := yaml.Unmarshal(shapesYAML, &all); err != nil {
		panic(err) // the file is part of the program
	}
	return shapeOf(all).fields
})

// shapeOf reads the notation of shapes.yaml.
func shapeOf(written any) *shape {
	switch w := written.(type) {
	case []any:
		return &shape{kind: aList, items: shapeOf(w[0])}
	case map[string]any:
		if items, ok := w["*"]; ok {
			return &shape{kind: aMap, items: shapeOf(items)}
		}
		s := &shape{kind: aMap, fields: map[string]*shape{}}
		for name, field := range w {
			if name == "!" {
				s.needs = strings.Fields(field.(string))
			} else {
				s.fields[name] = shapeOf(field)
			}
		}
		return s
	}
	text := written.(string)
	switch {
	case strings.Contains(text, " | "):
		return &shape{kind: aString, enum: strings.Split(text, " | ")}
	case strings.HasPrefix(text, "nested "):
		return &shape{nested: strings.TrimPrefix(text, "nested ")}
	}
	s := &shape{}
	if n, _ := fmt.Sscanf(text, "text up to %d", &s.max); n == 1 {
		text = "text"
	}
	kind, ok := map[string]string{"text": aString, "flag": aBoolean, "number": aNumber, "any": ""}[text]
	if !ok {
		panic("shapes.yaml: unknown shape " + text)
	}
	s.kind = kind
	return s
}
