package cel

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Sizes bounds the collections and strings in a value: no list or map has more than
// Items elements, no string or key more than Length bytes.
type Sizes struct {
	Items, Length uint64
}

// Max returns the larger of each bound.
func (s Sizes) Max(t Sizes) Sizes {
	return Sizes{max(s.Items, t.Items), max(s.Length, t.Length)}
}

// Freeze converts a tree of nil, bool, int64, float64, string, []any and
// map[string]any to a CEL value, and measures it. The value may share the tree's
// scalars only.
func Freeze(tree any) (ref.Val, Sizes) {
	var f freezer
	v := f.freeze(tree)
	return v, f.Sizes
}

// FreezeTyped is Freeze for the tree of an object that the API server holds in a Go
// type. From Kubernetes 1.37 on, ValidatingAdmissionPolicies read its fields by
// reflection, and it is an error, not false, whether one of its maps or lists equals a
// value of another type (k8s.io/apiserver/pkg/cel/common.SchemalessTypedToVal).
func FreezeTyped(tree any) (ref.Val, Sizes) {
	f := freezer{typed: true}
	v := f.freeze(tree)
	return v, f.Sizes
}

// Fits reports whether the lists, maps and texts that an expression made are no
// larger than s. It does not look into maps of [Freeze], whose sizes are known. A
// value with more than maxParts parts does not fit.
func Fits(v ref.Val, s Sizes) bool {
	f := fitting{s, maxParts}
	return f.fits(v)
}

// maxParts bounds the parts of a value that Fits visits.
const maxParts = 4096

type fitting struct {
	Sizes
	left int
}

func (f *fitting) fits(v ref.Val) bool {
	if f.left--; f.left < 0 {
		return false
	}
	switch v := v.(type) {
	case types.String:
		return uint64(len(v)) <= f.Length
	case types.Bytes:
		return uint64(len(v)) <= f.Length
	case *types.Optional:
		return !v.HasValue() || f.fits(v.GetValue())
	case *Map:
		return true
	case *List: // of Freeze, or a sum of two
		return uint64(len(v.elems)) <= f.Items && !slices.ContainsFunc(v.elems, func(e ref.Val) bool { return !f.fits(e) })
	case traits.Lister:
		return f.all(v.Size(), v.Iterator(), f.fits)
	case traits.Mapper:
		return f.all(v.Size(), v.Iterator(), func(key ref.Val) bool { return f.fits(key) && f.fits(v.Get(key)) })
	}
	return true
}

// all reports whether there are no more elements than allowed, and each fits.
func (f *fitting) all(size ref.Val, elements traits.Iterator, fits func(ref.Val) bool) bool {
	if n, ok := size.(types.Int); !ok || uint64(n) > f.Items {
		return false
	}
	for elements.HasNext() == types.True {
		if !fits(elements.Next()) {
			return false
		}
	}
	return true
}

// A freezer makes the values of one tree, and measures it. It allocates many at a
// time, since they are freed together.
type freezer struct {
	Sizes
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
		f.Length = max(f.Length, uint64(len(t)))
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
	f.Items = max(f.Items, uint64(len(list)))
	l := &f.lists.take(1, 8)[0]
	l.elems, l.typed = f.vals.take(len(list), 32), f.typed
	for i, e := range list {
		l.elems[i] = f.freeze(e)
	}
	return l
}

func (f *freezer) mapping(m map[string]any) *Map {
	f.Items = max(f.Items, uint64(len(m)))
	first := len(f.open)
	for k, v := range m {
		f.Length = max(f.Length, uint64(len(k)))
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
