package rego

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/open-policy-agent/opa/v1/ast"
)

// origins finds the place of the input from which a value was read, even if it was
// passed through a helper's argument, an element of a set, object.get or walk. The
// evaluator passes values on without copying them, so origins copies the input once,
// each part as a value of its own, and recognizes the parts by identity. All texts
// and numbers are slices of one text, so that a part of a text is recognized too.
type origins struct {
	input  *ast.Term
	above  []string // the path of the input, if it is a part of another one
	below  *origins // of the part that other inputs share, or nil
	places []origin
	paths  [][]string // of places, computed when needed
	text   string     // all keys, texts and numbers of the input
	starts []start    // their beginnings in text, in order
	values map[any]int32
}

// A spot is a place of one input.
type spot struct {
	*origins
	at int32
}

// An origin is a place of the input: the last segment of its path, and the index of
// its parent.
type origin struct {
	parent  int32
	segment string
}

// A start is the offset in origins.text where the text of a place begins.
type start struct {
	offset int
	place  int32
	key    bool // the text is the key of the place, not its value
}

// Inside keeps the origins of one input for several queries. The zero value is empty.
// It serves one question at a time.
type Inside struct {
	Field string // that the inputs share; "": all of the input

	of      *ast.Term
	origins *origins
}

// origins returns the origins of the question's input.
func (q *Question) origins() *origins {
	if q.Inside == nil || q.Input == nil {
		return newOrigins(q.Input, nil, nil)
	}
	same, field := q.Input, ast.StringTerm(q.Inside.Field)
	var above []string
	if q.Inside.Field != "" {
		above = []string{q.Inside.Field}
		same = q.Input.Value.(ast.Object).Get(field)
	}
	if q.Inside.of != same {
		q.Inside.of, q.Inside.origins = same, newOrigins(same, above, nil)
	}
	if above == nil {
		return q.Inside.origins
	}
	rest := ast.NewObject([2]*ast.Term{field, ast.NullTerm()})
	q.Input.Value.(ast.Object).Foreach(func(k, v *ast.Term) {
		if !k.Equal(field) {
			rest.Insert(k, v)
		}
	})
	return newOrigins(ast.NewTerm(rest), nil, q.Inside.origins)
}

// newOrigins copies an input that is at the path above. If below is not nil, the part
// that below has copied is null in input.
func newOrigins(input *ast.Term, above []string, below *origins) *origins {
	o := &origins{values: map[any]int32{}, places: []origin{{parent: -1}}, above: above, below: below}
	if input == nil {
		return o
	}
	var b strings.Builder
	b.Grow(textSize(input.Value))
	gather(input.Value, &b)
	o.text = b.String()
	at := 0
	o.input = o.copy(input.Value, 0, &at)
	return o
}

// textSize returns the length of all texts of a value, keys included.
func textSize(v ast.Value) int {
	n := 0
	switch v := v.(type) {
	case ast.String:
		n = len(v)
	case ast.Number:
		n = len(v)
	case ast.Object:
		v.Foreach(func(k, t *ast.Term) { n += textSize(k.Value) + textSize(t.Value) })
	default:
		each(v, func(t *ast.Term) { n += textSize(t.Value) })
	}
	return n
}

// gather writes the texts of a value in the order in which copy takes them.
func gather(v ast.Value, b *strings.Builder) {
	switch v := v.(type) {
	case ast.String:
		b.WriteString(string(v))
	case ast.Number:
		b.WriteString(string(v))
	case ast.Object:
		v.Foreach(func(k, t *ast.Term) {
			gather(k.Value, b)
			gather(t.Value, b)
		})
	default:
		each(v, func(t *ast.Term) { gather(t.Value, b) })
	}
}

