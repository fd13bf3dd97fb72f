package cel

import (
	"sync"

	"github.com/google/cel-go/cel"
)

// buckets are the sizes of inputs for which costs are bounded beforehand. Most
// objects fall into the first.
var buckets = [...]Sizes{
	{Items: 24, Length: 256},
	{Items: 64, Length: 1 << 10},
	{Items: 512, Length: 16 << 10},
	{Items: 8 << 10, Length: 256 << 10},
}

// A BySize holds what depends on the sizes of inputs: one value for each of
// some sizes, made when it is first needed. It is safe for concurrent use.
type BySize[T any] struct{ made [len(buckets)]func() T }

// NewBySize makes values by calling f with the largest sizes that each is for.
func NewBySize[T any](f func(Sizes) T) *BySize[T] {
	b := &BySize[T]{}
	for i := range b.made {
		b.made[i] = sync.OnceValue(func() T { return f(buckets[i]) })
	}
	return b
}

// For returns the value for inputs of the given sizes. ok is false where these
// are beyond all for which costs are bounded: then costs have to be counted.
func (b *BySize[T]) For(s Sizes) (v T, ok bool) {
	for i, most := range buckets {
		if s.Items <= most.Items && s.Length <= most.Length {
			return b.made[i](), true
		}
	}
	return v, false
}

// Costs bounds what each of a policy's expressions costs, when they read
// inputs of some sizes. The first len(names.list) expressions are its
// variables; nil expressions cost nothing.
func (n *Names) Costs(expressions []*cel.Ast, roots Roots) []uint64 {
	roots.Variables = map[string]Sizes{}
	costs := make([]uint64, len(expressions))
	for i, a := range expressions {
		if a == nil {
			continue
		}
		costs[i] = Cost(a, roots)
		if i >= len(n.list) {
			continue
		}
		if s, ok := ResultSizes(a, roots); ok {
			roots.Variables[n.list[i]] = s
		} else if roots.Assumed != nil {
			roots.Variables[n.list[i]] = *roots.Assumed
		}
	}
	return costs
}

// Sum adds costs, up to the largest number there is.
func Sum(costs ...uint64) uint64 {
	total := uint64(0)
	for _, c := range costs {
		total = add(total, c)
	}
	return total
}
