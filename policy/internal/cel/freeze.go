package cel

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Freeze converts a tree of nil, bool, int64, float64, string, []any and
// map[string]any to a CEL value, which shares only the tree's scalars.
func Freeze(tree any) ref.Val {
	var f freezer
	return f.freeze(tree)
}

// FreezeTyped is Freeze for the tree of an object that the API server holds in a Go
// type. From Kubernetes 1.37 on, ValidatingAdmissionPolicies read its fields by
// reflection, and it is an error, not false, whether one of its maps or lists equals a
// value of another type (k8s.io/apiserver/pkg/cel/common.SchemalessTypedToVal).
func FreezeTyped(tree any) ref.Val {
	f := freezer{typed: true}
	return f.freeze(tree)
}

// A freezer makes the values of one tree. It allocates many at a time, since they are freed together.
type freezer struct {
	typed bool
	vals  slab[ref.Val]
	keys  slab[string]
	tags  slab[uint32]
	maps  slab[Map]
	lists slab[List]
	open  []entry // of the maps that are being frozen, the innermost last
}

// An entry is an entry of a map.
type entry struct {
	key   string
	value any
}

func (f *freezer) freeze(tree any) ref.Val {
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
		return f.list(t)
	case map[string]any:
		return f.mapping(t)
	case ref.Val:
		return t
	default:
		return types.NewErr("unsupported Go type for CEL: %T", tree)
	}
}

func (f *freezer) list(list []any) *List {
	l := &f.lists.take(1, 8)[0]
	l.elems, l.typed = f.vals.take(len(list), 32), f.typed
	for i, e := range list {
		l.elems[i] = f.freeze(e)
	}
	return l
}

func (f *freezer) mapping(m map[string]any) *Map {
	first := len(f.open)
	for k, v := range m {
		f.open = append(f.open, entry{k, v})
	}
	slices.SortFunc(f.open[first:], func(a, b entry) int { return strings.Compare(a.key, b.key) })
	made := &f.maps.take(1, 8)[0]
	made.typed = f.typed
	made.keys, made.tags, made.vals = f.keys.take(len(m), 32), f.tags.take(len(m), 32), f.vals.take(len(m), 32)
	for i := range made.keys {
		e := f.open[first+i]
		made.keys[i], made.tags[i], made.vals[i] = e.key, tagOf(e.key), f.freeze(e.value)
	}
	f.open = f.open[:first]
	return made
}

// A slab hands out parts of larger arrays.
type slab[T any] struct{ free []T }

// take returns n elements, from an array of at least atLeast.
func (s *slab[T]) take(n, atLeast int) []T {
	if n > len(s.free) {
		s.free = make([]T, max(n, atLeast))
	}
	taken := s.free[:n:n]
	s.free = s.free[n:]
	return taken
}
