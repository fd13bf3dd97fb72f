package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// A shape holds the arguments of the macro that a comprehension was expanded
// from.
type shape struct {
	op                op
	test, body, body2 ast.Expr
}

func (c *compiler) comprehension(x *code, e ast.ComprehensionExpr) error {
	s := recognise(e)
	x.op, x.vars, x.level = s.op, 1, len(c.scopes)
	x.args = make([]*code, argCount)
	if e.HasIterVar2() {
		x.vars = 2
	}
	if err := c.compileArg(x, argRange, e.IterRange()); err != nil {
		return err
	}
	switch s.op {
	case opUnknown:
		return errMacro
	case opBind:
		return c.bind(x, e)
	}
	c.scopes = append(c.scopes, scope{e.IterVar(), e.IterVar2()})
	defer c.leaveScope()
	for i, part := range []ast.Expr{argTest: s.test, argBody: s.body, argBody2: s.body2} {
		if err := c.compileArg(x, i, part); err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) leaveScope() { c.scopes = c.scopes[:len(c.scopes)-1] }

func (c *compiler) compileArg(x *code, i int, e ast.Expr) (err error) {
	if e != nil {
		x.args[i], err = c.compile(e)
	}
	return err
}

var errMacro = errors.New("expression has a macro that can't be explained")

// bind compiles cel.bind and the macros that are made of it.
func (c *compiler) bind(x *code, e ast.ComprehensionExpr) error {
	if err := c.compileArg(x, argInit, e.AccuInit()); err != nil {
		return err
	}
	c.scopes = append(c.scopes, scope{e.AccuVar()})
	defer c.leaveScope()
	return c.compileArg(x, argResult, e.Result())
}

func recognise(e ast.ComprehensionExpr) shape {
	if isList(e.IterRange(), 0) && isBool(e.LoopCondition(), false) {
		return shape{op: opBind}
	}
	accu := e.AccuVar()
	step := e.LoopStep()
	init := e.AccuInit()
	switch {
	case isBool(init, true) && isIdent(e.Result(), accu) && stops(e, accu, false):
		if args := call(step, operators.LogicalAnd, 2); args != nil && isIdent(args[0], accu) {
			return shape{op: opAll, test: args[1]}
		}
	case isBool(init, false) && isIdent(e.Result(), accu) && stops(e, accu, true):
		if args := call(step, operators.LogicalOr, 2); args != nil && isIdent(args[0], accu) {
			return shape{op: opExists, test: args[1]}
		}
	case !isBool(e.LoopCondition(), true):
	case isInt(init, 0):
		if test := existsOne(e, accu); test != nil {
			return shape{op: opExistsOne, test: test}
		}
	case isList(init, 0) && isIdent(e.Result(), accu):
		return listShape(e, accu)
	case init.Kind() == ast.MapKind && init.AsMap().Size() == 0 && isIdent(e.Result(), accu):
		return mapShape(e, accu)
	}
	return shape{op: opUnknown}
}

// stops reports whether the loop ends once the accumulator is at: true for
// exists, false for all.
func stops(e ast.ComprehensionExpr, accu string, at bool) bool {
	args := call(e.LoopCondition(), operators.NotStrictlyFalse, 1)
	if args == nil {
		return false
	}
	if !at {
		return isIdent(args[0], accu)
	}
	not := call(args[0], operators.LogicalNot, 1)
	return not != nil && isIdent(not[0], accu)
}

func existsOne(e ast.ComprehensionExpr, accu string) ast.Expr {
	cond := call(e.LoopStep(), operators.Conditional, 3)
	result := call(e.Result(), operators.Equals, 2)
	if cond == nil || result == nil || !isIdent(cond[2], accu) || !isIdent(result[0], accu) || !isInt(result[1], 1) {
		return nil
	}
	if add := call(cond[1], operators.Add, 2); add != nil && isIdent(add[0], accu) && isInt(add[1], 1) {
		return cond[0]
	}
	return nil
}

// listShape returns the shape of map, filter and transformList.
func listShape(e ast.ComprehensionExpr, accu string) shape {
	test, step := guarded(e.LoopStep(), accu)
	add := call(step, operators.Add, 2)
	if add == nil || !isIdent(add[0], accu) || !isList(add[1], 1) {
		return shape{op: opUnknown}
	}
	body := add[1].AsList().Elements()[0]
	if test != nil && !e.HasIterVar2() && isIdent(body, e.IterVar()) {
		return shape{op: opFilter, test: test}
	}
	return shape{op: opMap, test: test, body: body}
}

// mapShape returns the shape of transformMap and transformMapEntry.
func mapShape(e ast.ComprehensionExpr, accu string) shape {
	const insert = "cel.@mapInsert"
	test, step := guarded(e.LoopStep(), accu)
	if args := call(step, insert, 3); args != nil && isIdent(args[0], accu) {
		return shape{op: opTransform, test: test, body: args[1], body2: args[2]}
	}
	if args := call(step, insert, 2); args != nil && isIdent(args[0], accu) {
		return shape{op: opTransform, test: test, body: args[1]}
	}
	return shape{op: opUnknown}
}

// guarded splits `test ? step : accu`.
func guarded(step ast.Expr, accu string) (test, then ast.Expr) {
	if args := call(step, operators.Conditional, 3); args != nil && isIdent(args[2], accu) {
		return args[0], args[1]
	}
	return nil, step
}

func call(e ast.Expr, name string, args int) []ast.Expr {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != name || len(e.AsCall().Args()) != args {
		return nil
	}
	return e.AsCall().Args()
}

func isIdent(e ast.Expr, name string) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == name }