// copy returns a term of a value at a place, and registers each part of it.
func (o *origins) copy(v ast.Value, place int32, at *int) *ast.Term {
	switch v := v.(type) {
	case ast.String:
		return &ast.Term{Value: ast.String(o.take(len(v), place, false, at))}
	case ast.Number:
		return &ast.Term{Value: ast.Number(o.take(len(v), place, false, at))}
	case *ast.Array:
		terms := make([]*ast.Term, v.Len())
		for i := range terms {
			terms[i] = o.copy(v.Elem(i).Value, o.place(place, strconv.Itoa(i)), at)
		}
		return o.register(ast.NewArray(terms...), place)
	case ast.Object:
		pairs := make([][2]*ast.Term, 0, v.Len())
		v.Foreach(func(k, t *ast.Term) {
			below := o.place(place, plainKey(k.Value))
			key := k
			if s, ok := k.Value.(ast.String); ok {
				key = &ast.Term{Value: ast.String(o.take(len(s), below, true, at))}
			} else {
				*at += textSize(k.Value)
			}
			if place == 0 && o.below != nil && k.Equal(ast.StringTerm(o.below.above[0])) {
				pairs = append(pairs, [2]*ast.Term{key, o.below.input})
				return
			}
			pairs = append(pairs, [2]*ast.Term{key, o.copy(t.Value, below, at)})
		})
		return o.register(ast.NewObject(pairs...), place)
	}
	*at += textSize(v)
	t := &ast.Term{Value: v}
	o.values[t] = place
	return t
}

// register returns a term of a collection, registered at a place.
func (o *origins) register(v ast.Value, place int32) *ast.Term {
	o.values[v] = place
	return &ast.Term{Value: v}
}

func (o *origins) place(parent int32, segment string) int32 {
	o.places = append(o.places, origin{parent, segment})
	return int32(len(o.places) - 1)
}

// take returns the next n bytes of the text and registers their place.
func (o *origins) take(n int, place int32, key bool, at *int) string {
	s := o.text[*at : *at+n]
	if n > 0 {
		o.starts = append(o.starts, start{*at, place, key})
	}
	*at += n
	return s
}

// of returns the place that a term was read from. key is true if the term is the key
// of that place, not its value.
func (o *origins) of(t *ast.Term) (place spot, key, ok bool) {
	for ; o != nil; o = o.below {
		place.origins = o
		switch v := t.Value.(type) {
		case ast.String:
			place.at, key, ok = o.ofText(string(v))
		case ast.Number:
			place.at, key, ok = o.ofText(string(v))
		case *ast.Array, ast.Object:
			place.at, ok = o.values[v]
		default:
			place.at, ok = o.values[t]
		}
		if ok {
			return place, key, true
		}
	}
	return spot{}, false, false
}

// ofText finds the place of a text by its address within origins.text.
func (o *origins) ofText(s string) (int32, bool, bool) {
	if s == "" || o.text == "" {
		return 0, false, false
	}
	base, p := uintptr(unsafe.Pointer(unsafe.StringData(o.text))), uintptr(unsafe.Pointer(unsafe.StringData(s)))
	if p < base || p >= base+uintptr(len(o.text)) {
		return 0, false, false
	}
	i, exact := slices.BinarySearchFunc(o.starts, int(p-base), func(s start, at int) int { return cmp.Compare(s.offset, at) })
	if !exact {
		i--
	}
	return o.starts[i].place, o.starts[i].key, true
}

// path returns the segments of a place, from the input's root.
func (s spot) path() []string {
	o := s.origins
	if o.paths == nil {
		o.paths = make([][]string, len(o.places))
	}
	if known := o.paths[s.at]; known != nil {
		return known
	}
	n := len(o.above)
	for p := s.at; p > 0; p = o.places[p].parent {
		n++
	}
	out := make([]string, n)
	copy(out, o.above)
	for p := s.at; p > 0; p = o.places[p].parent {
		n--
		out[n] = o.places[p].segment
	}
	o.paths[s.at] = out
	return out
}

// exists reports whether the input has a path.
func (o *origins) exists(path []string) bool { return o.find(path) != nil }

// find returns the value at a path, or nil.
func (o *origins) find(path []string) *ast.Term {
	t := o.input
	for _, s := range path {
		if t == nil {
			return nil
		}
		switch v := t.Value.(type) {
		case ast.Object:
			t = v.Get(ast.StringTerm(s))
		case *ast.Array:
			i, err := strconv.Atoi(s)
			if err != nil || i < 0 || i >= v.Len() {
				return nil
			}
			t = v.Elem(i)
		default:
			return nil
		}
	}
	return t
}
