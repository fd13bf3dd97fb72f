package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A read is a place of the input that an expression's outcome depends on.
type read struct {
	path    []string
	missing bool
	derived bool // the value was computed from the place's value
	weak    bool // it was passed to a helper; whether that used it is unknown
	rank    rank
}

// A rank is how likely a person would change a place, by how it was read.
type rank int8

const (
	rankUsed     rank = iota // for a value, such as a message
	rankIterated             // as the element that the rule checks
	rankAssigned             // compared in a helper that returns a value
	rankCompared             // in a test
	rankRefused  rank = 6    // in a negation
)

// maxReads bounds the reads of one expression or body.
const maxReads = 64

// tested returns the reads of tests.
func tested(reads []read) []read {
	var out []read
	for _, r := range reads {
		if r.rank >= rankAssigned {
			out = append(out, r)
		}
	}
	return out
}

// ranked sets the rank of all reads.
func ranked(reads []read, r rank) []read {
	for i := range reads {
		reads[i].rank = r
	}
	return reads
}

// atLeast raises ranks, demoted lowers them.
func atLeast(reads []read, r rank) []read {
	for i := range reads {
		reads[i].rank = max(reads[i].rank, r)
	}
	return reads
}

func demoted(reads []read, r rank) []read {
	for i := range reads {
		reads[i].rank = min(reads[i].rank, r)
	}
	return reads
}

// weak marks reads that may not be the reason, if yes.
func weak(reads []read, yes bool) []read {
	for i := range reads {
		reads[i].weak = reads[i].weak || yes
	}
	return reads
}

// derived marks reads from which a value was computed.
func derived(reads []read) []read {
	for i := range reads {
		reads[i].derived = true
	}
	return reads
}

// merge drops reads of the same place, keeping the highest rank, and those beyond
// the limit. It changes the given slice.
func merge(reads []read) []read {
	out := reads[:0]
	for _, r := range reads {
		i := slices.IndexFunc(out, func(o read) bool { return slices.Equal(o.path, r.path) })
		switch {
		case i >= 0:
			out[i].rank = max(out[i].rank, r.rank)
			out[i].weak = out[i].weak && r.weak
		case len(out) < maxReads:
			out = append(out, r)
		}
	}
	return out
}

// within reports whether a path is at or below another one.
func within(path, above []string) bool {
	return len(path) >= len(above) && slices.Equal(path[:len(above)], above)
}

// common replaces reads of several elements by one of their collection: if no element
// will do, none of them is the reason.
func common(reads []read) []read {
	var out []read
	for _, r := range reads {
		i := slices.IndexFunc(out, func(o read) bool { return alike(o.path, r.path) })
		if i < 0 {
			out = append(out, r)
			continue
		}
		n := 0
		for n < min(len(out[i].path), len(r.path)) && out[i].path[n] == r.path[n] {
			n++
		}
		if n < len(r.path) {
			out[i].path, out[i].missing = out[i].path[:n:n], false
		}
	}
	return out
}

// alike reports whether two paths differ in indices only, or one is the collection
// that contains the other.
func alike(a, b []string) bool {
	if len(a) < len(b) {
		a, b = b, a
	}
	differ := false
	for i := range b {
		if a[i] != b[i] {
			if !isIndex(a[i]) || !isIndex(b[i]) {
				return false
			}
			differ = true
		}
	}
	return len(a) == len(b) || !differ && isIndex(a[len(b)])
}

func isIndex(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// difference returns the reads that a difference of sets depends on. If the second set
// holds the keys of an object, these are the elements missing in it, as paths below
// the object.
func (t *tracer) difference(f *frame, x *ast.Expr, terms []*ast.Term, value *ast.Term, depth int) []read {
	second := t.reads(f, x, terms[2], depth+1)
	set, ok := value.Value.(ast.Set)
	if !ok || set.Len() == 0 || len(second) == 0 {
		return append(t.reads(f, x, terms[1], depth+1), second...)
	}
	above := t.keysOf(f, terms[2], second)
	if above == nil {
		return t.left(t.reads(f, x, terms[1], depth+1), second, set)
	}
	var out []read
	set.Foreach(func(e *ast.Term) {
		if len(out) < maxReads {
			r := t.below(read{path: above}, []string{plainKey(e.Value)})
			r.rank = rankRefused
			out = append(out, r)
		}
	})
	return out
}

// left returns the reads that a difference of sets depends on, if the sets aren't
// keys of an object: the elements left of the first set, else the second set, in
// which they are looked for.
func (t *tracer) left(first, second []read, set ast.Set) []read {
	kept := slices.DeleteFunc(slices.Clone(first), func(r read) bool {
		at := t.origins.find(r.path)
		return at == nil || !set.Until(func(e *ast.Term) bool {
			return strings.EqualFold(textOf(e), textOf(at)) || r.path[len(r.path)-1] == textOf(e)
		})
	})
	switch {
	case useful(kept):
		return kept
	case useful(first):
		return first
	}
	return second
}

// keysOf returns the path of the object whose keys a set holds, or nil. An empty set
// belongs to the object that was read.
func (t *tracer) keysOf(f *frame, term *ast.Term, reads []read) []string {
	set, ok := f.event.Plug(term).Value.(ast.Set)
	if !ok {
		return nil
	}
	for _, e := range set.Slice() {
		if place, key, ok := t.origins.of(e); ok && key {
			return spot{place.origins, place.places[place.at].parent}.path()
		}
	}
	if set.Len() == 0 && len(reads) == 1 && t.takesKeys(f, term, 0) {
		return reads[0].path
	}
	return nil
}

// takesKeys reports whether the expression of a set collects an object's keys.
func (t *tracer) takesKeys(f *frame, term *ast.Term, depth int) bool {
	switch v := term.Value.(type) {
	case ast.Var:
		g, d := t.definition(f, v)
		if d == nil || depth > maxDepth {
			return false
		}
		if d.IsEquality() {
			other := d.Operand(1)
			if other.Equal(term) {
				other = d.Operand(0)
			}
			return t.takesKeys(g, other, depth+1)
		}
		return t.operator(d) == "object.keys"
	case *ast.SetComprehension:
		found := false
		ast.WalkRefs(v.Body, func(r ast.Ref) bool {
			found = found || len(r) > 1 && r[len(r)-1].Equal(v.Term)
			return found
		})
		return found
	}
	return false
}
