package cel

import (
	"context"
	"fmt"
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
)

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
