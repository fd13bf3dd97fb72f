package cel

import (
	"maps"
	"reflect"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// A Map is an immutable CEL map with string keys, in the order of its keys. It
// is safe for concurrent use.
type Map struct {
	keys  []string // sorted
	vals  []ref.Val
	typed bool // see FreezeTyped
}

// A List is an immutable CEL list, safe for concurrent use.
type List struct {
	elems []ref.Val
	typed bool // see FreezeTyped
}

// Lookup returns the value of a key.
func (m *Map) Lookup(key string) (ref.Val, bool) {
	if i, found := slices.BinarySearch(m.keys, key); found {
		return m.vals[i], true
	}
	return nil, false
}

// Find implements traits.Mapper.
func (m *Map) Find(key ref.Val) (ref.Val, bool) {
	k, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	return m.Lookup(string(k))
}

// Get implements traits.Indexer.
func (m *Map) Get(key ref.Val) ref.Val {
	if v, ok := m.Find(key); ok {
		return v
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements traits.Container.
func (m *Map) Contains(key ref.Val) ref.Val {
	_, ok := m.Find(key)
	return types.Bool(ok)
}

// Size implements traits.Sizer.
func (m *Map) Size() ref.Val { return types.Int(len(m.keys)) }

// IsZeroValue reports whether the map is empty.
func (m *Map) IsZeroValue() bool { return len(m.keys) == 0 }

// Iterator goes over the keys in their order.
func (m *Map) Iterator() traits.Iterator {
	return &iterator{size: len(m.keys), at: func(i int) ref.Val { return types.String(m.keys[i]) }}
}

// Fold implements traits.Foldable, in the order of the keys.
func (m *Map) Fold(f traits.Folder) {
	for i, k := range m.keys {
		if !f.FoldEntry(types.String(k), m.vals[i]) {
			return
		}
	}
}

// Equal implements ref.Val.
func (m *Map) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Mapper)
	if !ok {
		return unequal(m.typed)
	}
	if o.Size() != m.Size() {
		return types.False
	}
	typed, _ := other.(*Map)
	both := typed != nil && typed.typed
	for i, k := range m.keys {
		v, found := o.Find(types.String(k))
		switch {
		case !found:
			return types.False
		case !m.typed:
			if types.Equal(m.vals[i], v) == types.False {
				return types.False
			}
		default:
			if equal := m.vals[i].Equal(v); equal != types.True && both {
				return types.False
			} else if equal != types.True {
				return equal
			}
		}
	}
	return types.True
}

// unequal is the answer whether a map or list equals a value of another type.
func unequal(typed bool) ref.Val {
	if typed {
		return types.NoSuchOverloadErr()
	}
	return types.False
}

// ConvertToNative implements ref.Val.
func (m *Map) ConvertToNative(t reflect.Type) (any, error) { return m.mapper().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (m *Map) ConvertToType(t ref.Type) ref.Val {
	if t == types.MapType {
		return m
	}
	return m.mapper().ConvertToType(t)
}

// Type implements ref.Val.
func (m *Map) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (m *Map) Value() any { return m.mapper().Value() }

func (m *Map) mapper() traits.Mapper {
	vals := make(map[ref.Val]ref.Val, len(m.keys))
	for i, k := range m.keys {
		vals[types.String(k)] = m.vals[i]
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, vals)
}

// Get implements traits.Indexer.
func (l *List) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return types.ValOrErr(index, "%v", err)
	}
	if i < 0 || i >= len(l.elems) {
		return types.NewErr("index out of bounds: %d", i)
	}
	return l.elems[i]
}

// Len returns the number of elements.
func (l *List) Len() int { return len(l.elems) }

// At returns an element.
func (l *List) At(i int) ref.Val { return l.elems[i] }

// Contains implements traits.Container.
func (l *List) Contains(elem ref.Val) ref.Val {
	for _, e := range l.elems {
		if types.Equal(elem, e) == types.True {
			return types.True
		}
	}
	return types.False
}

// Add implements traits.Adder.
func (l *List) Add(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	if f, ok := o.(*List); ok {
		return l.and(f)
	}
	return l.lister().Add(o)
}

// and concatenates two lists.
func (l *List) and(m *List) *List {
	switch {
	case len(m.elems) == 0 && !l.typed:
		return l
	case len(l.elems) == 0 && !m.typed:
		return m
	}
	both := make([]ref.Val, len(l.elems)+len(m.elems))
	copy(both[copy(both, l.elems):], m.elems)
	return &List{elems: both}
}

