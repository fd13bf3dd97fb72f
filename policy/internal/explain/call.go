package explain

import (
	"regexp"
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// call applies a function, by the implementation that the environment's
// planner would have chosen.
func (r *run) call(n *node) {
	if n.x.name == operators.Add && r.concat(n) {
		return
	}
	args := make([]ref.Val, len(n.kids))
	for i, k := range n.kids {
		args[i] = k.val
	}
	if !r.affordable(n.x.name, args) {
		r.stop = errWeight
		r.fail(n, r.stop)
		return
	}
	n.val = invoke(n.x, args)
	if s, ok := n.val.(types.String); ok {
		r.weight += len(s)
	}
	n.at = placeOf(n.val)
	if n.x.name == "dyn" && len(n.kids) == 1 {
		n.alias(n.kids[0])
	}
}

// compilePattern compiles the regular expression of matches if it is a constant.
func (c *code) compilePattern() {
	if c.name != "matches" || len(c.args) != 2 || c.args[1].op != opConst {
		return
	}
	if pattern, ok := c.args[1].val.(types.String); ok {
		c.pattern, _ = regexp.Compile(string(pattern)) // if it is broken, calls give the error
	}
}

func invoke(x *code, args []ref.Val) ref.Val {
	if x.pattern != nil {
		if s, ok := args[0].(types.String); ok {
			return types.Bool(x.pattern.MatchString(string(s)))
		}
	}
	fn := x.fn
	if fn != nil && (fn.OperandTrait == 0 || len(args) > 0 && (types.IsError(args[0]) || args[0].Type().HasTrait(fn.OperandTrait))) {
		switch {
		case len(args) == 1 && fn.Unary != nil:
			return fn.Unary(args[0])
		case len(args) == 2 && fn.Binary != nil:
			return fn.Binary(args[0], args[1])
		case fn.Function != nil:
			return fn.Function(args...)
		}
	}
	if len(args) > 0 && args[0].Type().HasTrait(traits.ReceiverType) {
		if receiver, ok := args[0].(traits.Receiver); ok {
			return receiver.Receive(x.name, x.overload, args[1:])
		}
	}
	return types.NewErr("no such overload: %s", x.name)
}

// maxText is the longest pattern or number text that is evaluated, because no
// cost limit covers these functions.
const maxText = 64 << 10

// affordable reports whether a function may be called. Explanations evaluate quantifiers
// for every element, so CEL's cost limit does not bound them.
func (r *run) affordable(name string, args []ref.Val) bool {
	var sizes [4]int
	for i, a := range args {
		if s, ok := a.(types.String); ok && i < len(sizes) {
			sizes[i] = len(s)
		}
	}
	need := sizes[0] + sizes[1] + sizes[2] + sizes[3]
	switch name {
	case "matches", "find", "findAll":
		if sizes[0] > maxText || sizes[1] > maxText {
			return false
		}
	case "quantity", "isQuantity":
		if s, ok := args[0].(types.String); ok && !shortNumber(string(s)) {
			return false
		}
	case "replace":
		if len(args) > 2 {
			need = sizes[0] + (sizes[0]/max(sizes[1], 1)+1)*sizes[2]
		}
	case "join":
		if l, ok := args[0].(traits.Lister); ok {
			if count, ok := l.Size().(types.Int); ok {
				need += int(count) * (sizes[1] + 1)
			}
		}
	}
	return r.weight+need <= maxWeight
}

// shortNumber keeps away quantities such as 1e999999999, which take minutes to
// parse.
func shortNumber(s string) bool {
	if len(s) > 256 {
		return false
	}
	_, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	digits := strings.TrimLeft(exponent, "+-0")
	return len(digits) <= 4 || strings.Trim(digits, "0123456789") != ""
}

// concat concatenates two lists and keeps the origins of their elements.
func (r *run) concat(n *node) bool {
	a, ok := n.kids[0].val.(traits.Lister)
	if !ok {
		return false
	}
	b, ok := n.kids[1].val.(traits.Lister)
	if !ok {
		return false
	}
	if l, ok := a.(*placedList); ok && l.at.root.typed() {
		n.val = r.merged(n, l.Add(b))
		return true
	}
	items := r.elements(n.kids[0], a)
	n.val = newBuiltList(append(items[:len(items):len(items)], r.elements(n.kids[1], b)...))
	return true
}

// merged concatenates lists that are sets or maps by key. Origins of elements
// are found by equality.
func (r *run) merged(n *node, sum ref.Val) ref.Val {
	l, ok := sum.(traits.Lister)
	if !ok {
		return sum
	}
	var items, known []*node
	for _, kid := range n.kids {
		known = append(known, r.elements(kid, kid.val.(traits.Lister))...)
	}
	for _, e := range r.elements(n, l) {
		for _, k := range known {
			if r.step() && k.val.Equal(unwrap(e.val)) == types.True {
				e = k
				break
			}
		}
		items = append(items, e)
	}
	return &builtList{Lister: l, items: items}
}

func (r *run) elements(list *node, l traits.Lister) []*node {
	if b, ok := l.(*builtList); ok {
		return b.items
	}
	size, _ := l.Size().(types.Int)
	items := make([]*node, 0, min(int(size), 1024))
	for i := range int(size) {
		if !r.step() {
			break
		}
		items = append(items, r.element(list, l, i))
	}
	return items
}

// literal builds a list, map or object.
func (r *run) literal(n *node, f *frame) {
	n.kids = make([]*node, 0, len(n.x.args))
	for _, a := range n.x.args {
		k := r.eval(a, f)
		n.kids = append(n.kids, k)
		if failed(k) {
			n.val = k.val
			return
		}
	}
	if n.x.op == opList {
		r.listLiteral(n)
		return
	}
	keys, values, err := r.entries(n)
	switch {
	case err != nil:
		n.val = err
	case n.x.op == opMapLit:
		n.val = newBuiltMap(keys, values)
	default:
		fields := make(map[string]ref.Val, len(keys))
		for i, k := range keys {
			fields[string(k.val.(types.String))] = values[i].val
		}
		n.val = r.e.provider.NewValue(n.x.name, fields)
	}
}

func (r *run) listLiteral(n *node) {
	items := make([]*node, 0, len(n.kids))
	for i, k := range n.kids {
		if n.x.optional[i] {
			var err ref.Val
			if k, err = r.optionalValue(k); err != nil {
				n.val = err
				return
			}
		}
		if k != nil {
			items = append(items, k)
		}
	}
	n.val = newBuiltList(items)
}

func (r *run) entries(n *node) (keys, values []*node, err ref.Val) {
	for i := 0; i < len(n.kids); i += 2 {
		k, v := n.kids[i], n.kids[i+1]
		if n.x.optional[i/2] {
			if v, err = r.optionalValue(v); err != nil {
				return nil, nil, err
			}
		}
		if !validKey(k.val) {
			return nil, nil, types.NewErr("unsupported key type: %v", k.val.Type())
		}
		if v != nil {
			keys, values = append(keys, k), append(values, v)
		}
	}
	return keys, values, nil
}

func validKey(v ref.Val) bool {
	switch v.(type) {
	case types.String, types.Int, types.Uint, types.Bool, types.Double:
		return true
	}
	return false
}

// optionalValue returns the node of an optional's value, or nil if it has none.
func (r *run) optionalValue(k *node) (*node, ref.Val) {
	o, ok := k.val.(*types.Optional)
	switch {
	case !ok:
		return nil, types.NewErr("cannot initialize optional entry from non-optional value %v", k.val)
	case !o.HasValue():
		return nil, nil
	}
	v := &node{x: k.x}
	v.val, v.at, v.kids = o.GetValue(), k.at, []*node{k}
	return v, nil
}
