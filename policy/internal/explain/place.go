package explain

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// A root is one of the values an expression starts from, such as object.
type root struct {
	name  string
	class int // its turn in the order of culprits
	raw   any
}

// classes orders the roots: objects of the request come before the values that
// they are compared with. Other roots come in between, by name.
var classes = map[string]int{
	"object": 0, "self": 0, "oldObject": 1, "oldSelf": 1,
	"params": 3, "namespaceObject": 4, "request": 5, "authorizer": 6,
}

const otherClass = 2

func newRoot(name string, raw any) *root {
	class, ok := classes[name]
	if !ok {
		class = otherClass
	}
	return &root{name: name, class: class, raw: raw}
}

// typed reports whether the root is a CEL value, which a schema may have typed, and
// not JSON.
func (r *root) typed() bool {
	_, is := r.raw.(ref.Val)
	return is
}

// A place is where in a root a value is written, or would be.
type place struct {
	root  *root
	up    *place // nil for the root itself
	key   string
	index int // in a list; -1 for a key
}

func (p *place) child(key string) *place {
	if p == nil {
		return nil
	}
	return &place{root: p.root, up: p, key: key, index: -1}
}

func (p *place) item(i int) *place {
	if p == nil {
		return nil
	}
	return &place{root: p.root, up: p, index: i}
}

// editable reports whether a person would edit p to satisfy a rule. An
// authorizer has no place, and a rule selects objects by their kind.
func (p *place) editable() bool {
	if p.up == nil {
		return p.root.class != classes["authorizer"]
	}
	return p.up.up != nil || p.key != "kind" && p.key != "apiVersion"
}

func (p *place) token() string {
	if p.index >= 0 {
		return strconv.Itoa(p.index)
	}
	return p.key
}

// steps returns the places from below the root down to p.
func (p *place) steps() []*place {
	steps := make([]*place, 0, p.depth())
	for ; p.up != nil; p = p.up {
		steps = append(steps, p)
	}
	for i, j := 0, len(steps)-1; i < j; i, j = i+1, j-1 {
		steps[i], steps[j] = steps[j], steps[i]
	}
	return steps
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// pointer returns the RFC 6901 pointer of a path.
func pointer(path []*place) string {
	var b strings.Builder
	for _, s := range path {
		b.WriteByte('/')
		if s.index >= 0 {
			b.WriteString(strconv.Itoa(s.index))
			continue
		}
		_, _ = escaper.WriteString(&b, s.key)
	}
	return b.String()
}

func (p *place) depth() int {
	n := 0
	for ; p.up != nil; p = p.up {
		n++
	}
	return n
}

// within reports whether p is q or below it.
func (p *place) within(q *place) bool {
	if p.root != q.root {
		return false
	}
	for over := p.depth() - q.depth(); over > 0; over-- {
		p = p.up
	}
	return p.same(q)
}

func (p *place) same(q *place) bool {
	for p != q {
		if p == nil || q == nil || p.index != q.index || p.key != q.key || p.root != q.root {
			return false
		}
		p, q = p.up, q.up
	}
	return true
}

// compare orders paths as in a document: by key, list elements by index,
// parents before children.
func compare(a, b []*place) int {
	for i := range min(len(a), len(b)) {
		if c := cmp.Or(cmp.Compare(a[i].index, b[i].index), strings.Compare(a[i].key, b[i].key)); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func (r *root) compare(s *root) int {
	return cmp.Or(cmp.Compare(r.class, s.class), strings.Compare(r.name, s.name))
}

// value returns the value at p, and whether it exists.
func (p *place) value() (any, bool) {
	if p.up == nil {
		return p.root.raw, p.root.raw != nil
	}
	parent, ok := p.up.value()
	if !ok {
		return nil, false
	}
	return p.in(parent)
}

func (p *place) in(parent any) (any, bool) {
	switch v := parent.(type) {
	case map[string]any:
		x, ok := v[p.key]
		return x, ok && p.index < 0
	case []any:
		if p.index < 0 || p.index >= len(v) {
			return nil, false
		}
		return v[p.index], true
	case traits.Mapper:
		if raw, ok := rawMap(v); ok {
			x, ok := raw[p.key]
			return x, ok && p.index < 0
		}
		return v.Find(types.String(p.key))
	case traits.Lister:
		if n, ok := v.Size().(types.Int); !ok || p.index < 0 || p.index >= int(n) {
			return nil, false
		}
		return v.Get(types.Int(p.index)), true
	}
	return nil, false
}

// rawMap returns the map that m wraps, if it wraps one.
func rawMap(m traits.Mapper) (raw map[string]any, ok bool) {
	if _, ok := m.(interface{ Lookup(string) (ref.Val, bool) }); ok {
		return nil, false // a *cel.Map, whose Value is a copy
	}
	raw, ok = m.Value().(map[string]any)
	return raw, ok
}

// native returns v without CEL's wrapping, or nil if it is not a JSON value.
func native(v any) any {
	r, ok := v.(ref.Val)
	if !ok {
		return v
	}
	switch r := r.(type) {
	case types.String, types.Int, types.Uint, types.Double, types.Bool, types.Bytes,
		types.Timestamp, types.Duration, traits.Mapper, traits.Lister:
		return r.Value()
	}
	return nil
}
