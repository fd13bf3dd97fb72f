package rego

import (
	"reflect"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

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
