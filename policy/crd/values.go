package crd

import (
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/preadmit/preadmit/render"
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

// A place is the path of a value in an object. nil is the object itself.
type place struct {
	up    *place
	key   string
	index int  // in a list; -1 for a key
	free  bool // a key of a map, not a property of the schema
}

func (p *place) child(key string) *place { return &place{up: p, key: key, index: -1} }
func (p *place) entry(key string) *place { return &place{up: p, key: key, index: -1, free: true} }
func (p *place) item(i int) *place       { return &place{up: p, index: i} }

// pointer returns the place as an RFC 6901 pointer.
func (p *place) pointer() string {
	switch {
	case p == nil:
		return ""
	case p.index >= 0:
		return p.up.pointer() + render.Pointer(p.index)
	default:
		return p.up.pointer() + render.Pointer(p.key)
	}
}

// path returns the place as the API server writes it.
func (p *place) path() *field.Path {
	switch {
	case p == nil:
		return nil
	case p.index >= 0:
		return p.up.path().Index(p.index)
	case p.free:
		return p.up.path().Key(p.key)
	default:
		return p.up.path().Child(p.key)
	}
}

// maxPath is the longest field path that is looked up. A longer one, from
// hostile keys, is replaced by the whole object.
const maxPath = 4 << 10

// find converts a field path in the API server's form, such as
// spec.versions[0].properties[a.b], to a JSON pointer. Keys may contain dots and
// brackets, so find needs the value to see where a key ends. The part of the path
// that is not in the value is split at dots and brackets; if whole is set, it is
// one key.
func find(value any, path string, whole bool) string {
	if path == "<nil>" || len(path) > maxPath {
		return ""
	}
	f := finder{rest: path}
	f.walk(value, strings.TrimPrefix(path, "."), nil)
	if f.rest = strings.TrimPrefix(f.rest, "."); f.rest == "" {
		return render.Pointer(f.best...)
	}
	if whole {
		return render.Pointer(append(f.best, f.rest)...)
	}
	for name := range strings.FieldsFuncSeq(f.rest, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		f.best = append(f.best, name)
	}
	return render.Pointer(f.best...)
}

// A finder keeps the path that matched most. It visits each value at most once,
// because the place of a value determines which part of the path it matched.
type finder struct {
	best []any
	rest string
}

func (f *finder) walk(value any, rest string, at []any) bool {
	if len(rest) < len(f.rest) || f.best == nil {
		f.best, f.rest = append([]any{}, at...), rest
	}
	if rest == "" {
		return true
	}
	switch v := value.(type) {
	case []any:
		return f.list(v, rest, at)
	case map[string]any:
		return f.bracket(v, rest, at) || f.dotted(v, strings.TrimPrefix(rest, "."), at)
	}
	return false
}

func (f *finder) list(list []any, rest string, at []any) bool {
	number, after, ok := strings.Cut(strings.TrimPrefix(rest, "["), "]")
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i < 0 || i >= len(list) {
		return false
	}
	return f.walk(list[i], after, append(at, i))
}

// bracket tries the keys that may be in brackets, the longest first.
func (f *finder) bracket(m map[string]any, rest string, at []any) bool {
	if rest[0] != '[' {
		return false
	}
	for end := len(rest) - 1; end > 0; end-- {
		if rest[end] != ']' {
			continue
		}
		if child, ok := m[rest[1:end]]; ok && f.walk(child, rest[end+1:], append(at, rest[1:end])) {
			return true
		}
	}
	return false
}

// dotted tries the keys that the path may go on with, the longest first.
func (f *finder) dotted(m map[string]any, rest string, at []any) bool {
	for end := len(rest); end > 0; end-- {
		if end < len(rest) && rest[end] != '.' && rest[end] != '[' {
			continue
		}
		if child, ok := m[rest[:end]]; ok && f.walk(child, rest[end:], append(at, rest[:end])) {
			return true
		}
	}
	return false
}
