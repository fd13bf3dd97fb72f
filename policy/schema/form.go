package schema

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// A form converts between values of a Go type and JSON values, as
// runtime.DefaultUnstructuredConverter does. It looks up types once instead of
// for every value, and allocates maps no larger than needed. That saves 7 to 15%
// of the CPU of 4,000 to 6,000 objects under packs and ClusterPolicies.
type form struct {
	typ    reflect.Type
	own    *value.TypeReflectCacheEntry // for a type with its own encoder and decoder, or nil
	fields []formField                  // of a struct
	elem   *form                        // of a pointer, slice or map
}

// A formField is a field of a struct or of a struct inlined in it.
type formField struct {
	*form
	name      string
	index     []int
	omitEmpty bool
	omitZero  func(reflect.Value) bool // nil without omitzero in the tag
}

// errForm is the error for values that only the library can convert. Nobody sees
// it.
var errForm = errors.New("not known")

// formOf compiles the form of a type. It returns nil for a type with parts that
// no API type has.
func formOf(typ reflect.Type) *form {
	c := forms{known: map[reflect.Type]*form{}}
	f := c.of(typ)
	if c.failed {
		return nil
	}
	return f
}

// forms holds the forms under construction, because types may contain
// themselves.
type forms struct {
	known  map[reflect.Type]*form
	failed bool
}

func (f *forms) of(typ reflect.Type) *form {
	if have := f.known[typ]; have != nil {
		return have
	}
	have := &form{typ: typ}
	f.known[typ] = have
	if typ.Kind() != reflect.Pointer && reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Marshaler]()) {
		have.own = value.TypeReflectEntryOf(typ)
		f.failed = f.failed || !reflect.PointerTo(typ).Implements(reflect.TypeFor[json.Unmarshaler]())
		return have
	}
	switch typ.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Float64:
	case reflect.Pointer, reflect.Slice:
		have.elem = f.of(typ.Elem())
	case reflect.Map:
		have.elem = f.of(typ.Elem())
		f.failed = f.failed || typ.Key().Kind() != reflect.String
	case reflect.Struct:
		f.fields(have, typ, nil)
	default:
		f.failed = true
	}
	return have
}

// fields adds the fields of a struct to a form.
func (f *forms) fields(into *form, typ reflect.Type, above []int) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		index := append(above[:len(above):len(above)], i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		x := formField{name: name, index: index}
		inlined := name == "" && field.Anonymous
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "omitempty":
				x.omitEmpty = true
			case "omitzero":
				x.omitZero = value.OmitZeroFunc(field.Type)
			case "inline":
				inlined = true
			}
		}
		switch {
		case name == "-":
		case inlined && field.Type.Kind() == reflect.Struct && x.omitZero == nil && f.of(field.Type).own == nil:
			f.fields(into, field.Type, index)
		case inlined || name == "" || !field.IsExported():
			f.failed = true
		default:
			x.form = f.of(field.Type)
			into.fields = append(into.fields, x)
		}
	}
}

// tree converts a value to a JSON value.
func (f *form) tree(v reflect.Value) (any, error) {
	if f.own != nil {
		return f.ownTree(v)
	}
	switch f.typ.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint8:
		return int64(v.Uint()), nil
	case reflect.Float64:
		return v.Float(), nil
	case reflect.Struct:
		return f.object(v)
	}
	if v.IsNil() {
		return nil, nil
	}
	switch f.typ.Kind() {
	case reflect.Pointer:
		return f.elem.tree(v.Elem())
	case reflect.Slice:
		return f.list(v)
	}
	out := make(map[string]any, v.Len())
	if texts, ok := v.Interface().(map[string]string); ok {
		for key, text := range texts {
			out[key] = text
		}
		return out, nil
	}
	key, child := reflect.New(f.typ.Key()).Elem(), reflect.New(f.elem.typ).Elem()
	for each := v.MapRange(); each.Next(); {
		key.SetIterKey(each)
		child.SetIterValue(each)
		x, err := f.elem.tree(child)
		if err != nil {
			return nil, err
		}
		out[key.String()] = x
	}
	return out, nil
}

// ownTree converts a value of a type with its own encoder. Unless it is a
// common type, its JSON is parsed again.
func (f *form) ownTree(v reflect.Value) (any, error) {
	if v.CanAddr() {
		switch x := v.Addr().Interface().(type) {
		case *resource.Quantity:
			return x.String(), nil
		case *intstr.IntOrString:
			if x.Type == intstr.Int {
				return int64(x.IntVal), nil
			}
			return x.StrVal, nil
		}
	}
	return f.own.ToUnstructured(v)
}

func (f *form) list(v reflect.Value) (any, error) {
	if f.elem.typ.Kind() == reflect.Uint8 {
		return base64.StdEncoding.EncodeToString(v.Bytes()), nil
	}
	out := make([]any, v.Len())
	for i := range out {
		x, err := f.elem.tree(v.Index(i))
		if err != nil {
			return nil, err
		}
		out[i] = x
	}
	return out, nil
}

