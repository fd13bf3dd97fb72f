package kyverno

import (
	"strings"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// Kyverno lets x.orValue(y) be x where x is not optional; elsewhere that is an
// error when it is evaluated, or checked.

// lenient is env with the orValue of Kyverno, made of what CEL has:
// type(x) == optional_type ? x.orValue(y) : x, with x evaluated once.
func lenient(env *celgo.Env) (*celgo.Env, error) {
	return env.Extend(celgo.Macros(celgo.ReceiverMacro("orValue", 1, expandOrValue)))
}

const orValueVar = "@optional"

func expandOrValue(f celgo.MacroExprFactory, target celast.Expr, args []celast.Expr) (celast.Expr, *celgo.Error) {
	x := func() celast.Expr { return f.NewIdent(orValueVar) }
	isOptional := f.NewCall(operators.Equals, f.NewCall("type", x()), f.NewIdent("optional_type"))
	value := f.NewMemberCall("orValue", f.NewCall("dyn", x()), args[0])
	choice := f.NewCall(operators.Conditional, isOptional, value, f.NewCall("dyn", x()))
	return f.NewComprehension(f.NewList(), "#unused", orValueVar, target, f.NewLiteral(types.False), x(), choice), nil
}

// compileOrValue compiles an expression, with the orValue of Kyverno where it
// is called on what may be no optional.
func (c *celCompiler) compileOrValue(source string, want ...*celgo.Type) (*celgo.Ast, error) {
	ast, err := cel.Compile(c.env, source, want...)
	if !strings.Contains(source, "orValue") || err == nil && !loose(ast) {
		return ast, err
	}
	if env, broken := lenient(c.env); broken == nil {
		if other, broken := cel.Compile(env, source, want...); broken == nil {
			return other, nil
		}
	}
	return ast, err
}

// loose says whether orValue is called on something of unknown type.
func loose(ast *celgo.Ast) bool {
	native := ast.NativeRep()
	calls := celast.MatchDescendants(celast.NavigateAST(native), celast.FunctionMatcher("orValue"))
	for _, n := range calls {
		if call := n.AsCall(); call.IsMemberFunction() && native.GetType(call.Target().ID()).Kind() == types.DynKind {
			return true
		}
	}
	return false
}
