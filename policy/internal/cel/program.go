package cel

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
)

// A Program runs one checked expression. It is safe for concurrent use.
type Program struct {
	AST   *cel.Ast
	fast  cel.Program
	exact func() (cel.Program, error)
}

// Plan makes a program of a checked expression.
func Plan(ast *cel.Ast) (*Program, error) {
	r, err := theRunner()
	if err != nil {
		return nil, err
	}
	fast, err := r.fast(ast)
	if err != nil {
		return nil, errors.New("program instantiation failed: " + err.Error())
	}
	exact := sync.OnceValues(func() (cel.Program, error) { return r.exact(ast) })
	return &Program{AST: ast, fast: fast, exact: exact}, nil
}

// Eval runs the program without counting its cost. Use it where Cost is known
// to be within the limit.
func (p *Program) Eval(input cel.Activation) (ref.Val, error) {
	v, _, err := p.fast.Eval(input)
	return v, err
}

// EvalExact runs the program under the API server's limit for one evaluation
// and returns what it cost.
func (p *Program) EvalExact(ctx context.Context, input cel.Activation) (v ref.Val, cost int64, err error) {
	program, err := p.exact()
	if err != nil {
		return nil, 0, err
	}
	v, details, err := program.ContextEval(ctx, input)
	if details != nil && details.ActualCost() != nil {
		cost = int64(min(*details.ActualCost(), math.MaxInt64))
	}
	return v, cost, err
}
