package cel

import (
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// listing is [a, ?b].
type listing struct {
	elems    []node
	optional []bool
}

func (b *builder) list(e ast.Expr) (node, error) {
	l := e.AsList()
	elems, err := b.nodes(l.Elements())
	if err != nil {
		return nil, err
	}
	n := &listing{elems, make([]bool, len(elems))}
	for _, i := range l.OptionalIndices() {
		if int(i) >= len(elems) || i < 0 {
			return nil, errLeft
		}
		n.optional[i] = true
	}
	if constants(elems) {
		return constant{n.eval(&frame{})}, nil
	}
	return n, nil
}

// constants says whether the values of all nodes are known.
func constants(nodes []node) bool {
	return !slices.ContainsFunc(nodes, func(n node) bool {
		_, known := n.(constant)
		return !known
	})
}

func (n *listing) eval(f *frame) ref.Val {
	elems := make([]ref.Val, 0, len(n.elems))
	var unknown *types.Unknown
	for i, e := range n.elems {
		v := e.eval(f)
		if types.IsError(v) {
			return v
		}
		unknown, _ = types.MaybeMergeUnknowns(v, unknown)
		if n.optional[i] && !types.IsUnknown(v) {
			o, ok := v.(*types.Optional)
			if !ok {
				return types.NewErr("cannot initialize optional list element from non-optional value %v", v)
			}
			if !o.HasValue() {
				continue
			}
			v = o.GetValue()
		}
		elems = append(elems, v)
	}
	if unknown != nil {
		return unknown
	}
	return &List{elems}
}

// entries is {a: b, ?c: d}.
type entries struct {
	keys, vals []node
	optional   []bool
	adapter    types.Adapter
}

func (b *builder) mapping(e ast.Expr) (node, error) {
	n := &entries{adapter: b.env.CELTypeAdapter()}
	for _, x := range e.AsMap().Entries() {
		entry := x.AsMapEntry()
		key, err := b.node(entry.Key())
		if err != nil {
			return nil, err
		}
		val, err := b.node(entry.Value())
		if err != nil {
			return nil, err
		}
		n.keys, n.vals = append(n.keys, key), append(n.vals, val)
		n.optional = append(n.optional, entry.IsOptional())
	}
	if constants(n.keys) && constants(n.vals) {
		return constant{n.eval(&frame{})}, nil
	}
	return n, nil
}

func (n *entries) eval(f *frame) ref.Val {
	m := make(map[ref.Val]ref.Val, len(n.keys))
	var unknown *types.Unknown
	for i := range n.keys {
		key := n.keys[i].eval(f)
		if types.IsError(key) {
			return key
		}
		unknown, _ = types.MaybeMergeUnknowns(key, unknown)
		val := n.vals[i].eval(f)
		if types.IsError(val) {
			return val
		}
		unknown, _ = types.MaybeMergeUnknowns(val, unknown)
		if n.optional[i] && !types.IsUnknown(val) {
			o, ok := val.(*types.Optional)
			if !ok {
				return types.NewErr("cannot initialize optional entry '%v' from non-optional value %v", key, val)
			}
			if !o.HasValue() {
				delete(m, key)
				continue
			}
			val = o.GetValue()
		}
		m[key] = val
	}
	if unknown != nil {
		return unknown
	}
	return n.made(m)
}

// made is the map, in the order of its keys where they are strings, so that
// loops over it always go the same way.
func (n *entries) made(m map[ref.Val]ref.Val) ref.Val {
	keys, vals := make([]string, 0, len(m)), make([]ref.Val, len(m))
	for k := range m {
		s, ok := k.(types.String)
		if !ok {
			return types.NewRefValMap(n.adapter, m)
		}
		keys = append(keys, string(s))
	}
	slices.Sort(keys)
	for i, k := range keys {
		vals[i] = m[types.String(k)]
	}
	return MapOf(keys, vals)
}
