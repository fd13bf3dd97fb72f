package admission

import (
	"slices"

	celgo "github.com/google/cel-go/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy/internal/cel"
)

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

// A planKey is the sizes that a plan is for.
type planKey struct{ objects, others, params cel.Sizes }

// planFor returns the plan for inputs of the given sizes. Most expressions are cheap
// whatever bucket they are in; a policy with one that is not gets a plan for sizes
// that are closer to those of the inputs.
func (c *compiled) planFor(k planKey) *plan {
	if p, ok := c.plans.For(k.objects.Max(k.others).Max(k.params)); ok && p.whole() {
		return p
	}
	return c.closePlan(k)
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

func (c *compiled) closePlan(k planKey) *plan {
	var fits [3]bool
	k.objects, fits[0] = rounded(k.objects)
	k.others, fits[1] = rounded(k.others)
	k.params, fits[2] = rounded(k.params)
	if fits != [3]bool{true, true, true} {
		return c.counting()
	}
	if p, ok := c.closePlans.Load(k); ok {
		return p.(*plan)
	}
	p, _ := c.closePlans.LoadOrStore(k, c.plan(k))
	return p.(*plan)
}

func (c *compiled) plan(k planKey) *plan {
	p := c.counting()
	asts := make([]*celgo.Ast, c.expressions)
	c.each(func(e *expression) { asts[e.id] = e.ast })
	bounds := c.names.Costs(asts, cel.Roots{Inputs: k.others, Objects: &k.objects, Params: &k.params})
	c.each(func(e *expression) {
		if bounds[e.id] <= celconfig.PerCallLimit {
			p.fast[e.id] = true
		} else {
			p.counts, bounds[e.id] = true, 0
		}
	})
	total := func(list []*expression) (n uint64) {
		for _, e := range list {
			if e != nil {
				n = cel.Sum(n, bounds[e.id])
			}
		}
		return n
	}
	variables := total(c.variables)
	p.conditions = cel.Sum(variables, total(c.conditions))
	p.validations = cel.Sum(variables, total(c.validations), variables, total(c.messages))
	p.annotation = cel.Sum(variables, total(c.annotations))
	return p
}
