package policy

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestOrderOfRequests holds that results do not depend on the order in which
// requests are evaluated.
func TestOrderOfRequests(t *testing.T) {
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
		g := &gathered{compact: new(Compact), parts: make([]CompactResults, n)}
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
			if h[i].whole != 0 {
				whole++
			}
		}
	}
	rendertest.Equal(t, want, got)
	if whole == 0 || whole > len(want)/2 {
		t.Errorf("%d of %d results are held whole", whole, len(want))
	}
	got[0].Origins[0].File = "renamed"
	if again := c.Append(nil, held[0]); again[0].Origins[0].File == "renamed" {
		t.Error("results that came back share their places with those that are held")
	}
}

// A CompactList does with results what functions do with a slice of them.
func TestCompactList(t *testing.T) {
	t.Parallel()
	want := passesSample()
	for i := range want {
		r := &want[i]
		if i%4 == 0 { // a variant that has no failure of its own
			r.Only = "only on upgrade"
		}
		if i%5 == 0 {
			r.Missing = []Missing{{Kind: MissingAnswer, Name: "/api/" + strconv.Itoa(i%2)}}
		}
		r.Outcome, r.Unreached = []Outcome{Fail, Fail, Unknown, Skip, Pass}[i%5], false
		r.Fields = []string{"/spec/a", "/spec/b/" + strconv.Itoa(i%20)}[:i%3]
		*r = r.Fingerprinted()
	}
	slices.SortStableFunc(want, func(a, b Result) int { return strings.Compare(a.Object.Unit, b.Object.Unit) }) // each unit is kept at once
	var list CompactList
	for i, n := 0, 0; i < len(want); i, n = i+n, 0 {
		for i+n < len(want) && want[i+n].Object.Unit == want[i].Object.Unit {
			n++
		}
		list.Keep(list.Add(slices.Clone(want[i:i+n/2])), list.Add(slices.Clone(want[i+n/2:i+n])))
	}
	all := len(want)
	want = WithoutRepeats(want)
	if len(want) == all || len(want) != list.Len() {
		t.Fatalf("%d of %d results do not repeat others, and the list has %d", len(want), all, list.Len())
	}
	suppressions := []Suppression{{Rule: "p1", Object: "/Pod/**", Expires: "2026-12-01"}, {Rule: "p2/r*", Object: "/Pod/ns3/*", Expires: "2026-12-01"}, {Rule: "p3", Object: "none", Expires: "2026-12-01"}}
	today := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	_, unused := Suppress(want, nil, &Suppressions{Listed: suppressions}, today)
	if _, got := Suppress(nil, &list, &Suppressions{Listed: suppressions}, today); !cmp.Equal(unused, got) || len(got) != 1 {
		t.Errorf("unused: %v and %v", unused, got)
	}
	change := func(r *Result) {
		r.Unreached = r.Object.Unit == "unit3"
		r.Rename(reversed{})
	}
	for i := range want {
		want[i].Origins = slices.Clone(want[i].Origins)
		change(&want[i])
	}
	list.Change(change)
	Sort(want)
	list.Sort()
	var got []Result
	suppressed := 0
	for r := range list.All() {
		got = append(got, *r)
		if r.Suppression != nil {
			suppressed++
		}
	}
	rendertest.Equal(t, want, got, cmpopts.EquateEmpty())
	if suppressed == 0 || suppressed == len(got) {
		t.Errorf("%d of %d results are suppressed", suppressed, len(got))
	}
}

// reversed displays names backwards, so that they sort in another order.
type reversed struct{}

func (reversed) Display(name string) string {
	b := []byte(name)
	slices.Reverse(b)
	return string(b)
}

func (r reversed) DisplayIn(text string) string { return r.Display(text) }

// TestCompactFix holds that a result does not get the fix of another one of its rule.
func TestCompactFix(t *testing.T) {
	t.Parallel()
	print := strings.Repeat("0", 2*fingerprintSize)
	results := []Result{{Rule: "r", Fix: &Repair{Text: "Set a"}}, {Rule: "r", Fingerprint: print, UnitlessPrint: print}}
	want := slices.Clone(results)
	var c Compact
	rendertest.Equal(t, want, c.Append(nil, c.Add(results)), cmpopts.EquateEmpty())
}