func isList(e ast.Expr, size int) bool {
	return e.Kind() == ast.ListKind && e.AsList().Size() == size && len(e.AsList().OptionalIndices()) == 0
}

func isBool(e ast.Expr, b bool) bool {
	return e.Kind() == ast.LiteralKind && e.AsLiteral() == types.Bool(b)
}

func isInt(e ast.Expr, i int64) bool {
	return e.Kind() == ast.LiteralKind && e.AsLiteral() == types.Int(i)
}

func (r *run) comprehension(n *node, f *frame) {
	if n.x.op == opBind {
		init := r.eval(n.x.args[argInit], f)
		n.kids = []*node{init}
		inner := &frame{up: f, vars: [2]*node{init}}
		result := r.eval(n.x.args[argResult], inner)
		n.kids = append(n.kids, result)
		n.alias(result)
		return
	}
	rng := r.eval(n.x.args[argRange], f)
	n.kids = []*node{rng}
	if failed(rng) {
		n.val = rng.val
		return
	}
	turns, err := r.turns(n, rng, f)
	if err != nil {
		n.val = err
		return
	}
	switch n.x.op {
	case opAll, opExists:
		r.quantify(n, turns, n.x.op == opExists)
	case opExistsOne:
		r.countOne(n, turns)
	default:
		r.transform(n, turns)
	}
}

// turns binds the variables of a comprehension, element by element.
func (r *run) turns(n, rng *node, f *frame) ([]turn, ref.Val) {
	var turns []turn
	switch c := rng.val.(type) {
	case traits.Lister:
		items := r.elements(rng, c)
		turns = make([]turn, len(items))
		for i, item := range items {
			t := &turns[i]
			t.elem, t.frame = item, frame{up: f, vars: [2]*node{item}}
			if n.x.vars == 2 {
				index := new(node)
				index.val, index.at, index.kids = types.Int(i), item.at, item.kids
				t.frame.vars = [2]*node{index, item}
			}
		}
	case traits.Mapper:
		turns = r.mapTurns(n, c, f)
	default:
		return nil, types.NewErr("got '%T', expected iterable type", rng.val)
	}
	if r.stop != nil {
		return nil, types.WrapErr(r.stop)
	}
	return turns, nil
}

// mapTurns sorts the keys, so that explanations are deterministic.
func (r *run) mapTurns(n *node, m traits.Mapper, f *frame) []turn {
	keys, values := r.mapNodes(m)
	turns := make([]turn, len(keys))
	for i, key := range keys {
		turns[i] = turn{elem: values[i], frame: frame{up: f, vars: [2]*node{key}}}
		if n.x.vars == 2 {
			turns[i].frame.vars[slotSecond] = values[i]
		}
	}
	return turns
}