// object converts a struct to a JSON object.
func (f *form) object(v reflect.Value) (map[string]any, error) {
	kept := make([]int, 0, 64)
	for i := range f.fields {
		if x := &f.fields[i]; !x.omits(v.FieldByIndex(x.index)) {
			kept = append(kept, i)
		}
	}
	out := make(map[string]any, len(kept))
	for _, i := range kept {
		x := &f.fields[i]
		child, err := x.tree(v.FieldByIndex(x.index))
		if err != nil {
			return nil, err
		}
		out[x.name] = child
	}
	return out, nil
}

// omits reports whether the field is left out for its value.
func (f *formField) omits(v reflect.Value) bool {
	if f.omitEmpty {
		switch v.Kind() {
		case reflect.Struct:
		case reflect.Map, reflect.Slice:
			return v.Len() == 0
		default:
			if v.IsZero() {
				return true
			}
		}
	}
	return f.omitZero != nil && f.omitZero(v)
}

// set decodes a JSON value into a zero value. It returns errForm for values
// that do not fit.
func (f *form) set(v reflect.Value, tree any) error {
	if tree == nil {
		return nil
	}
	if f.own != nil {
		return f.read(v, tree)
	}
	switch t := tree.(type) {
	case string:
		return f.setText(v, t)
	case bool:
		if f.typ.Kind() == reflect.Bool {
			v.SetBool(t)
			return nil
		}
	case int64:
		switch f.typ.Kind() {
		case reflect.Int, reflect.Int32, reflect.Int64:
			v.SetInt(t)
			return nil
		case reflect.Float64:
			v.SetFloat(float64(t))
			return nil
		}
	case float64:
		switch f.typ.Kind() {
		case reflect.Float64:
			v.SetFloat(t)
			return nil
		case reflect.Int, reflect.Int32, reflect.Int64:
			if t == math.Trunc(t) {
				v.SetInt(int64(t))
				return nil
			}
		}
	case []any:
		return f.setList(v, t)
	case map[string]any:
		return f.setObject(v, t)
	}
	return f.setPointer(v, tree)
}

// setPointer allocates and sets the value of a pointer.
func (f *form) setPointer(v reflect.Value, tree any) error {
	if f.typ.Kind() != reflect.Pointer {
		return errForm
	}
	v.Set(reflect.New(f.elem.typ))
	return f.elem.set(v.Elem(), tree)
}

func (f *form) setText(v reflect.Value, text string) error {
	switch {
	case f.typ.Kind() == reflect.String:
		v.SetString(text)
	case f.typ.Kind() == reflect.Slice && f.elem.typ.Kind() == reflect.Uint8:
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return errForm
		}
		v.SetBytes(data)
	default:
		return f.setPointer(v, text)
	}
	return nil
}

func (f *form) setList(v reflect.Value, list []any) error {
	if f.typ.Kind() != reflect.Slice {
		return f.setPointer(v, list)
	}
	if list == nil {
		return nil
	}
	v.Set(reflect.MakeSlice(f.typ, len(list), len(list)))
	for i, x := range list {
		if err := f.elem.set(v.Index(i), x); err != nil {
			return err
		}
	}
	return nil
}

func (f *form) setObject(v reflect.Value, object map[string]any) error {
	switch {
	case f.typ.Kind() == reflect.Struct:
		for i := range f.fields {
			x := &f.fields[i]
			if child := object[x.name]; child != nil {
				if err := x.set(v.FieldByIndex(x.index), child); err != nil {
					return err
				}
			}
		}
		return nil
	case f.typ.Kind() != reflect.Map:
		return f.setPointer(v, object)
	case object == nil:
		return nil
	}
	v.Set(reflect.MakeMapWithSize(f.typ, len(object)))
	name, x := reflect.New(f.typ.Key()).Elem(), reflect.New(f.elem.typ).Elem()
	for key, child := range object {
		name.SetString(key)
		x.SetZero()
		if err := f.elem.set(x, child); err != nil {
			return err
		}
		v.SetMapIndex(name, x)
	}
	return nil
}

// read decodes a value with the type's own decoder.
func (f *form) read(v reflect.Value, tree any) error {
	data, err := encode(tree)
	if err != nil {
		return errForm
	}
	if v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(data) != nil {
		return errForm
	}
	return nil
}

// encode is json.Marshal, faster for common values.
func encode(tree any) ([]byte, error) {
	switch t := tree.(type) {
	case int64:
		return strconv.AppendInt(nil, t, 10), nil
	case string:
		plain := !strings.ContainsFunc(t, func(r rune) bool {
			return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r)
		})
		if plain {
			return append(append(append(make([]byte, 0, len(t)+2), '"'), t...), '"'), nil
		}
	}
	return json.Marshal(tree)
}

// fromTree converts a value tree to a typed object.
func (g *goType) fromTree(object map[string]any) (runtime.Object, error) {
	typed := g.new()
	if g.form != nil && g.form.set(reflect.ValueOf(typed).Elem(), object) == nil {
		return typed, nil
	}
	typed = g.new()
	return typed, runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed)
}

// toTree converts a typed object to a value tree.
func (g *goType) toTree(typed runtime.Object) (map[string]any, error) {
	if g.form == nil {
		return runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	}
	return g.form.object(reflect.ValueOf(typed).Elem())
}
