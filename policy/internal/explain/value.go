package explain

import (
	"regexp"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	celtypes "k8s.io/apiserver/pkg/cel"
)

// Maps and lists that are read from a root keep their place through variables,
// functions and optionals. Scalars can't, because functions require CEL's own
// types.

// wrap converts a value at a place to a CEL value.
func wrap(v any, at *place) ref.Val { return wrapVal(types.DefaultTypeAdapter.NativeToValue(v), at) }

func wrapVal(v ref.Val, at *place) ref.Val {
	if at == nil || placeOf(v) != nil {
		return v
	}
	switch v := v.(type) {
	case traits.Mapper:
		return &placedMap{Mapper: v, at: at}
	case traits.Lister:
		return &placedList{Lister: v, at: at}
	}
	return v
}

// placeOf returns the place of a container that was read from a root, or nil.
func placeOf(v any) *place {
	switch v := v.(type) {
	case *placedMap:
		return v.at
	case *placedList:
		return v.at
	}
	return nil
}

// placedMap is a map that is read from a root: JSON, or an object typed by a schema.
type placedMap struct {
	traits.Mapper
	at *place
}

func (m *placedMap) Equal(other ref.Val) ref.Val { return m.Mapper.Equal(unwrap(other)) }

func (m *placedMap) ConvertToType(typ ref.Type) ref.Val {
	if typ == types.MapType {
		return m
	}
	return m.Mapper.ConvertToType(typ)
}

func (m *placedMap) Find(key ref.Val) (ref.Val, bool) {
	v, ok := m.Mapper.Find(key)
	if !ok {
		return v, false
	}
	return wrapVal(v, m.property(key)), true
}

func (m *placedMap) Get(key ref.Val) ref.Val { return wrapVal(m.Mapper.Get(key), m.property(key)) }

// property returns the place of a key. Properties of a schema may be escaped
// (x__dash__prop), keys of a map are not.
func (m *placedMap) property(key ref.Val) *place {
	k, ok := key.(types.String)
	if !ok {
		return nil
	}
	if m.at.root.typed() {
		raw, _ := rawMap(m.Mapper)
		if _, literal := raw[string(k)]; !literal {
			if name, ok := celtypes.Unescape(string(k)); ok {
				return m.at.child(name)
			}
		}
	}
	return m.at.child(string(k))
}

// IsZeroValue makes optional.ofNonZeroValue work.
func (m *placedMap) IsZeroValue() bool { return m.Size() == types.IntZero }

// placedList is a list that is read from a root.
type placedList struct {
	traits.Lister
	at *place
}

func (l *placedList) Equal(other ref.Val) ref.Val   { return l.Lister.Equal(unwrap(other)) }
func (l *placedList) Add(other ref.Val) ref.Val     { return l.Lister.Add(unwrap(other)) }
func (l *placedList) Contains(elem ref.Val) ref.Val { return l.Lister.Contains(unwrap(elem)) }
func (l *placedList) IsZeroValue() bool             { return l.Size() == types.IntZero }
func (l *placedList) Iterator() traits.Iterator {
	n, _ := l.Size().(types.Int)
	return &iterator{list: l, size: int(n)}
}

func (l *placedList) ConvertToType(typ ref.Type) ref.Val {
	if typ == types.ListType {
		return l
	}
	return l.Lister.ConvertToType(typ)
}

func (l *placedList) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return l.Lister.Get(index)
	}
	return wrapVal(l.Lister.Get(index), l.at.item(i))
}

func unwrap(v ref.Val) ref.Val {
	switch v := v.(type) {
	case *placedMap:
		return v.Mapper
	case *placedList:
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
