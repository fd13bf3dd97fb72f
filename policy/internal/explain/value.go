package explain

import (
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	celtypes "k8s.io/apiserver/pkg/cel"
)

// Maps and lists carry the place they were read from through variables,
// functions and optionals. Scalars can't: functions insist on their types.

// wrap makes a CEL value of what stands at a place.
func wrap(v any, at *place) ref.Val {
	switch v := v.(type) {
	case nil:
		return types.NullValue
	case string:
		return types.String(v)
	case bool:
		return types.Bool(v)
	case int64:
		return types.Int(v)
	case float64:
		return types.Double(v)
	case map[string]any:
		return &jsonMap{raw: v, at: at}
	case []any:
		return &jsonList{raw: v, at: at}
	case ref.Val:
		return wrapVal(v, at)
	}
	return wrapVal(types.DefaultTypeAdapter.NativeToValue(v), at)
}

func wrapVal(v ref.Val, at *place) ref.Val {
	switch v := v.(type) {
	case placed:
		return v
	case traits.Mapper:
		return &typedMap{Mapper: v, at: at}
	case traits.Lister:
		return &typedList{Lister: v, at: at}
	}
	return v
}

// placed is a container that may know where it is written.
type placed interface {
	ref.Val
	where() *place
}

func placeOf(v ref.Val) *place {
	if p, ok := v.(placed); ok {
		return p.where()
	}
	return nil
}

// jsonMap is an object of a JSON tree.
type jsonMap struct {
	raw map[string]any
	at  *place
}

func (m *jsonMap) where() *place { return m.at }
func (m *jsonMap) plain() traits.Mapper {
	return types.NewStringInterfaceMap(types.DefaultTypeAdapter, m.raw)
}

func (m *jsonMap) ConvertToNative(t reflect.Type) (any, error) { return m.plain().ConvertToNative(t) }
func (m *jsonMap) ConvertToType(t ref.Type) ref.Val {
	if t == types.MapType {
		return m
	}
	return m.plain().ConvertToType(t)
}
func (m *jsonMap) Equal(other ref.Val) ref.Val { return m.plain().Equal(other) }
func (m *jsonMap) Type() ref.Type              { return types.MapType }
func (m *jsonMap) Value() any                  { return m.raw }
func (m *jsonMap) IsZeroValue() bool           { return len(m.raw) == 0 }
func (m *jsonMap) Size() ref.Val               { return types.Int(len(m.raw)) }
func (m *jsonMap) Contains(key ref.Val) ref.Val {
	_, ok := m.Find(key)
	return types.Bool(ok)
}

func (m *jsonMap) Find(key ref.Val) (ref.Val, bool) {
	k, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	v, ok := m.raw[string(k)]
	if !ok {
		return nil, false
	}
	return wrap(v, m.at.child(string(k))), true
}

func (m *jsonMap) Get(key ref.Val) ref.Val {
	if v, ok := m.Find(key); ok {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

func (m *jsonMap) Iterator() traits.Iterator { return m.plain().Iterator() }

// jsonList is an array of a JSON tree.
type jsonList struct {
	raw []any
	at  *place
}

func (l *jsonList) where() *place { return l.at }
func (l *jsonList) plain() traits.Lister {
	return types.NewDynamicList(types.DefaultTypeAdapter, l.raw)
}

func (l *jsonList) ConvertToNative(t reflect.Type) (any, error) { return l.plain().ConvertToNative(t) }
func (l *jsonList) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return l
	}
	return l.plain().ConvertToType(t)
}
func (l *jsonList) Equal(other ref.Val) ref.Val   { return l.plain().Equal(other) }
func (l *jsonList) Type() ref.Type                { return types.ListType }
func (l *jsonList) Value() any                    { return l.raw }
func (l *jsonList) IsZeroValue() bool             { return len(l.raw) == 0 }
func (l *jsonList) Size() ref.Val                 { return types.Int(len(l.raw)) }
func (l *jsonList) Add(other ref.Val) ref.Val     { return l.plain().Add(other) }
func (l *jsonList) Contains(elem ref.Val) ref.Val { return l.plain().Contains(elem) }
func (l *jsonList) Iterator() traits.Iterator     { return &iterator{list: l, size: len(l.raw)} }

func (l *jsonList) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return types.ValOrErr(index, "%v", err)
	}
	if i < 0 || i >= len(l.raw) {
		return types.NewErr("index out of bounds: %v", index)
	}
	return wrap(l.raw[i], l.at.item(i))
}

// typedMap is an object with types of its own, such as one that follows a
// CustomResourceDefinition's schema.
type typedMap struct {
	traits.Mapper
	at *place
}

func (m *typedMap) where() *place               { return m.at }
func (m *typedMap) Equal(other ref.Val) ref.Val { return m.Mapper.Equal(unwrap(other)) }

func (m *typedMap) ConvertToType(t ref.Type) ref.Val {
	if t == types.MapType {
		return m
	}
	return m.Mapper.ConvertToType(t)
}

