package explain

import (
	"errors"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
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