func (r *run) mapNodes(m traits.Mapper) (keys, values []*node) {
	if b, ok := m.(*builtMap); ok {
		return b.keys, b.values
	}
	var found []ref.Val
	for it := m.Iterator(); it.HasNext() == types.True && r.step(); {
		found = append(found, it.Next())
	}
	slices.SortFunc(found, func(a, b ref.Val) int {
		return strings.Compare(fmt.Sprint(a.Value()), fmt.Sprint(b.Value()))
	})
	for _, k := range found {
		key, value := new(node), new(node)
		value.val, _ = r.findKey(value, m, k)
		if value.val == nil {
			value.val = types.NullValue
		}
		key.val, key.at = k, value.at
		keys, values = append(keys, key), append(values, value)
	}
	return keys, values
}

// quantify evaluates the predicate for every element, also after the verdict is
// known, so that all elements at fault can be named. Elements after the
// verdict have only half of the budget.
func (r *run) quantify(n *node, turns []turn, absorbing bool) {
	n.val = types.Bool(!absorbing)
	decided := false
	var problem ref.Val
	for i := range turns {
		if decided && r.nodes > maxNodes/2 {
			turns, r.incomplete = turns[:i], true
			break
		}
		t := &turns[i]
		t.test = r.eval(n.x.args[argTest], &t.frame)
		b, ok := t.test.val.(types.Bool)
		switch {
		case ok && bool(b) == absorbing:
			n.val, decided = b, true
		case !ok && problem == nil:
			problem = t.test.val
		}
	}
	n.turns = turns
	if !decided && problem != nil {
		n.val = types.MaybeNoSuchOverloadErr(problem)
	}
}

func (r *run) countOne(n *node, turns []turn) {
	count := 0
	n.turns = turns
	for i := range turns {
		t := &turns[i]
		t.test = r.eval(n.x.args[argTest], &t.frame)
		b, ok := t.test.val.(types.Bool)
		if !ok {
			n.val, n.turns = types.MaybeNoSuchOverloadErr(t.test.val), turns[:i+1]
			return
		}
		if b {
			count++
		}
	}
	n.val = types.Bool(count == 1)
}

// transform evaluates filter, map and similar macros.
func (r *run) transform(n *node, turns []turn) {
	var keys, values []*node
	n.turns = turns
	for i := range turns {
		t := &turns[i]
		if err := r.transformOne(n.x, t); err != nil {
			n.val, n.turns = err, turns[:i+1]
			return
		}
		switch {
		case !t.kept:
		case n.x.op == opFilter:
			values = append(values, t.frame.vars[slotFirst])
		case n.x.op == opMap:
			values = append(values, t.body)
		case t.last != nil:
			keys, values = append(keys, t.body), append(values, t.last)
		default:
			ks, vs := r.entriesOf(t.body)
			keys, values = append(keys, ks...), append(values, vs...)
		}
	}
	if n.x.op != opTransform {
		n.val = newBuiltList(values)
		return
	}
	n.val = insertAll(keys, values)
}

// insertAll builds the map of a transformMap. It fails if keys repeat.
func insertAll(keys, values []*node) ref.Val {
	seen := make(map[ref.Val]bool, len(keys))
	for _, k := range keys {
		if !validKey(k.val) {
			return types.NewErr("unsupported key type: %v", k.val.Type())
		}
		if seen[k.val] {
			return types.NewErr("insert failed: key %v already exists", k.val)
		}
		seen[k.val] = true
	}
	return newBuiltMap(keys, values)
}

func (r *run) transformOne(x *code, t *turn) ref.Val {
	t.kept = true
	if test := x.args[argTest]; test != nil {
		t.test = r.eval(test, &t.frame)
		b, ok := t.test.val.(types.Bool)
		if !ok {
			return types.MaybeNoSuchOverloadErr(t.test.val)
		}
		t.kept = bool(b)
	}
	if !t.kept || x.op == opFilter {
		return nil
	}
	t.body = r.eval(x.args[argBody], &t.frame)
	if failed(t.body) {
		return t.body.val
	}
	if last := x.args[argBody2]; last != nil {
		if t.last = r.eval(last, &t.frame); failed(t.last) {
			return t.last.val
		}
	}
	return nil
}

// entriesOf returns the entries of a map as nodes.
func (r *run) entriesOf(n *node) (keys, values []*node) {
	if m, ok := n.val.(traits.Mapper); ok {
		return r.mapNodes(m)
	}
	return nil, nil
}