func (m *typedMap) Find(key ref.Val) (ref.Val, bool) {
	v, ok := m.Mapper.Find(key)
	if !ok {
		return v, false
	}
	return wrapVal(v, m.at.child(m.property(key))), true
}

func (m *typedMap) Get(key ref.Val) ref.Val {
	return wrapVal(m.Mapper.Get(key), m.at.child(m.property(key)))
}

// property is the name of the property that key means: a property of a
// schema may be escaped (x__dash__prop), a key of a map is not.
func (m *typedMap) property(key ref.Val) string {
	k, ok := key.(types.String)
	if !ok {
		return ""
	}
	if raw, ok := m.Mapper.Value().(map[string]any); ok {
		if _, literal := raw[string(k)]; literal {
			return string(k)
		}
	}
	if name, ok := celtypes.Unescape(string(k)); ok {
		return name
	}
	return string(k)
}

// IsZeroValue makes optional.ofNonZeroValue work.
func (m *typedMap) IsZeroValue() bool { return m.Size() == types.IntZero }

// typedList is a list with types of its own.
type typedList struct {
	traits.Lister
	at *place
}

func (l *typedList) where() *place                 { return l.at }
func (l *typedList) Equal(other ref.Val) ref.Val   { return l.Lister.Equal(unwrap(other)) }
func (l *typedList) Add(other ref.Val) ref.Val     { return l.Lister.Add(unwrap(other)) }
func (l *typedList) Contains(elem ref.Val) ref.Val { return l.Lister.Contains(unwrap(elem)) }
func (l *typedList) IsZeroValue() bool             { return l.Size() == types.IntZero }
func (l *typedList) Iterator() traits.Iterator {
	n, _ := l.Size().(types.Int)
	return &iterator{list: l, size: int(n)}
}

func (l *typedList) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return l
	}
	return l.Lister.ConvertToType(t)
}

func (l *typedList) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return l.Lister.Get(index)
	}
	return wrapVal(l.Lister.Get(index), l.at.item(i))
}

func unwrap(v ref.Val) ref.Val {
	switch v := v.(type) {
	case *typedMap:
		return v.Mapper
	case *typedList:
		return v.Lister
	}
	return v
}

// builtList is a list that the expression built; it knows the nodes that its
// elements come from.
type builtList struct {
	traits.Lister
	items []*node
	parts int
}

func newBuiltList(items []*node) *builtList {
	vals := make([]ref.Val, len(items))
	total := 1
	for i, n := range items {
		vals[i] = n.val
		total = min(total+partsOf(n.val), maxParts+1)
	}
	return &builtList{Lister: types.NewRefValList(types.DefaultTypeAdapter, vals), items: items, parts: total}
}

func (l *builtList) where() *place     { return nil }
func (l *builtList) IsZeroValue() bool { return len(l.items) == 0 }
func (l *builtList) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return l
	}
	return l.Lister.ConvertToType(t)
}

// builtMap is a map that the expression built.
type builtMap struct {
	traits.Mapper
	keys, values []*node
	parts        int
}

func newBuiltMap(keys, values []*node) *builtMap {
	m := make(map[ref.Val]ref.Val, len(keys))
	total := 1
	for i, k := range keys {
		m[k.val] = values[i].val
		total = min(total+partsOf(values[i].val), maxParts+1)
	}
	return &builtMap{Mapper: types.NewRefValMap(types.DefaultTypeAdapter, m), keys: keys, values: values, parts: total}
}

// partsOf is how many values a value is written out with: parts that are held
// several times, by lists of the expression itself, count each time.
func partsOf(v ref.Val) int {
	switch v := v.(type) {
	case *builtList:
		return max(v.parts, len(v.items))
	case *builtMap:
		return v.parts
	case types.String:
		return 1 + len(v)/32
	}
	return 1
}

func (m *builtMap) where() *place     { return nil }
func (m *builtMap) IsZeroValue() bool { return len(m.keys) == 0 }
func (m *builtMap) ConvertToType(t ref.Type) ref.Val {
	if t == types.MapType {
		return m
	}
	return m.Mapper.ConvertToType(t)
}

// entry is the node of the value under key, or nil.
func (m *builtMap) entry(key ref.Val) *node {
	for i := len(m.keys) - 1; i >= 0; i-- {
		if m.keys[i].val.Equal(key) == types.True {
			return m.values[i]
		}
	}
	return nil
}

type iterator struct {
	types.Null // the rest of ref.Val, which nobody asks an iterator for
	list       traits.Indexer
	next, size int
}

func (i *iterator) HasNext() ref.Val { return types.Bool(i.next < i.size) }
func (i *iterator) Next() ref.Val {
	i.next++
	return i.list.Get(types.Int(i.next - 1))
}
func (i *iterator) Type() ref.Type { return types.IteratorType }
func (i *iterator) Value() any     { return nil }
