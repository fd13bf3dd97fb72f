package cel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// A Program runs one checked expression. It is safe for concurrent use.
type Program struct {
	AST *cel.Ast
	run cel.Program

	plan     planner         // of run
	observed cel.Program     // counts its branches; nil if nothing counts them
	counters []*atomic.Int64 // of the branches, in the order of the expression
}

// A planner makes a program of a checked expression.
type planner func(*cel.Ast, ...cel.ProgramOption) (cel.Program, error)

// Plan makes a program of a checked expression, under the API server's limit for one
// evaluation.
func Plan(ast *cel.Ast) (*Program, error) {
	r, err := theRunner()
	if err != nil {
		return nil, err
	}
	return newProgram(ast, r.plan)
}

func newProgram(ast *cel.Ast, plan planner) (*Program, error) {
	run, err := planned(plan, ast)
	if err != nil {
		return nil, errors.New("program instantiation failed: " + err.Error())
	}
	return &Program{AST: ast, run: run, plan: plan}, nil
}

// planned calls cel-go's planner, which evaluates constants and panics if they do:
// {b'x': 1}.
func planned(plan planner, ast *cel.Ast, more ...cel.ProgramOption) (p cel.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("internal error: %v", r)
		}
	}()
	return plan(ast, more...)
}

// Eval runs the program and returns its cost. An evaluation that reaches the limit of
// the cost, or whose context ends, fails.
func (p *Program) Eval(ctx context.Context, input cel.Activation) (v ref.Val, cost int64, err error) {
	v, details, err := p.run.ContextEval(ctx, input)
	if details != nil && details.ActualCost() != nil {
		cost = int64(min(*details.ActualCost(), math.MaxInt64))
	}
	if err == nil { // else it may have been stopped
		p.observe(input)
	}
	return v, cost, err
}

// WasStopped reports whether an error of Eval means that the limit of the cost
// or the context stopped the evaluation. Then no field is at fault, and looking for
// one would take as long again.
func WasStopped(err error) bool {
	return errors.As(err, new(interpreter.EvalCancelledError))
}

// observe evaluates the program once more if branches are counted. Variables that
// were read keep their values.
func (p *Program) observe(input cel.Activation) {
	if p.observed != nil {
		p.observed.Eval(input)
	}
}
