package kyvernocel

import (
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/preadmit/preadmit/policy/internal/kyvernolib"
)

// A fieldType is the type of a field of a proxy's request or response. As in
// protocol buffers, a missing field has the zero value.
type fieldType struct {
	decl   *apiservercel.DeclType
	zero   ref.Val
	decode func(v any, lenient bool) (ref.Val, error) // of JSON
}

func scalar(decl *apiservercel.DeclType, zero ref.Val, decode func(any) (ref.Val, bool)) *fieldType {
	return &fieldType{decl, zero, func(v any, _ bool) (ref.Val, error) {
		if decoded, ok := decode(v); ok {
			return decoded, nil
		}
		return nil, fmt.Errorf("%.100v is not of type %s", v, decl.TypeName())
	}}
}

var (
	textField = scalar(apiservercel.StringType, types.String(""), func(v any) (ref.Val, bool) {
		s, ok := v.(string)
		return types.String(s), ok
	})
	boolField = scalar(apiservercel.BoolType, types.False, func(v any) (ref.Val, bool) {
		b, ok := v.(bool)
		return types.Bool(b), ok
	})
	intField = scalar(apiservercel.IntType, types.Int(0), func(v any) (ref.Val, bool) {
		i, ok := wholeNumber(v)
		return types.Int(i), ok
	})
	uintField = scalar(apiservercel.UintType, types.Uint(0), func(v any) (ref.Val, bool) {
		i, ok := wholeNumber(v)
		return types.Uint(max(i, 0)), ok && i >= 0
	})
	bytesField = scalar(apiservercel.BytesType, types.Bytes(nil), func(v any) (ref.Val, bool) {
		s, _ := v.(string)
		b, err := base64.StdEncoding.DecodeString(s)
		return types.Bytes(b), err == nil
	})
	timeField = scalar(apiservercel.TimestampType, types.Timestamp{Time: time.Unix(0, 0).UTC()}, func(v any) (ref.Val, bool) {
		s, _ := v.(string)
		t, err := time.Parse(time.RFC3339Nano, s)
		return types.Timestamp{Time: t}, err == nil
	})
	dynField    = scalar(apiservercel.DynType, types.NullValue, func(v any) (ref.Val, bool) { return kyvernolib.Frozen(v), true })
	structField = scalar(apiservercel.NewMapType(apiservercel.StringType, apiservercel.DynType, -1), kyvernolib.Frozen(map[string]any{}), func(v any) (ref.Val, bool) {
		m, ok := v.(map[string]any)
		return kyvernolib.Frozen(m), ok
	})
)

// wholeNumber reads an integer. In the JSON of protocol buffers it may be a
// string.
func wholeNumber(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), v == float64(int64(v))
	case string:
		i, err := strconv.ParseInt(v, 10, 64)
		return i, err == nil
	}
	return 0, false
}

// enumField returns the type of an enumeration, given by name or number.
func enumField(names ...string) *fieldType {
	return scalar(apiservercel.IntType, types.Int(0), func(v any) (ref.Val, bool) {
		if s, ok := v.(string); ok {
			i := slices.Index(names, s)
			return types.Int(i), i >= 0
		}
		i, ok := wholeNumber(v)
		return types.Int(i), ok
	})
}

func listOf(of *fieldType) *fieldType {
	list := func(elems []ref.Val) ref.Val { return types.NewRefValList(types.DefaultTypeAdapter, elems) }
	return &fieldType{apiservercel.NewListType(of.decl, -1), list(nil), func(v any, lenient bool) (ref.Val, error) {
		items, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("%.100v is not a list", v)
		}
		elems := make([]ref.Val, len(items))
		for i, item := range items {
			var err error
			if elems[i], err = of.decode(item, lenient); err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return list(elems), nil
	}}
}

func mapOf(of *fieldType) *fieldType {
	mapping := func(m map[string]ref.Val) ref.Val {
		return types.NewStringInterfaceMap(types.DefaultTypeAdapter, asAny(m))
	}
	return &fieldType{apiservercel.NewMapType(apiservercel.StringType, of.decl, -1), mapping(nil), func(v any, lenient bool) (ref.Val, error) {
		given, ok := v.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("%.100v is not a mapping", v)
		}
		m := make(map[string]ref.Val, len(given))
		for _, key := range slices.Sorted(maps.Keys(given)) {
			var err error
			if m[key], err = of.decode(given[key], lenient); err != nil {
				return nil, fmt.Errorf("%q: %w", key, err)
			}
		}
		return mapping(m), nil
	}}
}

