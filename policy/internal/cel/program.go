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
	number    int    // among those of its policy

	plan     planner         // of fast
	observed cel.Program     // that counts its branches; nil where nobody asked for that
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

// newProgram plans a program twice: at once without counting its cost, and
// with that when it is first needed.
func newProgram(ast *cel.Ast, uncounted uint64, fast planner, exact func(*cel.Ast) (cel.Program, error)) (*Program, error) {
	p := &Program{AST: ast, uncounted: uncounted, plan: fast, exact: sync.OnceValues(func() (cel.Program, error) { return planned(exact, ast) })}
	var err error
	if p.fast, err = planned(func(a *cel.Ast) (cel.Program, error) { return fast(a) }, ast); err != nil {
		return nil, errors.New("program instantiation failed: " + err.Error())
	}
	return p, nil
}

// planned is a program of cel-go's planner. It evaluates constants, and panics
// where these do: {b'x': 1}.
func planned(plan func(*cel.Ast) (cel.Program, error), ast *cel.Ast) (p cel.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, fmt.Errorf("internal error: %v", r)
		}
	}()
	return plan(ast)
}

// Eval runs the program without counting its cost. Use it where Cost is known
// to be within the limit.
func (p *Program) Eval(input cel.Activation) (ref.Val, error) {
	v, _, err := p.fast.Eval(input)
	p.observe(input)
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
	if err == nil { // else it may have been stopped
		p.observe(input)
	}
	return v, cost, err
}

// WasStopped reports whether an error of EvalExact means that the evaluation was
// stopped, by the limit of its cost or by its context. Then no field is at fault,
// and a second evaluation to look for one would take as long.
func WasStopped(err error) bool {
	return errors.As(err, new(interpreter.EvalCancelledError))
}

// observe evaluates once more where branches are counted. Variables that were read
// keep their values.
func (p *Program) observe(input cel.Activation) {
	if p.observed != nil {
		p.observed.Eval(input)
	}
}
