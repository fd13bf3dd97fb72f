package policy

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSort holds Sort, which moves results within their slice, to a stable sort
// of a copy.
func TestSort(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		results := make([]Result, n)
		for i := range results {
			results[i] = Result{Policy: strconv.Itoa(random.IntN(5)), Rule: strconv.Itoa(random.IntN(3)), Fingerprint: strconv.Itoa(i)}
		}
		want := slices.Clone(results)
		slices.SortStableFunc(want, func(a, b Result) int { return compareResults(&a, &b) })
		Sort(results)
		if diff := cmp.Diff(want, results); diff != "" {
			t.Fatalf("%d results (-want +got):\n%s", n, diff)
		}
		if !IsSorted(results) {
			t.Fatalf("%d sorted results are said not to be", n)
		}
	}
}
