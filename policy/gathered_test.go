package policy

import (
	"math/rand/v2"
	"slices"
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
		g := &gathered{parts: make([]CompactResults, n)}
		for _, i := range random.Perm(n) {
			g.add(i, each[i])
		}
		g.close()
		g.add(0, []Result{{Policy: "late"}})
		for i, held := range g.parts {
			if diff := cmp.Diff(each[i], g.compact.Append(nil, held)); diff != "" {
				t.Fatalf("request %d of %d (-want +got):\n%s", i, n, diff)
			}
		}
		if diff := cmp.Diff(want, append([]Result(nil), g.sorted()...)); diff != "" {
			t.Fatalf("%d requests (-want +got):\n%s", n, diff)
		}
	}
}

// Results that are held compactly come back as they were.
func TestCompact(t *testing.T) {
	t.Parallel()
	want := passesSample()
	var c Compact
	var held []CompactResults
	for i := 0; i < len(want); i += 10 {
		held = append(held, c.Add(slices.Clone(want[i:i+10])))
	}
	var got []Result
	whole := 0
	for _, h := range held {
		got = c.Append(got, h)
		for i := range h {
			if h[i].whole != nil {
				whole++
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if whole == 0 || whole > len(want)/2 {
		t.Errorf("%d of %d results are held whole", whole, len(want))
	}
	got[0].Origins[0].File = "renamed"
	if again := c.Append(nil, held[0]); again[0].Origins[0].File == "renamed" {
		t.Error("results that came back share their places with those that are held")
	}
}
