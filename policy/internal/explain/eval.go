package explain

import (
	"context"
	"errors"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// A node is one evaluation of a piece of code: its value, the value's place,
// and the nodes from which it was computed. blame walks the tree of nodes.
type node struct {
	x     *code // nil for an element of a list or map
	val   ref.Val
	at    *place // where val is read from, or would be were it there
	via   *node  // the node that supplied the value
	kids  []*node
	turns []turn // comprehensions
	frame *frame // the frame in which x was evaluated, if blame needs it

	gen  uint32 // of the collector that seen and hit belong to
	seen uint16
	hit  uint16
}

// A frame binds the variables of one turn of a comprehension.
type frame struct {
	up   *frame
	vars [2]*node
}

// A turn is a comprehension's evaluation for one element.
type turn struct {
	frame      frame
	elem       *node // the element, or of a map the value
	test       *node
	body, last *node // results of a map; last is body2 or nil
	kept       bool
}

// A run is one evaluation of an expression with its trace.
type run struct {
	e     *Explainer
	ctx   context.Context
	roots map[string]*node
	vars  []*node
	input Input

	nodes  int // evaluated so far
	weight int // bytes of strings made so far
	stop   error

	incomplete bool // elements were left out once the verdict was known
	gen        uint32
}

// Limits of one evaluation of hostile expressions. They are far above what the
// API server's cost limits allow.
const (
	maxNodes  = 200_000
	maxWeight = 16 << 20
	maxParts  = 1 << 18
)

var (
	errNodes     = errors.New("expression takes too many steps to explain")
	errWeight    = errors.New("expression makes too much text to be explained")
	errParts     = errors.New("expression makes a value of too many parts to be explained")
	errRecursion = errors.New("variables refer to each other in a circle")
)

// step counts one evaluation and reports whether there may be more.
func (r *run) step() bool {
	if r.stop != nil {
		return false
	}
	if r.nodes++; r.nodes > maxNodes {
		r.stop = errNodes
	} else if r.nodes%512 == 0 {
		r.stop = r.ctx.Err()
	}
	return r.stop == nil
}

func (r *run) fail(n *node, err error) *node {
	n.val = types.WrapErr(err)
	return n
}

func failed(n *node) bool { return types.IsError(n.val) }

func (r *run) eval(x *code, f *frame) *node {
	if x.op == opLocal {
		for range x.depth {
			f = f.up
		}
		return f.vars[x.slot]
	}
	n := &node{x: x}
	if !r.step() {
		return r.fail(n, r.stop)
	}
	switch x.op {
	case opConst:
		n.val = x.val
	case opRoot:
		r.root(n)
	case opVariable:
		r.variable(n)
	case opSelect, opHas:
		n.kids = []*node{r.eval(x.args[0], f)}
		r.qualify(n, n.kids[0], x.val, false)
	case opIndex:
		r.index(n, f)
	case opAnd, opOr:
		n.frame = f
		r.logic(n, x.op == opOr)
	case opCond:
		r.cond(n, f)
	case opOr2:
		r.orElse(n, f)
	case opList, opMapLit, opStruct:
		r.literal(n, f)
	case opNot, opEqual, opNotEqual, opCall:
		r.operands(n, f)
	default:
		n.frame = f
		r.comprehension(n, f)
	}
	if partsOf(n.val) > maxParts {
		r.stop = errParts
		return r.fail(n, r.stop)
	}
	return n
}

func (r *run) operands(n *node, f *frame) {
	n.kids = make([]*node, 0, len(n.x.args))
	for _, a := range n.x.args {
		k := r.eval(a, f)
		n.kids = append(n.kids, k)
		if failed(k) && !(n.x.fn != nil && n.x.fn.NonStrict) {
			n.val = k.val
			return
		}
	}
	switch n.x.op {
	case opNot:
		n.val = negate(n.kids[0].val)
	case opEqual:
		n.val = types.Equal(n.kids[0].val, n.kids[1].val)
	case opNotEqual:
		n.val = types.Bool(types.Equal(n.kids[0].val, n.kids[1].val) != types.True)
	default:
		r.call(n)
	}
}

func negate(v ref.Val) ref.Val {
	b, ok := v.(types.Bool)
	if !ok {
		return types.MaybeNoSuchOverloadErr(v)
	}
	return !b
}

// alias gives n the value, place and parts of another node.
func (n *node) alias(to *node) {
	n.via, n.val, n.at = to, to.val, to.at
}

func (r *run) root(n *node) {
	if known := r.roots[n.x.name]; known != nil {
		n.alias(known)
		return
	}
	raw, ok := r.input.Roots[n.x.name]
	if !ok {
		if n.x.name == "variables" {
			r.allVariables(n)
			return
		}
		n.val = types.NewErr("no such attribute: %s", n.x.name)
		return
	}
	at := &place{root: newRoot(n.x.name, raw), index: -1}
	n.val, n.at = wrap(raw, at), at
	r.roots[n.x.name] = n
}

func (r *run) variable(n *node) {
	i := n.x.slot
	if r.vars[i] == nil {
		busy := new(node)
		r.vars[i] = r.fail(busy, errRecursion)
		r.vars[i] = r.eval(r.e.variables[i], nil)
	}
	n.alias(r.vars[i])
}

// allVariables evaluates `variables` used as a map.
func (r *run) allVariables(n *node) {
	var keys, values []*node
	for i, name := range r.e.names {
		k, v := new(node), new(node)
		k.val = types.String(name)
		v.x = &code{op: opVariable, slot: i, name: name}
		r.variable(v)
		if failed(v) {
			n.alias(v)
			return
		}
		keys, values = append(keys, k), append(values, v)
	}
	n.val, n.kids = newBuiltMap(keys, values), values
}

// logic evaluates && and ||. The absorbing value wins over errors, and operands
// after it are not evaluated.
func (r *run) logic(n *node, absorbing bool) {
	var problem ref.Val
	n.kids = make([]*node, 0, len(n.x.args))
	for _, a := range n.x.args {
		k := r.eval(a, n.frame)
		n.kids = append(n.kids, k)
		b, ok := k.val.(types.Bool)
		if ok && bool(b) == absorbing {
			n.val = b
			return
		}
		if !ok && (problem == nil || failed(k) && !types.IsError(problem)) {
			problem = k.val
		}
	}
	n.val = types.Bool(!absorbing)
	if problem != nil {
		n.val = types.MaybeNoSuchOverloadErr(problem)
	}
}

func (r *run) cond(n *node, f *frame) {
	test := r.eval(n.x.args[0], f)
	n.kids = []*node{test}
	b, ok := test.val.(types.Bool)
	if !ok {
		n.val = types.MaybeNoSuchOverloadErr(test.val)
		return
	}
	taken := n.x.args[1]
	if !b {
		taken = n.x.args[2]
	}
	k := r.eval(taken, f)
	n.kids = append(n.kids, k)
	n.alias(k)
}

// orElse evaluates optional.or and optional.orValue, which evaluate the
// alternative only if needed.
func (r *run) orElse(n *node, f *frame) {
	first := r.eval(n.x.args[0], f)
	n.kids = []*node{first}
	o, ok := first.val.(*types.Optional)
	switch {
	case failed(first):
		n.val = first.val
	case !ok:
		n.val = types.MaybeNoSuchOverloadErr(first.val)
	case o.HasValue() && n.x.name == "or":
		n.alias(first)
	case o.HasValue():
		n.val, n.at = o.GetValue(), first.at
	default:
		second := r.eval(n.x.args[1], f)
		n.kids = append(n.kids, second)
		n.val = second.val
		if n.at = first.at; n.at == nil {
			n.at = second.at
		}
	}
}

func (r *run) index(n *node, f *frame) {
	op, key := r.eval(n.x.args[0], f), r.eval(n.x.args[1], f)
	n.kids = []*node{op, key}
	switch {
	case failed(op):
		n.val = op.val
	case failed(key):
		n.val = key.val
	default:
		r.qualify(n, op, key.val, n.x.optional[0])
	}
}

// qualify reads the key of op's value into n, as CEL's attributes do. After an
// optional, missing fields are optional.none().
func (r *run) qualify(n, op *node, key ref.Val, optional bool) {
	val := op.val
	if types.IsError(val) {
		n.val = val
		return
	}
	test := n.x.op == opHas
	if o, ok := val.(*types.Optional); ok {
		if !o.HasValue() {
			n.val, n.at, n.via = val, op.at, op
			if test {
				n.val, n.via = types.False, nil
			}
			return
		}
		optional, val = true, o.GetValue()
	}
	v, err := r.find(n, op, val, key)
	switch {
	case err != nil:
		n.val = err
	case test:
		n.val = types.Bool(v != nil)
	case v == nil && optional:
		n.val = types.OptionalNone
	case v == nil:
		n.val = types.NewErr("no such key: %v", key)
	case optional:
		n.val = types.OptionalOf(v)
	default:
		n.val = v
	}
}

// find looks up key in val and sets n's place. It returns nil if the key is
// missing.
func (r *run) find(n, op *node, val, key ref.Val) (ref.Val, ref.Val) {
	switch c := val.(type) {
	case traits.Mapper:
		return r.findKey(n, c, key)
	case traits.Lister:
		i, err := types.IndexOrError(key)
		if err != nil {
			return nil, types.WrapErr(err)
		}
		if n.at = placeOf(c); i >= 0 {
			n.at = n.at.item(i)
		}
		if size, ok := c.Size().(types.Int); !ok || i < 0 || i >= int(size) {
			return nil, nil
		}
		elem := r.element(op, c, i)
		n.via, n.at = elem, elem.at
		return elem.val, nil
	case traits.Indexer:
		v := c.Get(key)
		if types.IsError(v) {
			return nil, v
		}
		return v, nil
	}
	return nil, nil
}

func (r *run) findKey(n *node, m traits.Mapper, key ref.Val) (ref.Val, ref.Val) {
	switch m := m.(type) {
	case *builtMap:
		if n.via = m.entry(key); n.via != nil {
			n.at = n.via.at
		}
	case *placedMap:
		n.at = m.property(key)
	}
	v, found := m.Find(key)
	if v != nil && types.IsError(v) {
		return nil, v
	}
	if !found {
		return nil, nil
	}
	return v, nil
}

// element returns the node of a list's element.
func (r *run) element(list *node, l traits.Lister, i int) *node {
	if l, ok := l.(*builtList); ok {
		return l.items[i]
	}
	n := new(node)
	n.val = l.Get(types.Int(i))
	if n.at = placeOf(n.val); n.at == nil {
		if n.at = placeOf(l).item(i); n.at == nil {
			n.kids = []*node{list}
		}
	}
	return n
}
