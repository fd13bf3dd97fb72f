package explain

import (
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/preadmit/preadmit/render/rendertest"
)

// evaluate is what CEL itself makes of an expression over plain values.
func (f *fixture) evaluate(t testing.TB, expr string) ref.Val {
	t.Helper()
	v, err := evaluateAST(compileExpr(t, testEnv(), expr), f.roots, f.variables)
	rendertest.OK(t, err)
	return v
}

func evaluateAST(ast *cel.Ast, roots map[string]any, variables []Variable) (ref.Val, error) {
	vars := make(map[string]any)
	for name, v := range roots {
		vars[name] = v
	}
	composited := &lazy{vars: vars, asts: make(map[string]*cel.Ast), memo: make(map[string]ref.Val)}
	for _, v := range variables {
		composited.asts[v.Name] = v.AST
	}
	if len(variables) > 0 {
		composited.Mapper = types.NewStringInterfaceMap(types.DefaultTypeAdapter, nil)
		vars["variables"] = composited
	}
	return evalProgram(ast, vars)
}

func evalProgram(ast *cel.Ast, vars map[string]any) (ref.Val, error) {
	p, err := testEnv().Program(ast)
	if err != nil {
		return nil, err
	}
	v, _, err := p.Eval(vars)
	if err != nil {
		return types.WrapErr(err), nil
	}
	return v, nil
}

// lazy is the map of composited variables, evaluated when they are read.
type lazy struct {
	traits.Mapper
	vars map[string]any
	asts map[string]*cel.Ast
	memo map[string]ref.Val
}

func (l *lazy) Find(key ref.Val) (ref.Val, bool) {
	name := string(key.(types.String))
	if v, ok := l.memo[name]; ok {
		return v, true
	}
	ast, ok := l.asts[name]
	if !ok {
		return nil, false
	}
	v, err := evalProgram(ast, l.vars)
	if err != nil {
		v = types.WrapErr(err)
	}
	l.memo[name] = v
	return v, true
}

func (l *lazy) Get(key ref.Val) ref.Val {
	if v, ok := l.Find(key); ok {
		return v
	}
	return types.NewErr("no such key: %v", key)
}

func (l *lazy) Contains(key ref.Val) ref.Val {
	_, ok := l.asts[string(key.(types.String))]
	return types.Bool(ok)
}
