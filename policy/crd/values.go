package crd

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
)

// valueOf converts a value to the API server's own typed value, with maps that
// are iterated in the order of their keys. The API server iterates in random
// order, so its messages and costs may differ each time.
func valueOf(value any, s *schema.Structural) ref.Val {
	return stable(schemacel.UnstructuredToVal(value, s))
}

func stable(v ref.Val) ref.Val {
	switch v := v.(type) {
	case *stableMap, *stableList:
		return v
	case traits.Mapper:
		return &stableMap{v}
	case traits.Lister:
		return &stableList{v}
	}
	return v
}

// plain returns the API server's own value, because its comparisons and unions
// check the types of their operands.
func plain(v ref.Val) ref.Val {
	switch v := v.(type) {
	case *stableMap:
		return v.Mapper
	case *stableList:
		return v.Lister
	case traits.Lister:
		n, _ := v.Size().(types.Int)
		elements := make([]ref.Val, n)
		for i := range elements {
			elements[i] = plain(v.Get(types.Int(i)))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, elements)
	}
	return v
}

// A stableMap iterates its keys in sorted order.
type stableMap struct{ traits.Mapper }

// Find implements traits.Mapper.
func (s *stableMap) Find(key ref.Val) (ref.Val, bool) {
	v, ok := s.Mapper.Find(key)
	return stable(v), ok
}

// Get implements traits.Indexer.
func (s *stableMap) Get(key ref.Val) ref.Val { return stable(s.Mapper.Get(key)) }

// Equal implements ref.Val.
func (s *stableMap) Equal(other ref.Val) ref.Val { return s.Mapper.Equal(plain(other)) }

// ConvertToType implements ref.Val.
func (s *stableMap) ConvertToType(t ref.Type) ref.Val {
	if t == types.MapType {
		return s
	}
	return s.Mapper.ConvertToType(t)
}

// Iterator implements traits.Iterable.
func (s *stableMap) Iterator() traits.Iterator {
	var keys []ref.Val
	for it := s.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortStableFunc(keys, func(a, b ref.Val) int { return strings.Compare(keyText(a), keyText(b)) })
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

func keyText(key ref.Val) string {
	s, _ := key.(types.String)
	return string(s)
}

// A stableList holds stable values.
type stableList struct{ traits.Lister }

// Get implements traits.Indexer.
func (s *stableList) Get(index ref.Val) ref.Val { return stable(s.Lister.Get(index)) }

// Contains implements traits.Container.
func (s *stableList) Contains(v ref.Val) ref.Val { return s.Lister.Contains(plain(v)) }

// Equal implements ref.Val.
func (s *stableList) Equal(other ref.Val) ref.Val { return s.Lister.Equal(plain(other)) }

// Add implements traits.Adder.
func (s *stableList) Add(other ref.Val) ref.Val { return stable(s.Lister.Add(plain(other))) }

// ConvertToType implements ref.Val.
func (s *stableList) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return s
	}
	return s.Lister.ConvertToType(t)
}

// Iterator implements traits.Iterable.
func (s *stableList) Iterator() traits.Iterator { return &stableIterator{s.Lister.Iterator()} }

type stableIterator struct{ traits.Iterator }

// Next implements traits.Iterator.
func (s *stableIterator) Next() ref.Val { return stable(s.Iterator.Next()) }
