package explain

import (
	"reflect"
	"regexp"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	celtypes "k8s.io/apiserver/pkg/cel"
)

// Maps and lists keep the place they were read from through variables,
// functions and optionals. Scalars can't, because functions require CEL's own
// types.

// wrap converts a value at a place to a CEL value.
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

// placed is a container that may have a place.
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

// jsonMap is a JSON object.
type jsonMap struct {
	raw map[string]any
	at  *place
}

func (j *jsonMap) where() *place { return j.at }
func (j *jsonMap) plain() traits.Mapper {
	return types.NewStringInterfaceMap(types.DefaultTypeAdapter, j.raw)
}

func (j *jsonMap) ConvertToNative(t reflect.Type) (any, error) { return j.plain().ConvertToNative(t) }
func (j *jsonMap) ConvertToType(t ref.Type) ref.Val {
	if t == types.MapType {
		return j
	}
	return j.plain().ConvertToType(t)
}
func (j *jsonMap) Equal(other ref.Val) ref.Val { return j.plain().Equal(other) }
func (j *jsonMap) Type() ref.Type              { return types.MapType }
func (j *jsonMap) Value() any                  { return j.raw }
func (j *jsonMap) IsZeroValue() bool           { return len(j.raw) == 0 }
func (j *jsonMap) Size() ref.Val               { return types.Int(len(j.raw)) }
func (j *jsonMap) Contains(key ref.Val) ref.Val {
	_, ok := j.Find(key)
	return types.Bool(ok)
}

func (j *jsonMap) Find(key ref.Val) (ref.Val, bool) {
	k, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	v, ok := j.raw[string(k)]
	if !ok {
		return nil, false
	}
	return wrap(v, j.at.child(string(k))), true
}

func (j *jsonMap) Get(key ref.Val) ref.Val {
	if v, ok := j.Find(key); ok {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

func (j *jsonMap) Iterator() traits.Iterator { return j.plain().Iterator() }

// jsonList is a JSON array.
type jsonList struct {
	raw []any
	at  *place
}

func (j *jsonList) where() *place { return j.at }
func (j *jsonList) plain() traits.Lister {
	return types.NewDynamicList(types.DefaultTypeAdapter, j.raw)
}

func (j *jsonList) ConvertToNative(t reflect.Type) (any, error) { return j.plain().ConvertToNative(t) }
func (j *jsonList) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return j
	}
	return j.plain().ConvertToType(t)
}
func (j *jsonList) Equal(other ref.Val) ref.Val   { return j.plain().Equal(other) }
func (j *jsonList) Type() ref.Type                { return types.ListType }
func (j *jsonList) Value() any                    { return j.raw }
func (j *jsonList) IsZeroValue() bool             { return len(j.raw) == 0 }
func (j *jsonList) Size() ref.Val                 { return types.Int(len(j.raw)) }
func (j *jsonList) Add(other ref.Val) ref.Val     { return j.plain().Add(other) }
func (j *jsonList) Contains(elem ref.Val) ref.Val { return j.plain().Contains(elem) }
func (j *jsonList) Iterator() traits.Iterator     { return &iterator{list: j, size: len(j.raw)} }

func (j *jsonList) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return types.ValOrErr(index, "%v", err)
	}
	if i < 0 || i >= len(j.raw) {
		return types.NewErr("index out of bounds: %v", index)
	}
	return wrap(j.raw[i], j.at.item(i))
}

// typedMap is an object with typed fields, such as one with a
// CustomResourceDefinition's schema.
type typedMap struct {
	traits.Mapper
	at *place
}

func (t *typedMap) where() *place               { return t.at }
func (t *typedMap) Equal(other ref.Val) ref.Val { return t.Mapper.Equal(unwrap(other)) }

func (t *typedMap) ConvertToType(typ ref.Type) ref.Val {
	if typ == types.MapType {
		return t
	}
	return t.Mapper.ConvertToType(typ)
}

func (t *typedMap) Find(key ref.Val) (ref.Val, bool) {
	v, ok := t.Mapper.Find(key)
	if !ok {
		return v, false
	}
	return wrapVal(v, t.at.child(t.property(key))), true
}

func (t *typedMap) Get(key ref.Val) ref.Val {
	return wrapVal(t.Mapper.Get(key), t.at.child(t.property(key)))
}

// property returns the property for a key. Properties of a schema may be
// escaped (x__dash__prop), keys of a map are not.
func (t *typedMap) property(key ref.Val) string {
	k, ok := key.(types.String)
	if !ok {
		return ""
	}
	if raw, ok := rawMap(t.Mapper); ok {
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
func (t *typedMap) IsZeroValue() bool { return t.Size() == types.IntZero }

// typedList is a list with typed elements.
type typedList struct {
	traits.Lister
	at *place
}

func (t *typedList) where() *place                 { return t.at }
func (t *typedList) Equal(other ref.Val) ref.Val   { return t.Lister.Equal(unwrap(other)) }
func (t *typedList) Add(other ref.Val) ref.Val     { return t.Lister.Add(unwrap(other)) }
func (t *typedList) Contains(elem ref.Val) ref.Val { return t.Lister.Contains(unwrap(elem)) }
func (t *typedList) IsZeroValue() bool             { return t.Size() == types.IntZero }
func (t *typedList) Iterator() traits.Iterator {
	n, _ := t.Size().(types.Int)
	return &iterator{list: t, size: int(n)}
}

func (t *typedList) ConvertToType(typ ref.Type) ref.Val {
	if typ == types.ListType {
		return t
	}
	return t.Lister.ConvertToType(typ)
}

func (t *typedList) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return t.Lister.Get(index)
	}
	return wrapVal(t.Lister.Get(index), t.at.item(i))
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

// builtList is a list that the expression built. It keeps the nodes of its
// elements.
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

func (b *builtList) where() *place     { return nil }
func (b *builtList) IsZeroValue() bool { return len(b.items) == 0 }
func (b *builtList) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return b
	}
	return b.Lister.ConvertToType(t)
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

// partsOf counts the values that a value contains. A part that the expression's
// own lists contain several times counts each time.
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

func (b *builtMap) where() *place     { return nil }
func (b *builtMap) IsZeroValue() bool { return len(b.keys) == 0 }
func (b *builtMap) ConvertToType(t ref.Type) ref.Val {
	if t == types.MapType {
		return b
	}
	return b.Mapper.ConvertToType(t)
}

// entry returns the node of the value under a key, or nil.
func (b *builtMap) entry(key ref.Val) *node {
	for i := len(b.keys) - 1; i >= 0; i-- {
		if b.keys[i].val.Equal(key) == types.True {
			return b.values[i]
		}
	}
	return nil
}

type iterator struct {
	types.Null // implements the rest of ref.Val, which iterators don't need
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

// Literals returns the string literals in the failed part of the expression,
// with which the field was compared.
func (c *Culprit) Literals() []string {
	if c.failed == nil {
		return nil
	}
	return c.failed.literals()
}

// literals returns the texts that the expression has in quotes.
func (c *code) literals() []string {
	c.quoting.Do(func() {
		text := c.shortSource()
		if !strings.ContainsAny(text, `'"`) {
			return
		}
		for _, m := range literal.FindAllStringSubmatch(text, -1) {
			if s := strings.ReplaceAll(m[1]+m[2], `\\`, `\`); s != "" {
				c.quoted = append(c.quoted, s)
			}
		}
	})
	return c.quoted
}

var literal = regexp.MustCompile(`'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"`)
