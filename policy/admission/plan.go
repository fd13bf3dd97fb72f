package admission

import (
	"math"
	"math/bits"
	"slices"

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
	counts                              bool   // one that is not fast
	conditions, validations, annotation uint64
}

// counting is the plan for inputs beyond all buckets: everything is counted.
func (c *compiled) counting() *plan { return &plan{fast: make([]bool, c.expressions)} }

// planFor returns the plan for inputs of the given sizes, and parameters. Most
// expressions are cheap whatever bucket they are in; a policy with one that is
// not gets a plan for sizes that are closer to those of the inputs.
func (c *compiled) planFor(inputs, params cel.Sizes) *plan {
	all := inputs.Max(params)
	for i, b := range buckets {
		if all.Items <= b.Items && all.Length <= b.Length {
			if p := c.plans[i](); p.whole() {
				return p
			}
			break
		}
	}
	return c.closePlan(inputs, params)
}

// whole says whether nothing has to be counted.
func (p *plan) whole() bool {
	return !p.counts && p.conditions <= celconfig.RuntimeCELCostBudgetMatchConditions &&
		max(p.validations, p.annotation) <= celconfig.RuntimeCELCostBudget
}

// The steps to which sizes are rounded up for close plans.
var (
	itemSteps   = [...]uint64{4, 8, 16, 32, 64, 512, 8 << 10}
	lengthSteps = [...]uint64{64, 128, 256, 1 << 10, 16 << 10, 256 << 10}
)

// rounded is the sizes rounded up; ok is false beyond the last step.
func rounded(s cel.Sizes) (r cel.Sizes, ok bool) {
	i, _ := slices.BinarySearch(itemSteps[:], s.Items)
	l, _ := slices.BinarySearch(lengthSteps[:], s.Length)
	if i == len(itemSteps) || l == len(lengthSteps) {
		return s, false
	}
	return cel.Sizes{Items: itemSteps[i], Length: lengthSteps[l]}, true
}

// A planKey is what close plans go by.
type planKey struct{ inputs, params cel.Sizes }

func (c *compiled) closePlan(inputs, params cel.Sizes) *plan {
	in, ok := rounded(inputs)
	with, ok2 := rounded(params)
	if !ok || !ok2 {
		return c.counting()
	}
	key := planKey{in, with}
	if p, ok := c.closePlans.Load(key); ok {
		return p.(*plan)
	}
	p, _ := c.closePlans.LoadOrStore(key, c.plan(in, with))
	return p.(*plan)
}

func (c *compiled) plan(inputs, params cel.Sizes) *plan {
	p := c.counting()
	bounds := make([]uint64, c.expressions)
	roots := cel.Roots{Inputs: inputs, Params: &params, Variables: map[string]cel.Sizes{}}
	var variables uint64
	c.each(func(e *expression) {
		bound := cel.Cost(e.ast, roots)
		if bound <= celconfig.PerCallLimit {
			p.fast[e.id], bounds[e.id] = true, bound
		}
		p.counts = p.counts || !p.fast[e.id]
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
