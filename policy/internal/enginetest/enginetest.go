// Package enginetest has the tests that several engines must pass: a result does not depend on
// the requests that an engine reviewed before.
package enginetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
)

// Together checks that requests which a chain reviews together have the same results as when it
// reviews each alone. It returns the results.
func Together(t *testing.T, chain policy.Chain, reqs []policy.Request) []policy.Result {
	t.Helper()
	var want []policy.Result
	for i := range reqs {
		alone, err := chain.Review(t.Context(), reqs[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, alone...)
	}
	policy.Sort(want)
	got, err := chain.Review(t.Context(), reqs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reviewed alone -, together +\n%s", diff)
	}
	return want
}
