package cel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/preadmit/preadmit/policy/internal/patch"
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

// A runner is the environment in which programs of every version run: the functions
// of the newest environment for stored expressions, without its program options,
// which can't be removed.
type runner struct {
	env    *cel.Env
	guards []*functions.Overload // replace functions that hostile values can stall
}

// theRunner is built on first use; it never changes.
var theRunner = sync.OnceValues(newRunner)

func newRunner() (*runner, error) {
	env, err := cel.NewEnv(
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		ext.Strings(ext.StringsVersion(2)),
		ext.Sets(),
		ext.TwoVarComprehensions(),
		ext.Lists(ext.ListsVersion(3)),
		library.URLs(), library.Regex(), library.Lists(library.ListsVersion(1)),
		library.Authz(), library.AuthzSelectors(), library.Quantity(),
		library.IP(), library.CIDR(), library.Format(), library.SemverLib(library.SemverVersion(1)),
		library.JSONPatch(), common.ResolverEnvOption(&patch.Resolver{}),
	)
	if err != nil {
		return nil, err
	}
	guards, err := guardedOverloads(env)
	return &runner{env, guards}, err
}

// RunEnv returns the environment that programs run in, for other evaluators of
// checked expressions. Its functions are not guarded against values that stall them.
func RunEnv() (*cel.Env, error) {
	r, err := theRunner()
	if err != nil {
		return nil, err
	}
	return r.env, nil
}

// plan plans a program under the API server's limit for one evaluation, which can be
// interrupted.
func (r *runner) plan(ast *cel.Ast, more ...cel.ProgramOption) (cel.Program, error) {
	return r.limited(ast, celconfig.PerCallLimit, &library.CostEstimator{}, more...)
}

// limited plans a program whose cost, which costs counts, is limited.
func (r *runner) limited(ast *cel.Ast, limit uint64, costs interpreter.ActualCostEstimator, more ...cel.ProgramOption) (cel.Program, error) {
	return r.env.Program(ast, append([]cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.OptimizeRegex(guardedRegexes()...), cel.Functions(r.guards...), weighed(),
		cel.CostLimit(limit), cel.CostTracking(costs), cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
	}, more...)...)
}

// A Meter counts the cost of expressions that share a budget, for one request. It is
// not for concurrent use.
type Meter struct{ remaining int64 }

// Begin sets the budget of the following evaluations.
func (m *Meter) Begin(budget int64) { m.remaining = budget }

// Remaining returns the rest of the budget, negative if too much was spent.
func (m *Meter) Remaining() int64 { return m.remaining }

// Out reports whether more than the budget is spent.
func (m *Meter) Out() bool { return m.remaining < 0 }

// Eval runs a program. If Out is true afterwards, the value must not be used.
func (m *Meter) Eval(ctx context.Context, p *Program, input cel.Activation) (ref.Val, error) {
	v, cost, err := p.Eval(ctx, input)
	m.remaining -= min(cost, math.MaxInt64/2)
	return v, err
}

// Evaluate runs the program of an expression. The error is ErrBudget, or has the API
// server's words. secret hides values that may be a Secret's.
func (m *Meter) Evaluate(ctx context.Context, p *Program, input cel.Activation, source string, secret bool) (ref.Val, error) {
	v, err := m.Eval(ctx, p, input)
	switch {
	case m.Out():
		return nil, ErrBudget
	case err != nil:
		return nil, fmt.Errorf("expression '%v' resulted in error: %w", source, ShownError(source, err, secret))
	}
	return v, nil
}
