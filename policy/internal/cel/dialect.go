package cel

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/library"
)

// A Dialect runs programs with functions that the API server does not have.
// It is safe for concurrent use.
type Dialect struct {
	run   *runner
	limit uint64 // of the cost of one evaluation
	costs Costs
}

// Costs returns the cost, in the API server's units, of calling a function that the
// API server does not have; nil if it is unknown.
type Costs func(overload string, args []ref.Val) *uint64

// NewDialect returns the dialect of an environment, which must have no program
// options. limit bounds the cost of one evaluation.
func NewDialect(env *cel.Env, limit uint64, costs Costs) (*Dialect, error) {
	r := &runner{env: env}
	var err error
	if r.guards, err = guardedOverloads(env); err != nil {
		return nil, err
	}
	for _, name := range []string{"regex.replace", "regex.extract", "regex.extractAll"} {
		f := env.Functions()[name]
		if f == nil {
			continue
		}
		bindings, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		for _, b := range bindings {
			r.guards = append(r.guards, guardOverload(b, guardRegex))
		}
	}
	return &Dialect{run: r, limit: limit, costs: costs}, nil
}

// Env returns the environment of the dialect. Its functions are not guarded against
// values that stall them.
func (d *Dialect) Env() *cel.Env { return d.run.env }

// Plan returns a program of a checked expression, under the dialect's limit.
func (d *Dialect) Plan(ast *cel.Ast) (*Program, error) {
	return newProgram(ast, func(a *cel.Ast, more ...cel.ProgramOption) (cel.Program, error) {
		return d.run.limited(a, d.limit, callCosts{costs: d.costs}, more...)
	})
}

// callCosts returns the costs of calls, the dialect's first.
type callCosts struct {
	library.CostEstimator
	costs Costs
}

// CallCost implements interpreter.ActualCostEstimator.
func (c callCosts) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	if cost := c.costs(overload, args); cost != nil {
		return cost
	}
	return c.CostEstimator.CallCost(function, overload, args, result)
}
