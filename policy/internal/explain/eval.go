package explain

import (
	"strings"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// A node is one evaluation of a piece of code, whose value CEL gives. blame walks the
// tree of nodes by the methods kids, via, at and turns, which make what they return when
// it is first asked for.
type node struct {
	r     *run  // nil if the parts are known
	x     *code // nil for an element of a list or map
	val   ref.Val
	frame *frame // the frame in which x was evaluated

	opened, turned bool
	place          *place  // at: where val is read from, or would be were it there
	source         *node   // via: the node that supplied the value
	operands       []*node // kids
	loop           []turn  // turns of a comprehension
	items          []*node // elements of a list that the expression made

	gen  uint32 // of the collector that seen and hit belong to
	seen uint16
	hit  uint16
}

// A frame binds the variables of one turn of a comprehension.
type frame struct {
	up   *frame
	of   *code
	vars [2]*node
	exec interpreter.ExecutionFrame // gives the variables to CEL
}

// A turn is a comprehension's evaluation for one element.
type turn struct {
	frame      frame
	elem       *node // the element, or of a map the value
	test       *node
	body, last *node // results of a map; last is body2 or nil
	kept       bool
}

// A run is one explanation.
type run struct {
	*machine
	e     *Explainer
	roots map[string]*node
	vars  []*node
	input Input

	incomplete bool // elements were left out once the verdict was known
	gen        uint32
}

func failed(n *node) bool { return types.IsError(n.val) }

// ResolveName implements interpreter.Activation: it gives CEL the values of variables.
func (f *frame) ResolveName(name string) (any, bool) {
	for ; f != nil; f = f.up {
		for i, v := range f.vars {
			if v != nil && f.of.binds[i] == name {
				return v.val, true
			}
		}
	}
	return nil, false
}

// Parent implements interpreter.Activation.
func (*frame) Parent() interpreter.Activation { return nil }

// eval evaluates x.
func (r *run) eval(x *code, f *frame) *node {
	switch x.op {
	case opLocal:
		for f.of == nil || f.of.level != x.level {
			f = f.up
		}
		return f.vars[x.slot]
	case opConst:
		return &node{x: x, val: x.val}
	case opRoot:
		return r.alias(x, r.root(x.name))
	case opVariable:
		return r.alias(x, r.variable(x.slot))
	}
	f.exec.Activation = f
	return &node{r: r, x: x, frame: f, val: r.cells[x.index].Exec(&f.exec)}
}

func (r *run) alias(x *code, to *node) *node {
	return &node{x: x, val: to.val, place: to.at(), source: to}
}

// root returns the node of a root.
func (r *run) root(name string) *node {
	n := r.roots[name]
	if n != nil {
		return n
	}
	n = new(node)
	r.roots[name] = n
	raw, ok := r.input.Roots[name]
	switch {
	case ok:
		n.place = &place{root: newRoot(name, raw), index: -1}
		n.val = wrap(raw, n.place)
	case name == "variables":
		r.allVariables(n)
	default:
		n.val = types.NewErr("no such attribute: %s", name)
	}
	return n
}

// allVariables evaluates `variables` used as a map.
func (r *run) allVariables(n *node) {
	made := make(map[ref.Val]ref.Val)
	for i, name := range r.e.names {
		v := r.alias(&code{op: opVariable, slot: i, name: name}, r.variable(i))
		if failed(v) {
			n.val, n.source = v.val, v
			return
		}
		made[types.String(name)] = v.val
		n.operands = append(n.operands, &node{val: types.String(name)}, v)
	}
	n.x = &code{op: opMapLit}
	n.val = &placedMap{Mapper: types.NewRefValMap(types.DefaultTypeAdapter, made)}
}

func (r *run) variable(i int) *node {
	if r.vars[i] == nil {
		r.vars[i] = &node{val: types.WrapErr(errRecursion)}
		r.vars[i] = r.eval(r.e.programs[i+1].top, new(frame))
	}
	return r.vars[i]
}

func (n *node) kids() []*node { n.open(); return n.operands }
func (n *node) via() *node    { n.open(); return n.source }
func (n *node) at() *place    { n.open(); return n.place }

// add evaluates the next operand.
func (n *node) add(x *code) *node {
	k := n.r.eval(x, n.frame)
	n.operands = append(n.operands, k)
	return k
}

// follow gives n the place and parts of the node that supplied its value.
func (n *node) follow(to *node) { n.source, n.place = to, to.at() }

// open evaluates the operands of n as far as CEL does.
func (n *node) open() {
	if n.opened || n.r == nil {
		return
	}
	n.opened = true
	args := n.x.args
	n.operands = make([]*node, 0, len(args))
	switch n.x.op {
	case opAnd, opOr:
		for _, a := range args {
			if n.add(a).val == types.Bool(n.x.op == opOr) {
				return
			}
		}
	case opCond:
		if b, ok := n.add(args[0]).val.(types.Bool); ok {
			if !b {
				args = args[1:]
			}
			n.follow(n.add(args[1]))
		}
	case opOr2:
		n.orElse()
	case opBind:
		f := &frame{up: n.frame, of: n.x, vars: [2]*node{n.add(args[argInit])}}
		result := n.r.eval(args[argResult], f)
		n.operands = append(n.operands, result)
		n.follow(result)
	case opAll, opExists, opExistsOne, opMap, opFilter, opTransform:
		n.add(args[argRange])
	default:
		for _, a := range args {
			if failed(n.add(a)) && n.x.op != opIndex {
				return
			}
		}
		switch {
		case n.x.op == opSelect || n.x.op == opHas:
			n.find(n.operands[0], n.x.val)
		case n.x.op == opIndex:
			n.find(n.operands[0], n.operands[1].val)
		case n.x.op == opCall && n.x.name == "dyn":
			n.follow(n.operands[0])
		default:
			n.place = placeOf(n.val)
		}
	}
}

func (n *node) orElse() {
	first := n.add(n.x.args[0])
	o, ok := first.val.(*types.Optional)
	switch {
	case !ok:
	case o.HasValue() && n.x.name == "or":
		n.follow(first)
	case o.HasValue():
		n.place = first.at()
	default:
		second := n.add(n.x.args[1])
		if n.place = first.at(); n.place == nil {
			n.place = second.at()
		}
	}
}

// find locates the element or field that a key has in op's value.
func (n *node) find(op *node, key ref.Val) {
	val := op.val
	if types.IsError(key) {
		return
	}
	if o, ok := val.(*types.Optional); ok {
		if !o.HasValue() {
			if n.place = op.at(); n.x.op != opHas {
				n.source = op
			}
			return
		}
		val = o.GetValue()
	}
	switch c := val.(type) {
	case traits.Mapper:
		n.findKey(op, c, key)
	case traits.Lister:
		i, err := types.IndexOrError(key)
		if err != nil {
			return
		}
		if n.place = placeOf(c); i >= 0 {
			n.place = n.place.item(i)
		}
		if size, ok := c.Size().(types.Int); ok && i >= 0 && i < int(size) {
			n.follow(n.r.element(op, c, i))
		}
	}
}

func (n *node) findKey(op *node, m traits.Mapper, key ref.Val) {
	keys, values := n.r.entries(op.maker())
	for i := len(keys) - 1; i >= 0; i-- {
		if keys[i].val.Equal(key) == types.True {
			n.follow(values[i])
			return
		}
	}
	if m, ok := m.(*placedMap); ok {
		n.place = m.property(key)
	}
}

// element returns the node of a list's element.
func (r *run) element(list *node, l traits.Lister, i int) *node {
	if made := r.made(list, l); i < len(made) {
		return made[i]
	}
	n := &node{val: l.Get(types.Int(i))}
	if n.place = placeOf(n.val); n.place == nil {
		if n.place = placeOf(l).item(i); n.place == nil {
			n.operands = []*node{list}
		}
	}
	return n
}

// elements returns the nodes of all elements of a list.
func (r *run) elements(list *node, l traits.Lister) []*node {
	if made := r.made(list, l); made != nil {
		return made
	}
	size, _ := l.Size().(types.Int)
	items := make([]*node, 0, min(int(size), 1024))
	for i := range int(size) {
		if !r.step(1) {
			break
		}
		items = append(items, r.element(list, l, i))
	}
	return items
}

// maker follows n to the code that made its value, or the value in it if it is an
// optional.
func (n *node) maker() *node {
	for n.x != nil {
		switch {
		case n.via() != nil:
			n = n.via()
		case n.x.op == opOr2 && len(n.kids()) == 1,
			n.x.op == opCall && len(n.kids()) == 1 && (strings.HasPrefix(n.x.name, "optional.of") || n.x.name == "value"):
			n = n.kids()[0]
		case n.x.op == opOr2 && len(n.kids()) == 2:
			n = n.kids()[1]
		default:
			return n
		}
	}
	return n
}

// made returns the nodes of the elements of a list that the expression made, or nil.
func (r *run) made(list *node, l traits.Lister) []*node {
	if placeOf(l) != nil {
		return nil
	}
	n := list.maker()
	if n.x == nil || n.items != nil {
		return n.items
	}
	switch kids := n.kids(); n.x.op {
	case opList:
		for i, k := range kids {
			if n.x.expr.AsList().IsOptional(int32(i)) {
				k = r.content(k)
			}
			if k != nil {
				n.items = append(n.items, k)
			}
		}
	case opFilter, opMap:
		for _, t := range n.turns() {
			switch {
			case t.body != nil:
				n.items = append(n.items, t.body)
			case t.kept:
				n.items = append(n.items, t.frame.vars[slotFirst])
			}
		}
	case opCall:
		if n.x.name == operators.Add {
			n.items = r.sum(kids[0], kids[1], n.val)
		}
	}
	return n.items
}

// content returns the node of an optional's value, or nil if it has none.
func (r *run) content(k *node) *node {
	o, ok := k.val.(*types.Optional)
	if !ok || !o.HasValue() {
		return nil
	}
	return &node{x: k.x, val: o.GetValue(), place: k.at(), operands: []*node{k}}
}

// sum returns the elements of a + b. If these are sets or maps by key, they are merged,
// so that the origins of elements are found by equality.
func (r *run) sum(a, b *node, sum ref.Val) []*node {
	x, ok := a.val.(traits.Lister)
	y, ok2 := b.val.(traits.Lister)
	l, ok3 := sum.(traits.Lister)
	if !ok || !ok2 || !ok3 {
		return nil
	}
	first := r.elements(a, x)
	all := append(first[:len(first):len(first)], r.elements(b, y)...)
	if at := placeOf(x); at == nil || !at.root.typed() {
		return all
	}
	size, _ := l.Size().(types.Int)
	var items []*node
	for i := range int(size) {
		e := &node{val: l.Get(types.Int(i)), operands: []*node{a, b}}
		for _, k := range all {
			if r.step(1) && k.val.Equal(unwrap(e.val)) == types.True {
				e = k
				break
			}
		}
		items = append(items, e)
	}
	return items
}

// entries returns the nodes of the entries of a map that the expression made.
func (r *run) entries(n *node) (keys, values []*node) {
	if n.x == nil {
		return nil, nil
	}
	switch n.x.op {
	case opMapLit:
		kids := n.kids()
		for i := 0; i+1 < len(kids); i += 2 {
			k, v := kids[i], kids[i+1]
			if n.x.expr != nil && n.x.expr.AsMap().Entries()[i/2].AsMapEntry().IsOptional() {
				v = r.content(v)
			}
			if v != nil {
				keys, values = append(keys, k), append(values, v)
			}
		}
	case opTransform:
		for _, t := range n.turns() {
			if t.last != nil {
				keys, values = append(keys, t.body), append(values, t.last)
			} else if t.body != nil {
				if m, ok := t.body.val.(traits.Mapper); ok {
					ks, vs := r.mapNodes(t.body, m)
					keys, values = append(keys, ks...), append(values, vs...)
				}
			}
		}
	}
	return keys, values
}

// mapNodes returns the keys and values of a map, sorted, so that explanations are
// deterministic.
func (r *run) mapNodes(n *node, m traits.Mapper) (keys, values []*node) {
	if keys, values = r.entries(n.maker()); keys != nil {
		return keys, values
	}
	for it := m.Iterator(); it.HasNext() == types.True && r.step(1); {
		key := &node{val: it.Next()}
		value := new(node)
		if p, ok := m.(*placedMap); ok {
			value.place = p.property(key.val)
		}
		if value.val, _ = m.Find(key.val); value.val == nil {
			value.val = types.NullValue
		}
		key.place = value.place
		keys, values = append(keys, key), append(values, value)
	}
	return keys, values
}

// turns evaluates a comprehension, element by element: a quantifier also after the
// verdict is known, so that all elements at fault can be named. Elements after the
// verdict have only half of the budget.
func (n *node) turns() []turn {
	if n.turned || n.x == nil || n.x.op < opAll || n.x.op >= opBind {
		return n.loop
	}
	n.turned = true
	n.bindTurns(n.kids()[0])
	r, args, decided := n.r, n.x.args, false
	quantifier := n.x.op == opAll || n.x.op == opExists
	for i := range n.loop {
		t := &n.loop[i]
		if quantifier && decided && r.nodes > maxNodes/2 {
			n.loop, r.incomplete = n.loop[:i], true
			break
		}
		t.kept = true
		if args[argTest] != nil {
			if t.test = r.eval(args[argTest], &t.frame); r.stop != nil {
				n.loop = n.loop[:i]
				break
			}
			b, ok := t.test.val.(types.Bool)
			t.kept = bool(b)
			decided = decided || ok && t.kept == (n.x.op == opExists)
			if !ok && !quantifier {
				n.loop = n.loop[:i+1]
				break
			}
		}
		if t.kept && args[argBody] != nil {
			t.body = r.eval(args[argBody], &t.frame)
			if args[argBody2] != nil && !failed(t.body) {
				t.last = r.eval(args[argBody2], &t.frame)
			}
			if failed(t.body) || t.last != nil && failed(t.last) {
				n.loop = n.loop[:i+1]
				break
			}
		}
	}
	return n.loop
}

// bindTurns binds the variables of a comprehension.
func (n *node) bindTurns(rng *node) {
	bind := func(elem *node, vars [2]*node) {
		n.loop = append(n.loop, turn{elem: elem, frame: frame{up: n.frame, of: n.x, vars: vars}})
	}
	two := n.x.binds[slotSecond] != ""
	switch c := rng.val.(type) {
	case traits.Lister:
		items := n.r.elements(rng, c)
		n.loop = make([]turn, 0, len(items))
		for i, item := range items {
			vars := [2]*node{item}
			if two {
				vars = [2]*node{{val: types.Int(i), place: item.at(), operands: item.kids()}, item}
			}
			bind(item, vars)
		}
	case traits.Mapper:
		keys, values := n.r.mapNodes(rng, c)
		for i, key := range keys {
			vars := [2]*node{key}
			if two {
				vars[slotSecond] = values[i]
			}
			bind(values[i], vars)
		}
	}
}
