package kyverno

import (
	"strings"

	celgo "github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// In Kyverno x.orValue(y) returns x if x is not an optional. Elsewhere that is
// an error when the expression is checked or evaluated.

// lenient returns env with Kyverno's orValue, built from CEL's own functions:
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

// compileOrValue compiles an expression. Where orValue is called on something
// that may not be an optional, it uses Kyverno's orValue.
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

// loose reports whether orValue is called on something of unknown type.
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