func asAny(m map[string]ref.Val) map[string]any {
	all := make(map[string]any, len(m))
	for k, v := range m {
		all[k] = v
	}
	return all
}

// A messageType is a type with fields by name.
type messageType struct {
	name   string
	fields map[string]*fieldType
	decl   *apiservercel.DeclType
}

func newMessageType(name string, fields map[string]*fieldType) *messageType {
	declared := make(map[string]*apiservercel.DeclField, len(fields))
	for name, f := range fields {
		declared[name] = apiservercel.NewDeclField(name, f.decl, false, nil, nil)
	}
	return &messageType{name, fields, apiservercel.NewObjectType(name, declared)}
}

func (m *messageType) celType() *celgo.Type { return m.decl.CelType() }

// field returns the type of a field that holds such a message.
func (m *messageType) field() *fieldType {
	return &fieldType{m.decl, m.of(nil), m.decode}
}

func (m *messageType) of(given map[string]ref.Val) *message { return &message{m, given} }

// decode reads a message from JSON. Field names may be in snake case or camel
// case, as in protocol buffers. If lenient, unknown fields are left out.
func (m *messageType) decode(v any, lenient bool) (ref.Val, error) {
	given, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%.100v is not a mapping", v)
	}
	fields := make(map[string]ref.Val, len(given))
	for _, key := range slices.Sorted(maps.Keys(given)) {
		name, f := m.find(key, lenient)
		switch {
		case f == nil && lenient:
			continue
		case f == nil:
			return nil, fmt.Errorf("unknown field %q", key)
		case given[key] == nil:
			continue
		}
		var err error
		if fields[name], err = f.decode(given[key], lenient); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return m.of(fields), nil
}

func (m *messageType) find(key string, lenient bool) (string, *fieldType) {
	if f := m.fields[key]; f != nil {
		return key, f
	}
	for name, f := range m.fields {
		if key == lowerCamel(name) || lenient && strings.EqualFold(key, name) {
			return name, f
		}
	}
	return "", nil
}

// lowerCamel converts a field's name to its JSON form: header_map becomes
// headerMap.
func lowerCamel(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "")
}

// A message is an immutable value of a messageType.
type message struct {
	t     *messageType
	given map[string]ref.Val
}

// with returns the message with another value of a field.
func (m *message) with(field string, v ref.Val) *message {
	given := maps.Clone(m.given)
	if given == nil {
		given = map[string]ref.Val{}
	}
	given[field] = v
	return m.t.of(given)
}

func (m *message) value(field string) ref.Val {
	if v := m.given[field]; v != nil {
		return v
	}
	return m.t.fields[field].zero
}

// Get implements traits.Indexer.
func (m *message) Get(field ref.Val) ref.Val {
	name, ok := field.(types.String)
	if !ok || m.t.fields[string(name)] == nil {
		return types.NewErr("no such field '%v'", field)
	}
	return m.value(string(name))
}

// IsSet implements traits.FieldTester. A field with the zero value is not set.
func (m *message) IsSet(field ref.Val) ref.Val {
	name, ok := field.(types.String)
	if !ok || m.t.fields[string(name)] == nil {
		return types.NewErr("no such field '%v'", field)
	}
	v := m.given[string(name)]
	return types.Bool(v != nil && (v.Type() == types.NullType || v.Equal(m.t.fields[string(name)].zero) != types.True))
}

// ConvertToNative implements ref.Val.
func (m *message) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("a %s can't be converted to %v", m.t.name, t)
}

// ConvertToType implements ref.Val.
func (m *message) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return m.t.celType()
	}
	return types.NewErr("type conversion error from '%s' to '%s'", m.t.name, t)
}

// Equal implements ref.Val.
func (m *message) Equal(other ref.Val) ref.Val {
	o, ok := other.(*message)
	if !ok || o.t != m.t {
		return types.False
	}
	for name := range m.t.fields {
		if m.value(name).Equal(o.value(name)) != types.True {
			return types.False
		}
	}
	return types.True
}

// Type implements ref.Val.
func (m *message) Type() ref.Type { return m.t.celType() }

// Value implements ref.Val.
func (m *message) Value() any { return m.given }
