package gatekeeper

import (
	"math/bits"
	"slices"

	celgo "github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// A nativePlan says which expressions of a template run without counting their cost,
// which takes several times as long, on inputs of some sizes. The others are counted.
// If they spend what the bound of the first leaves of the budget, or a variable is
// larger than assumed, everything is evaluated again and counted.
type nativePlan struct {
	fast    map[*expression]bool
	bound   int64     // of what the fast ones cost together
	assumed cel.Sizes // of variables whose sizes can't be bounded
}

// uncounted is how much of the budget the bounds of fast expressions may take.
const uncounted = nativeBudget - nativeBudget/8

// A planKey is the sizes that a plan is for: of the inputs and of the constraint.
type planKey struct{ inputs, params cel.Sizes }

// Larger inputs have everything counted.
const (
	mostItems  = 8 << 10
	mostLength = 256 << 10
)

// planFor returns the plan for inputs of some sizes; nil: everything is counted.
func (c *nativeCode) planFor(inputs, params cel.Sizes) *nativePlan {
	if all := inputs.Max(params); all.Items > mostItems || all.Length > mostLength {
		return nil
	}
	key := planKey{rounded(inputs), rounded(params)}
	if known, ok := c.plans.Load(key); ok {
		return known.(*nativePlan)
	}
	p, _ := c.plans.LoadOrStore(key, c.plan(key))
	return p.(*nativePlan)
}

// rounded is sizes, each rounded up to a power of two, so that few plans are made.
func rounded(s cel.Sizes) cel.Sizes {
	up := func(n, least uint64) uint64 { return max(least, 1<<bits.Len64(max(n, 1)-1)) }
	return cel.Sizes{Items: up(s.Items, 8), Length: up(s.Length, 64)}
}

func (c *nativeCode) plan(key planKey) *nativePlan {
	inputs := key.inputs.Max(key.params)
	p := &nativePlan{fast: map[*expression]bool{}, assumed: cel.Sizes{Items: 2 * inputs.Items, Length: 4 * inputs.Length}}
	var all []*expression
	var asts []*celgo.Ast
	c.each(func(e *expression) { all, asts = append(all, e), append(asts, e.program.AST) })
	costs := c.names.Costs(asts, cel.Roots{Inputs: key.inputs, Params: &key.params, Assumed: &p.assumed})
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case costs[i] < costs[j]:
			return -1
		case costs[i] > costs[j]:
			return 1
		}
		return 0
	})
	for _, i := range order {
		if costs[i] > uint64(uncounted-p.bound) {
			break
		}
		p.bound += int64(costs[i])
		p.fast[all[i]] = true
	}
	return p
}