// Size implements traits.Sizer.
func (l *List) Size() ref.Val { return types.Int(len(l.elems)) }

// IsZeroValue reports whether the list is empty.
func (l *List) IsZeroValue() bool { return len(l.elems) == 0 }

// Iterator implements traits.Iterable.
func (l *List) Iterator() traits.Iterator { return &listIterator{elems: l.elems} }

// Fold implements traits.Foldable.
func (l *List) Fold(f traits.Folder) {
	for i, e := range l.elems {
		if !f.FoldEntry(types.Int(i), e) {
			return
		}
	}
}

// Equal implements ref.Val.
func (l *List) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	if !ok {
		return unequal(l.typed)
	}
	if o.Size() != l.Size() {
		return types.False
	}
	for i, e := range l.elems {
		other := o.Get(types.Int(i))
		if l.typed && e.Equal(other) != types.True || types.Equal(e, other) == types.False {
			return types.False
		}
	}
	return types.True
}

// ConvertToNative implements ref.Val.
func (l *List) ConvertToNative(t reflect.Type) (any, error) { return l.lister().ConvertToNative(t) }

// ConvertToType implements ref.Val.
func (l *List) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return l
	}
	return l.lister().ConvertToType(t)
}

// Type implements ref.Val.
func (l *List) Type() ref.Type { return types.ListType }

// Value implements ref.Val.
func (l *List) Value() any { return l.elems }

func (l *List) lister() traits.Lister {
	return types.NewRefValList(types.DefaultTypeAdapter, l.elems)
}

// listIterator is an iterator without an indirect call for each element.
type listIterator struct {
	unconvertible
	elems []ref.Val
}

func (l *listIterator) HasNext() ref.Val { return types.Bool(len(l.elems) > 0) }

func (l *listIterator) Next() ref.Val {
	if len(l.elems) == 0 {
		return types.NewErr("no more elements")
	}
	e := l.elems[0]
	l.elems = l.elems[1:]
	return e
}

type iterator struct {
	unconvertible
	next, size int
	at         func(int) ref.Val
}

func (i *iterator) HasNext() ref.Val { return types.Bool(i.next < i.size) }

func (i *iterator) Next() ref.Val {
	if i.next >= i.size {
		return types.NewErr("no more elements")
	}
	i.next++
	return i.at(i.next - 1)
}

// unconvertible implements the methods of ref.Val that iterators need but no
// expression calls.
type unconvertible struct{}

func (unconvertible) ConvertToNative(t reflect.Type) (any, error) {
	return nil, types.NewErr("an iterator can't become a %v", t).(error)
}
func (unconvertible) ConvertToType(ref.Type) ref.Val { return types.NoSuchOverloadErr() }
func (unconvertible) Equal(ref.Val) ref.Val          { return types.NoSuchOverloadErr() }
func (unconvertible) Type() ref.Type                 { return types.IteratorType }
func (unconvertible) Value() any                     { return nil }

// Freeze converts a tree of nil, bool, int64, float64, string, []any and
// map[string]any to a CEL value, which shares only the tree's scalars.
func Freeze(tree any) ref.Val { return freeze(tree, false) }

// FreezeTyped is Freeze for the tree of an object that the API server holds in a Go
// type. From Kubernetes 1.37 on, ValidatingAdmissionPolicies read its fields by
// reflection, and it is an error, not false, whether one of its maps or lists equals a
// value of another type (k8s.io/apiserver/pkg/cel/common.SchemalessTypedToVal).
func FreezeTyped(tree any) ref.Val { return freeze(tree, true) }

func freeze(tree any, typed bool) ref.Val {
	switch t := tree.(type) {
	case nil:
		return types.NullValue
	case bool:
		return types.Bool(t)
	case string:
		return types.String(t)
	case int64:
		return types.Int(t)
	case int:
		return types.Int(t)
	case int32:
		return types.Int(t)
	case float64:
		return types.Double(t)
	case float32:
		return types.Double(t)
	case []any:
		l := &List{make([]ref.Val, len(t)), typed}
		for i, e := range t {
			l.elems[i] = freeze(e, typed)
		}
		return l
	case map[string]any:
		m := &Map{keys: slices.AppendSeq(make([]string, 0, len(t)), maps.Keys(t)), vals: make([]ref.Val, len(t)), typed: typed}
		slices.Sort(m.keys)
		for i, key := range m.keys {
			m.vals[i] = freeze(t[key], typed)
		}
		return m
	case ref.Val:
		return t
	default:
		return types.NewErr("unsupported Go type for CEL: %T", tree)
	}
}
