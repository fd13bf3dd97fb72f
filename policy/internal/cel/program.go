package cel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// A Program runs one checked expression. It is safe for concurrent use.
type Program struct {
	AST   *cel.Ast
	fast  cel.Program // does not count its cost
	exact func() (cel.Program, error)

	uncounted uint64 // runs without counting if its cost is bounded by this
	number    int    // its index in the policy

	plan     planner         // of fast
	observed cel.Program     // counts its branches; nil if nothing counts them
	counters []*atomic.Int64 // of the branches, in the order of the expression
}

// A planner makes a program of a checked expression.
type planner func(*cel.Ast, ...cel.ProgramOption) (cel.Program, error)

// Plan makes a program of a checked expression.
func Plan(ast *cel.Ast) (*Program, error) {
	r, err := theRunner()
	if err != nil {
		return nil, err
	}
	return newProgram(ast, celconfig.PerCallLimit, r.fast, r.exact)
}

// newProgram plans the uncounted program at once, and the counted one when it is
// first needed.
func newProgram(ast *cel.Ast, uncounted uint64, fast planner, exact func(*cel.Ast) (cel.Program, error)) (*Program, error) {
	p := &Program{AST: ast, uncounted: uncounted, plan: fast, exact: sync.OnceValues(func() (cel.Program, error) { return planned(exact, ast) })}
	var err error
	if p.fast, err = planned(func(a *cel.Ast) (cel.Program, error) { return fast(a) }, ast); err != nil {
		return nil, errors.New("program instantiation failed: " + err.Error())
	}
	return p, nil
}

// planned calls cel-go's planner, which evaluates constants and panics if they do:
// {b'x': 1}.
func planned(plan func(*cel.Ast) (cel.Program, error), ast *cel.Ast) (p cel.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("internal error: %v", r)
		}
	}()
	return plan(ast)
}

// Eval runs the program without counting its cost. The caller must know that Cost is
// within the limit.
func (p *Program) Eval(input cel.Activation) (ref.Val, error) {
	v, _, err := p.fast.Eval(input)
	p.observe(input)
	return v, err
}

// EvalExact runs the program under the API server's limit for one evaluation and
// returns its cost.
func (p *Program) EvalExact(ctx context.Context, input cel.Activation) (v ref.Val, cost int64, err error) {
	program, err := p.exact()
	if err != nil {
		return nil, 0, err
	}
	v, details, err := program.ContextEval(ctx, input)
	if details != nil && details.ActualCost() != nil {
		cost = int64(min(*details.ActualCost(), math.MaxInt64))
	}
	if err == nil { // else it may have been stopped
		p.observe(input)
	}
	return v, cost, err
}

// WasStopped reports whether an error of EvalExact means that the limit of the cost
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
