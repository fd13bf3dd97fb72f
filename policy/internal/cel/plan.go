package cel

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
)

// A Group is expressions of a policy that share a budget.
type Group struct {
	Budget   int64 // 0: none besides the limit of each program
	Rounds   int   // how often the variables may be evaluated within the budget
	Programs []*Program
}

// Plans decide which programs of a policy run without counting their cost. Counting
// takes several times as long: a fifth of the CPU of a mixed tree under 60 policies.
// They are safe for concurrent use.
type Plans struct {
	names     *Names
	variables []*Program
	groups    []Group
	programs  []*Program // all of them, the variables first
	made      sync.Map   // Inputs to *plan
}

// NewPlans returns the plans of a policy. Variables and programs that did not compile
// are nil. A program belongs to one policy.
func NewPlans(names *Names, variables []*Program, groups ...Group) *Plans {
	p := &Plans{names: names, variables: variables, groups: groups, programs: slices.Clone(variables)}
	for _, g := range groups {
		p.programs = append(p.programs, g.Programs...)
	}
	for i, e := range p.programs {
		if e != nil {
			e.number = i
		}
	}
	return p
}

// Inputs are the sizes of the values that a policy's expressions read.
type Inputs struct{ Objects, Others, Params Sizes }

// A plan selects the programs that run uncounted on inputs of some sizes. Their bounds
// are subtracted from the group's budget. If the counted programs spend the rest, or a
// variable is larger than assumed, the group is evaluated again with everything counted.
type plan struct {
	fast    []bool  // by program
	bounds  []int64 // by group, the cost of its uncounted programs
	assumed []bool  // by variable, whether its size could not be bounded
	sizes   Sizes   // assumed for these variables
}

// buckets are the sizes for which plans are made first. Most expressions are cheap
// for inputs of any bucket; otherwise the policy is planned for sizes closer to those
// of its inputs. Beyond the last bucket everything is counted.
var buckets = [...]Sizes{
	{Items: 24, Length: 256},
	{Items: 64, Length: 1 << 10},
	{Items: 512, Length: 16 << 10},
	{Items: 8 << 10, Length: 256 << 10},
}

func (p *Plans) plan(in Inputs) *plan {
	all := in.Objects.Max(in.Others).Max(in.Params)
	for _, b := range buckets {
		if all.Items > b.Items || all.Length > b.Length {
			continue
		}
		if made := p.load(Inputs{b, b, b}); !slices.Contains(made.fast, false) {
			return made
		}
		return p.load(Inputs{rounded(in.Objects), rounded(in.Others), rounded(in.Params)})
	}
	return nil
}

// rounded rounds sizes up to powers of two, so that few plans are made.
func rounded(s Sizes) Sizes {
	up := func(n, least uint64) uint64 { return max(least, 1<<bits.Len64(max(n, 1)-1)) }
	return Sizes{Items: up(s.Items, 4), Length: up(s.Length, 64)}
}

func (p *Plans) load(in Inputs) *plan {
	made, ok := p.made.Load(in)
	if !ok {
		made, _ = p.made.LoadOrStore(in, p.make(in))
	}
	return made.(*plan)
}

// make chooses the programs of a plan, the cheapest first, while their bounds leave
// an eighth of their group's budget to the others.
func (p *Plans) make(in Inputs) *plan {
	all := in.Objects.Max(in.Others).Max(in.Params)
	made := &plan{fast: make([]bool, len(p.programs)), bounds: make([]int64, len(p.groups))}
	made.sizes = Sizes{Items: 2 * all.Items, Length: 4 * all.Length}
	costs := p.costs(in, made)
	order := make([]int, len(costs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(costs[i], costs[j]) })
	for _, i := range order {
		e := p.programs[i]
		made.fast[i] = e == nil || costs[i] <= e.uncounted && p.within(made.bounds, i, costs[i])
	}
	return made
}

