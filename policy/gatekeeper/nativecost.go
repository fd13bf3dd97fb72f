package gatekeeper

import (
	"math"
	"math/bits"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// buckets are the sizes of inputs for which costs are bounded beforehand, so
// that what can't reach the limit runs without counting.
var buckets = [...]cel.Sizes{
	{Items: 8, Length: 128},
	{Items: 24, Length: 256},
	{Items: 64, Length: 1 << 10},
	{Items: 512, Length: 16 << 10},
}

// bound is what all expressions together cost at most.
func (c *nativeCode) bound(s cel.Sizes) uint64 {
	roots := cel.Roots{Inputs: s, Variables: map[string]cel.Sizes{}}
	var total uint64
	left := len(c.variables)
	c.each(func(e *expression) {
		sum, carry := bits.Add64(total, cel.Cost(e.program.AST, roots), 0)
		if total = sum; carry != 0 {
			total = math.MaxUint64
		}
		if left--; left >= 0 {
			if s, ok := cel.ResultSizes(e.program.AST, roots); ok {
				roots.Variables[e.name] = s
			}
		}
	})
	return total
}

// counts says whether what runs on inputs of some sizes has to be counted.
func (c *nativeCode) counts(s cel.Sizes) bool {
	for i, b := range buckets {
		if s.Items <= b.Items && s.Length <= b.Length {
			return c.bounds[i]() > nativeBudget
		}
	}
	return true
}
