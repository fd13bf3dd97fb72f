package rego

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// Value converts Go's JSON (maps, slices, strings, numbers, bools, nil) to a term.
// The term shares nothing with it. A value of another type becomes its text.
func Value(x any) *ast.Term { return &ast.Term{Value: value(x)} }

func value(x any) ast.Value {
	v, err := ast.InterfaceToValue(x)
	if err != nil {
		return ast.String(fmt.Sprint(x))
	}
	return v
}

// Plain converts a value to Go's JSON: integers to int64, other numbers to float64,
// or json.Number if that would lose digits; sets, and objects with keys that are not
// strings, in order.
func Plain(v ast.Value) any {
	switch v := v.(type) {
	case nil, ast.Null:
		return nil
	case ast.Boolean:
		return bool(v)
	case ast.String:
		return string(v)
	case ast.Number:
		return plainNumber(v)
	case *ast.Array:
		out := make([]any, 0, v.Len())
		v.Foreach(func(t *ast.Term) { out = append(out, Plain(t.Value)) })
		return out
	case ast.Set:
		out := make([]any, 0, v.Len())
		v.Foreach(func(t *ast.Term) { out = append(out, Plain(t.Value)) })
		return out
	case ast.Object:
		out := make(map[string]any, v.Len())
		v.Foreach(func(k, t *ast.Term) { out[plainKey(k.Value)] = Plain(t.Value) })
		return out
	}
	return v.String()
}

// plainKey returns the JSON key for a key of an object, as OPA writes it: a string, or
// the text of another value.
func plainKey(v ast.Value) string {
	if s, ok := v.(ast.String); ok {
		return string(s)
	}
	return v.String()
}

func plainNumber(n ast.Number) any {
	if i, ok := n.Int64(); ok {
		return i
	}
	j := json.Number(n)
	if f, err := j.Float64(); err == nil {
		return f
	}
	return j
}

// An Open is an unknown place of an input. A policy that reads it is undecided:
// Answer.Unknown lists its Needs.
type Open struct {
	Path  []string // below input
	Needs string   // in the words of Answer.Unknown
}

// watched returns the input with a value at each open place that records in b that it
// was read. OPA converts the parts of a lazy object when they are read, which calls
// MarshalJSON.
func (q *Question) watched(b *bound) *ast.Term {
	if len(q.Open) == 0 || q.Input == nil {
		return q.Input
	}
	root, ok := q.Input.Value.(ast.Object)
	if !ok {
		return q.Input
	}
	tree := parts(root)
	for _, o := range q.Open {
		watch(tree, o.Path, openValue{b, o.Needs})
	}
	return ast.NewTerm(ast.LazyObject(tree))
}

// watch puts u at a path, if its parents are objects.
func watch(tree map[string]any, path []string, u openValue) {
	for _, key := range path[:len(path)-1] {
		switch below := tree[key].(type) {
		case map[string]any:
			tree = below
		case ast.Object:
			copied := parts(below)
			tree[key], tree = copied, copied
		default:
			return
		}
	}
	tree[path[len(path)-1]] = u
}

// parts returns the fields of an object whose keys are texts.
func parts(o ast.Object) map[string]any {
	out := make(map[string]any, o.Len()+1)
	o.Foreach(func(k, v *ast.Term) { out[textOf(k)] = v.Value })
	return out
}

// An openValue is the value at an open place.
type openValue struct {
	bound *bound
	needs string
}

// MarshalJSON converts the value for OPA and records that it was read.
func (o openValue) MarshalJSON() ([]byte, error) {
	o.bound.ask(o.needs)
	o.bound.opened = true
	return []byte("{}"), nil
}

// An openCache skips values with open places, because computing their key would read
// them.
type openCache struct{ topdown.VirtualCache }

func (o openCache) Get(ref ast.Ref) (*ast.Term, bool) {
	if holdsLazy(ref) {
		return nil, false
	}
	return o.VirtualCache.Get(ref)
}

func (o openCache) Put(ref ast.Ref, value *ast.Term) {
	if !holdsLazy(ref) {
		o.VirtualCache.Put(ref, value)
	}
}

var lazyType = reflect.TypeOf(ast.LazyObject(nil))

func holdsLazy(ref ast.Ref) bool {
	return slices.ContainsFunc(ref, func(t *ast.Term) bool { return reflect.TypeOf(t.Value) == lazyType })
}

// Hidden replaces text that quotes a Secret's values.
const Hidden = "not shown, since it may quote a Secret"

// Secrets lists the objects visible to rules whose values must not appear in
// output.
type Secrets []map[string]any

// Reveals reports whether a text contains a part of a Secret's values.
func (s Secrets) Reveals(text string) bool { return len(s) > 0 && cel.Reveals(text, s...) }

// Hide returns the text, or Hidden if the text reveals a Secret's values.
func (s Secrets) Hide(text string) string {
	if s.Reveals(text) {
		return Hidden
	}
	return text
}

// Fields drops the JSON pointers that are missing in the object and whose names may come from
// a Secret's values.
func (s Secrets) Fields(object any, pointers []string) []string {
	if len(s) == 0 {
		return pointers
	}
	return slices.DeleteFunc(slices.Clone(pointers), func(p string) bool {
		_, ok := render.Lookup(object, p)
		return !ok && s.Reveals(p)
	})
}
