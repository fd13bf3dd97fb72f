package schema

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/preadmit/preadmit/render"
)

// A shape describes the JSON values that the API server's decoder accepts for a
// Go type. It is used to find the place of an error, which the decoder does not
// report.
type shape struct {
	takes  func(any) error // of a scalar, or a type with its own decoder
	list   *shape          // of the elements of a slice
	object *shape          // of the values of a map
	fields []fieldShape    // of a struct, by name
	kind   reflect.Kind
}

type fieldShape struct {
	name string
	*shape
}

// shapeOf compiles the shape of a type.
func shapeOf(typ reflect.Type) *shape { return shapes{}.of(typ) }

// shapes holds the shapes under construction, because types may contain
// themselves.
type shapes map[reflect.Type]*shape

func (s shapes) of(typ reflect.Type) *shape {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if have := s[typ]; have != nil {
		return have
	}
	have := &shape{kind: typ.Kind()}
	s[typ] = have
	switch {
	case typ == reflect.TypeFor[resource.Quantity]():
		have.takes = takesQuantity
	case typ == reflect.TypeFor[intstr.IntOrString]():
		have.takes = takesIntOrString
	case reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Unmarshaler]()):
		have.takes = takesVia(typ)
	case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Uint8:
		have.takes = takesVia(typ)
	case typ.Kind() == reflect.Slice || typ.Kind() == reflect.Array:
		have.list = s.of(typ.Elem())
	case typ.Kind() == reflect.Map:
		have.object = s.of(typ.Elem())
	case typ.Kind() == reflect.Struct:
		for _, f := range fieldsOf(typ) {
			have.fields = append(have.fields, fieldShape{f.name, s.of(f.typ)})
		}
	case typ.Kind() == reflect.Interface:
		have.takes = func(any) error { return nil }
	default:
		have.takes = takesScalar(typ)
	}
	return have
}

// A field is one of a struct, or of a struct inlined in it.
type field struct {
	name string
	typ  reflect.Type
}

// fieldsOf returns the JSON fields of a struct by name.
func fieldsOf(typ reflect.Type) []field {
	if typ.Kind() != reflect.Struct {
		return nil
	}
	var fields []field
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case name == "" && f.Anonymous:
			inlined := f.Type
			if inlined.Kind() == reflect.Pointer {
				inlined = inlined.Elem()
			}
			fields = append(fields, fieldsOf(inlined)...)
		case name == "":
			fields = append(fields, field{f.Name, f.Type})
		default:
			fields = append(fields, field{name, f.Type})
		}
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return fields
}

// faults holds the pointer of the first value of a wrong type in an object, and
// the error about a value that is too costly for the libraries.
type faults struct {
	path    []step
	first   string
	hostile error
}

type step struct {
	key   string
	index int // if key is ""
	keyed bool
}

func (s *shape) faults(object map[string]any) *faults {
	f := &faults{path: make([]step, 0, 16)}
	f.check(s, object)
	return f
}

// check checks a value in the order of the API server's decoder, which gets
// sorted keys.
func (f *faults) check(s *shape, value any) {
	if value == nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		f.checkObject(s, v)
	case []any:
		f.checkList(s, v)
	default:
		if s.takes == nil {
			f.add(errType)
		} else if err := s.takes(value); err != nil {
			f.add(err)
		}
	}
}

func (f *faults) checkObject(s *shape, v map[string]any) {
	switch {
	case s.takes != nil:
		if err := s.takes(v); err != nil {
			f.add(err)
		}
	case s.object != nil:
		f.checkMap(s.object, v)
	case s.kind == reflect.Struct:
		for _, field := range s.fields {
			child, ok := v[field.name]
			if !ok {
				continue
			}
			f.path = append(f.path, step{key: field.name, keyed: true})
			f.check(field.shape, child)
			f.path = f.path[:len(f.path)-1]
		}
	default:
		f.add(errType)
	}
}

// plain reports whether a value is a valid string. This needs no path.
func (s *shape) plain(value any) bool {
	_, text := value.(string)
	return text && s.kind == reflect.String && s.takes != nil
}

// checkMap checks the values of a map. If several are wrong, the one with the
// smallest key is reported, because maps have no order.
func (f *faults) checkMap(s *shape, v map[string]any) {
	outer, first, firstKey := f.first, "", ""
	for key, child := range v {
		if s.plain(child) {
			continue
		}
		f.first = ""
		f.path = append(f.path, step{key: key, keyed: true})
		f.check(s, child)
		f.path = f.path[:len(f.path)-1]
		if f.first != "" && (first == "" || key < firstKey) {
			first, firstKey = f.first, key
		}
	}
	f.first = cmp.Or(outer, first)
}

func (f *faults) checkList(s *shape, v []any) {
	if s.list == nil {
		if s.takes == nil {
			f.add(errType)
		} else if err := s.takes(v); err != nil {
			f.add(err)
		}
		return
	}
	for i, child := range v {
		f.path = append(f.path, step{index: i})
		f.check(s.list, child)
		f.path = f.path[:len(f.path)-1]
	}
}

func (f *faults) add(err error) {
	pointer := f.pointer()
	if hostile, ok := err.(hostileError); ok && f.hostile == nil {
		f.hostile = fieldError(hostile, pointer)
	}
	if f.first == "" {
		f.first = pointer
	}
}

func (f *faults) pointer() string {
	path := make([]any, len(f.path))
	for i, s := range f.path {
		if path[i] = s.key; !s.keyed {
			path[i] = s.index
		}
	}
	return render.Pointer(path...)
}

// errType marks a value of a wrong type. Users see the decoder's error instead.
var errType = errors.New("wrong type")

// takesScalar accepts the values that the decoder accepts for a bool, string or number.
func takesScalar(typ reflect.Type) func(any) error {
	probe := reflect.Zero(typ)
	kind := typ.Kind()
	return func(value any) error {
		ok := false
		switch v := value.(type) {
		case bool:
			ok = kind == reflect.Bool
		case string:
			ok = kind == reflect.String
		case int64:
			ok = fitsInt(probe, v)
		case float64:
			ok = probe.CanFloat() || v == math.Trunc(v) && math.Abs(v) < 1<<63 && fitsInt(probe, int64(v))
		}
		if !ok {
			return errType
		}
		return nil
	}
}

func fitsInt(probe reflect.Value, v int64) bool {
	switch {
	case probe.CanInt():
		return !probe.OverflowInt(v)
	case probe.CanUint():
		return v >= 0 && !probe.OverflowUint(uint64(v))
	default:
		return probe.CanFloat()
	}
}

// takesVia accepts the values that the type's own decoder accepts.
func takesVia(typ reflect.Type) func(any) error {
	return func(value any) error {
		data, err := json.Marshal(value)
		if err != nil {
			return err
		}
		return json.Unmarshal(data, reflect.New(typ).Interface())
	}
}

func takesIntOrString(value any) error {
	switch v := value.(type) {
	case string:
		return nil
	case int64:
		if v == int64(int32(v)) {
			return nil
		}
	case float64:
		if v == float64(int32(v)) {
			return nil
		}
	}
	return errType
}
