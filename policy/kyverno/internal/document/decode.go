package document

import (
	"cmp"
	"reflect"
	"strings"

	"github.com/preadmit/preadmit/policy/internal/filters"
	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
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
