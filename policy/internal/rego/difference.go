package rego

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

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
			return place.parent().path()
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
