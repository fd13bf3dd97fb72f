package rego

import (
	"reflect"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// An Open is an unknown place of an input. Reading it decides nothing:
// Answer.Unknown tells what the question needs.
type Open struct {
	Path  []string // below input
	Needs string   // in the words of Answer.Unknown
}

// watched is the input with something at each open place that tells the bound
// when it is read, however the evaluation came there. OPA makes the parts of a
// lazy object when they are asked for, which is what tells.
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
		watch(tree, o.Path, untold{b, o.Needs})
	}
	return ast.NewTerm(ast.LazyObject(tree))
}

// watch puts what tells at a path, where its parents are objects.
func watch(tree map[string]any, path []string, u untold) {
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

// parts are the fields of an object whose keys are texts.
func parts(o ast.Object) map[string]any {
	out := make(map[string]any, o.Len()+1)
	o.Foreach(func(k, v *ast.Term) { out[textOf(k)] = v.Value })
	return out
}

// untold stands at an open place.
type untold struct {
	bound *bound
	needs string
}

// MarshalJSON converts the value for OPA and records that it was read.
func (u untold) MarshalJSON() ([]byte, error) {
	u.bound.ask(u.needs)
	u.bound.opened = true
	return []byte("{}"), nil
}

// A discreet is a cache of values that does not look into what is watched: it
// would read it all, to know it again.
type discreet struct{ topdown.VirtualCache }

func (d discreet) Get(ref ast.Ref) (*ast.Term, bool) {
	if holdsLazy(ref) {
		return nil, false
	}
	return d.VirtualCache.Get(ref)
}

func (d discreet) Put(ref ast.Ref, value *ast.Term) {
	if !holdsLazy(ref) {
		d.VirtualCache.Put(ref, value)
	}
}

var lazyType = reflect.TypeOf(ast.LazyObject(nil))

func holdsLazy(ref ast.Ref) bool {
	return slices.ContainsFunc(ref, func(t *ast.Term) bool { return reflect.TypeOf(t.Value) == lazyType })
}
