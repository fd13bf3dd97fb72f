package cel

import (
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// A Dialect runs programs with functions that the API server does not have.
// It is safe for concurrent use.
type Dialect struct {
	run    *runner
	limits Limits
	costs  Costs
}

// Limits bound the cost of one evaluation: while it is counted, and when it is
// estimated beforehand and so not counted.
type Limits struct{ Counted, Bounded uint64 }

// Costs returns the cost, in the API server's units, of calling a function that the
// API server does not have; nil if it is unknown.
type Costs func(overload string, args []ref.Val) *uint64

// NewDialect returns the dialect of an environment, which must have no program
// options.
func NewDialect(env *cel.Env, limits Limits, costs Costs) (*Dialect, error) {
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
	return &Dialect{run: r, limits: limits, costs: costs}, nil
}

// Env returns the environment of the dialect. Its functions are not guarded against
// values that stall them.
func (d *Dialect) Env() *cel.Env { return d.run.env }

// Plan returns a program of a checked expression. EvalExact runs it under the
// dialect's limit. The cost of functions that the API server does not have can't be
// bounded, so calls of them are counted.
func (d *Dialect) Plan(ast *cel.Ast) (*Program, error) {
	uncounted := d.limits.Bounded
	for _, r := range ast.NativeRep().ReferenceMap() {
		if slices.ContainsFunc(r.OverloadIDs, func(id string) bool { return d.costs(id, nil) != nil }) {
			uncounted = 0
		}
	}
	return newProgram(ast, uncounted, d.run.fast, d.exact)
}

func (d *Dialect) exact(ast *cel.Ast) (cel.Program, error) {
	return d.run.env.Program(ast,
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.OptimizeRegex(guardedRegexes()...), cel.Functions(d.run.guards...),
		cel.CostLimit(d.limits.Counted), cel.CostTracking(callCosts{costs: d.costs}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency))
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
