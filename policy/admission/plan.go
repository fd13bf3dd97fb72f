package admission

import (
	"math"
	"math/bits"

	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

// buckets are the sizes of inputs for which costs are bounded beforehand. Most
// objects fall into the first.
var buckets = [...]cel.Sizes{
	{Items: 24, Length: 256},
	{Items: 64, Length: 1 << 10},
	{Items: 512, Length: 16 << 10},
	{Items: 8 << 10, Length: 256 << 10},
}

// A plan says which expressions of a policy can't reach the limit on inputs of
// a bucket, so that they run without counting. The API server's budgets hold
// for groups of expressions; a group's bound is what its uncounted expressions
// cost at most together.
type plan struct {
	fast                                []bool // by expression
	conditions, validations, annotation uint64
}

// counting is the plan for inputs beyond all buckets: everything is counted.
func (c *compiled) counting() *plan { return &plan{fast: make([]bool, c.expressions)} }

// planFor returns the plan for inputs of the given sizes.
func (c *compiled) planFor(s cel.Sizes) *plan {
	for i, b := range buckets {
		if s.Items <= b.Items && s.Length <= b.Length {
			return c.plans[i]()
		}
	}
	return c.counting()
}

func (c *compiled) plan(inputs cel.Sizes) *plan {
	p := c.counting()
	bounds := make([]uint64, c.expressions)
	roots := cel.Roots{Inputs: inputs, Variables: map[string]cel.Sizes{}}
	var variables uint64
	c.each(func(e *expression) {
		bound := cel.Cost(e.ast, roots)
		if bound <= celconfig.PerCallLimit {
			p.fast[e.id], bounds[e.id] = true, bound
		}
		if e.id < len(c.variables) {
			variables = sum(variables, bounds[e.id])
			if s, ok := cel.ResultSizes(e.ast, roots); ok {
				roots.Variables[c.policy.Spec.Variables[e.id].Name] = s
			}
		}
	})
	total := func(list []*expression) uint64 {
		n := variables
		for _, e := range list {
			if e != nil {
				n = sum(n, bounds[e.id])
			}
		}
		return n
	}
	p.conditions = total(c.conditions)
	p.validations = sum(total(c.validations), total(c.messages))
	p.annotation = total(c.annotations)
	return p
}

func sum(a, b uint64) uint64 {
	if s, carry := bits.Add64(a, b, 0); carry == 0 {
		return s
	}
	return math.MaxUint64
}
