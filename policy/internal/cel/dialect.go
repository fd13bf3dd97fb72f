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

// Limits are what one evaluation may cost: where that is counted, and where it is
// bounded beforehand and so not counted.
type Limits struct{ Counted, Bounded uint64 }

// Costs tells what a call of a function costs that the API server does not
// have, in its units; nil that it knows none.
type Costs func(overload string, args []ref.Val) *uint64

// NewDialect is the dialect of an environment, which has no program options.
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

// Env is the environment of the dialect. Its functions are not guarded against
// values that stall them.
func (d *Dialect) Env() *cel.Env { return d.run.env }

// Plan makes a program of a checked expression. EvalExact runs it under the
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

// callCosts are the costs of calls, those of the dialect first.
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
