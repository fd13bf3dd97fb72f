package explain

import (
	"fmt"
	"regexp"
	"slices"
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
	at   *place
	keys []ref.Val // of the first containers that were read
	read []ref.Val
}

func (m *placedMap) Equal(other ref.Val) ref.Val { return m.Mapper.Equal(unwrap(other)) }

func (m *placedMap) ConvertToType(typ ref.Type) ref.Val {
	if typ == types.MapType {
		return m
	}
	return m.Mapper.ConvertToType(typ)
}

func (m *placedMap) Find(key ref.Val) (ref.Val, bool) {
	if i := slices.Index(m.keys, key); i >= 0 {
		return m.read[i], true
	}
	v, ok := m.Mapper.Find(key)
	if !ok {
		return v, false
	}
	v = wrapVal(v, m.property(key))
	if placeOf(v) != nil && len(m.keys) < 4 {
		m.keys, m.read = append(m.keys, key), append(m.read, v)
	}
	return v, true
}

func (m *placedMap) Get(key ref.Val) ref.Val { return wrapVal(m.Mapper.Get(key), m.property(key)) }

// property returns the place of a key. Properties of a schema may be escaped
// (x__dash__prop), keys of a map are not.
func (m *placedMap) property(key ref.Val) *place {
	k, ok := key.(types.String)
	if !ok || m.at == nil {
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

// Iterator returns the keys sorted, so that explanations are deterministic.
func (m *placedMap) Iterator() traits.Iterator {
	var keys []ref.Val
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, func(a, b ref.Val) int {
		return strings.Compare(fmt.Sprint(a.Value()), fmt.Sprint(b.Value()))
	})
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

// IsZeroValue makes optional.ofNonZeroValue work.
func (m *placedMap) IsZeroValue() bool { return m.Size() == types.IntZero }

// placedList is a list that is read from a root.
type placedList struct {
	traits.Lister
	at   *place
	read []ref.Val // the elements that were read
}

func (l *placedList) Equal(other ref.Val) ref.Val   { return l.Lister.Equal(unwrap(other)) }
func (l *placedList) Contains(elem ref.Val) ref.Val { return l.Lister.Contains(unwrap(elem)) }
func (l *placedList) IsZeroValue() bool             { return l.Size() == types.IntZero }

// Add keeps the places of the elements, unless the lists are merged by keys.
func (l *placedList) Add(other ref.Val) ref.Val {
	if l.at.root.typed() {
		return l.Lister.Add(unwrap(other))
	}
	return l.placed().Add(other)
}

func (l *placedList) Iterator() traits.Iterator { return l.placed().Iterator() }

// placed returns a list of the elements with their places.
func (l *placedList) placed() traits.Lister {
	size, _ := l.Size().(types.Int)
	items := make([]ref.Val, size)
	for i := range items {
		items[i] = l.Get(types.Int(i))
	}
	return types.NewRefValList(types.DefaultTypeAdapter, items)
}

func (l *placedList) ConvertToType(typ ref.Type) ref.Val {
	if typ == types.ListType {
		return l
	}
	return l.Lister.ConvertToType(typ)
}

func (l *placedList) Get(index ref.Val) ref.Val {
	size, _ := l.Size().(types.Int)
	i, err := types.IndexOrError(index)
	if err != nil || i < 0 || i >= int(size) {
		return l.Lister.Get(index)
	}
	if l.read == nil {
		l.read = make([]ref.Val, size)
	}
	if l.read[i] == nil {
		l.read[i] = wrapVal(l.Lister.Get(index), l.at.item(i))
	}
	return l.read[i]
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
