package cel

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Sizes bounds the collections and the strings in a value: no list or map has
// more Items, no string or key more bytes than Length.
type Sizes struct {
	Items, Length uint64
}

// Max is the larger of both in either respect.
func (s Sizes) Max(t Sizes) Sizes {
	return Sizes{max(s.Items, t.Items), max(s.Length, t.Length)}
}

// Freeze makes a CEL value of a tree of nil, bool, int64, float64, string,
// []any and map[string]any, and measures it. The value shares nothing that
// changes with the tree.
func Freeze(tree any) (ref.Val, Sizes) {
	var f freezer
	v := f.freeze(tree)
	return v, f.Sizes
}

// Fits reports whether the lists, maps and texts that an expression made are no
// larger than s. It does not look into maps of [Freeze], whose sizes are known. A
// value of many parts does not fit.
func Fits(v ref.Val, s Sizes) bool {
	f := fitting{s, maxParts}
	return f.fits(v)
}

// maxParts is how many parts of a value are looked at.
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
	case *List: // of Freeze, or two that were added
		return uint64(len(v.elems)) <= f.Items && !slices.ContainsFunc(v.elems, func(e ref.Val) bool { return !f.fits(e) })
	case traits.Lister:
		return f.all(v.Size(), v.Iterator(), f.fits)
	case traits.Mapper:
		return f.all(v.Size(), v.Iterator(), func(key ref.Val) bool { return f.fits(key) && f.fits(v.Get(key)) })
	}
	return true
}

// all reports whether there are no more elements than there may be, and each fits.
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

// A freezer makes the values of one tree, and measures it. It allocates them
// many at a time: they are needed as long as each other.
type freezer struct {
	Sizes
	vals  slab[ref.Val]
	keys  slab[string]
	tags  slab[uint32]
	maps  slab[Map]
	lists slab[List]
	open  []entry // of the maps that are being frozen, the innermost last
}

// An entry is one of a map.
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
	l.elems = f.vals.take(len(list), 32)
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
	made.keys, made.tags, made.vals = f.keys.take(len(m), 32), f.tags.take(len(m), 32), f.vals.take(len(m), 32)
	for i := range made.keys {
		e := f.open[first+i]
		made.keys[i], made.tags[i], made.vals[i] = e.key, tagOf(e.key), f.freeze(e.value)
	}
	f.open = f.open[:first]
	return made
}

// A slab hands out parts of arrays.
type slab[T any] struct{ free []T }

// take gives n elements, of an array of at least so many.
func (s *slab[T]) take(n, atLeast int) []T {
	if n > len(s.free) {
		s.free = make([]T, max(n, atLeast))
	}
	taken := s.free[:n:n]
	s.free = s.free[n:]
	return taken
}
