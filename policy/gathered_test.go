package policy

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGathered holds that results are the same in whatever order requests are done.
func TestGathered(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 100 {
		each := make([][]Result, n)
		var want []Result
		for i := range each {
			for k := range random.IntN(4) {
				each[i] = append(each[i], Result{Policy: strconv.Itoa(random.IntN(3)), Fingerprint: strconv.Itoa(i) + "/" + strconv.Itoa(k)})
			}
			want = append(want, each[i]...)
		}
		Sort(want)
		g := &gathered{parts: make([][]Result, n)}
		for _, i := range random.Perm(n) {
			g.add(i, each[i])
		}
		g.close()
		g.add(0, []Result{{Policy: "late"}})
		if diff := cmp.Diff(each, g.each()); diff != "" {
			t.Fatalf("each of %d requests (-want +got):\n%s", n, diff)
		}
		if diff := cmp.Diff(want, append([]Result(nil), g.sorted()...)); diff != "" {
			t.Fatalf("%d requests (-want +got):\n%s", n, diff)
		}
	}
}