// within adds the cost of a program to the bounds of its groups, if their budgets
// allow that.
func (p *Plans) within(bounds []int64, program int, cost uint64) bool {
	more := make([]int64, len(bounds))
	next := len(p.variables)
	for i, g := range p.groups {
		times := uint64(0)
		if program < len(p.variables) {
			times = uint64(g.Rounds)
		} else if program >= next && program < next+len(g.Programs) {
			times = 1
		}
		next += len(g.Programs)
		if g.Budget == 0 || times == 0 {
			continue
		}
		if sum := add(uint64(bounds[i]), mul(cost, times)); sum <= uint64(g.Budget-g.Budget/8) {
			more[i] = int64(sum) - bounds[i]
		} else {
			return false
		}
	}
	for i := range bounds {
		bounds[i] += more[i]
	}
	return true
}

// costs returns the bounded cost of each program. Variables of unknown size get the
// plan's sizes if every group can be evaluated again.
func (p *Plans) costs(in Inputs, made *plan) []uint64 {
	roots := Roots{Inputs: in.Others, Objects: &in.Objects, Params: &in.Params, Variables: map[string]Sizes{}}
	again := !slices.ContainsFunc(p.groups, func(g Group) bool { return g.Budget == 0 })
	costs := make([]uint64, len(p.programs))
	made.assumed = make([]bool, len(p.variables))
	for i, e := range p.programs {
		if e == nil {
			continue
		}
		costs[i] = Cost(e.AST, roots)
		if i >= len(p.variables) {
			continue
		}
		if s, ok := ResultSizes(e.AST, roots); ok {
			roots.Variables[p.names.At(i)] = s
		} else if again {
			roots.Variables[p.names.At(i)], made.assumed[i] = made.sizes, true
		}
	}
	return costs
}

// A Meter holds one policy's programs to their budgets for one request. Its zero
// value counts the cost of everything.
type Meter struct {
	plans     *Plans
	plan      *plan // nil: everything is counted
	remaining int64 // of the budget
	larger    bool  // a variable is larger than the plan assumes
}

// Meter returns the meter for inputs of some sizes.
func (p *Plans) Meter(in Inputs) Meter { return Meter{plans: p, plan: p.plan(in)} }

// Counting returns a meter that counts the cost of everything.
func (p *Plans) Counting() Meter { return Meter{plans: p} }

// Group calls f, which evaluates a group of programs, and calls it again with
// everything counted if the budget may be spent. Variables have no values when f
// begins.
func (m *Meter) Group(group int, f func() error) error {
	budget := m.plans.groups[group].Budget
	m.Begin(budget - m.Bound(group))
	if err := f(); m.plan == nil || !m.Out() {
		return err
	}
	plan := m.plan
	m.plan = nil
	defer func() { m.plan = plan }()
	m.Begin(budget)
	return f()
}

// Begin sets the budget of the following evaluations.
func (m *Meter) Begin(budget int64) { m.remaining, m.larger = budget, false }

// Remaining returns the rest of the budget, negative if too much was spent.
func (m *Meter) Remaining() int64 { return m.remaining }

// Out reports whether the budget is spent, or may be.
func (m *Meter) Out() bool { return m.remaining < 0 || m.larger }

// Bound returns the bound of the cost of a group's uncounted programs together.
func (m *Meter) Bound(group int) int64 {
	if m.plan == nil {
		return 0
	}
	return m.plan.bounds[group]
}

// Uncounted reports whether a program runs without counting its cost.
func (m *Meter) Uncounted(p *Program) bool { return m.plan != nil && m.plan.fast[p.number] }

// Eval runs a program. If Out is true afterwards, the value must not be used.
func (m *Meter) Eval(ctx context.Context, p *Program, input cel.Activation) (ref.Val, error) {
	if m.Uncounted(p) {
		return p.Eval(input)
	}
	v, cost, err := p.EvalExact(ctx, input)
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

// Variable returns the value of the i-th variable, whose evaluation gave v or err, as
// other expressions read it.
func (m *Meter) Variable(i int, v ref.Val, err error) ref.Val {
	if err == nil && m.plan != nil && m.plan.assumed[i] && !Fits(v, m.plan.sizes) {
		m.larger, err = true, ErrBudget
	}
	if err != nil {
		return m.plans.names.VariableError(i, err)
	}
	return v
}
