package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render"
)

// passesSample are results of many kinds, in no order.
func passesSample() []Result {
	var results []Result
	for i := range 300 {
		r := Result{
			Engine: []string{EngineAdmission, EngineKyverno}[i%2], Policy: fmt.Sprintf("p%d", i%5), Rule: fmt.Sprintf("r%d", i%3), Operation: Create,
			Object:  render.Key{APIVersion: "v1", Kind: "Pod", Namespace: fmt.Sprintf("ns%d", i/60), Name: fmt.Sprintf("pod-%d", i/10), Unit: fmt.Sprintf("unit%d", i/30)},
			Outcome: []Outcome{Pass, Pass, Pass, Fail, Pass, Skip}[i%6], Action: Deny, PolicyOrigin: render.Span{File: "policy.yaml", Line: i%5 + 1},
			Origins: []render.Origin{{Span: render.Span{File: "pods.yaml", Line: i / 10}, Role: render.Manifest}},
		}
		switch i % 7 {
		case 1:
			r.Message, r.Assumed = "validation rule passed.", []string{"one", "another"}
		case 2:
			r.Fields = []string{"/spec/a"}
		case 3:
			r.Baseline, r.Unreached = New, true
		case 4:
			r.Only = "only on upgrade"
		case 5:
			r.Cost = &RuleCost{Expression: 3}
		}
		results = append(results, r.Fingerprinted())
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(results), func(i, j int) { results[i], results[j] = results[j], results[i] })
	return results
}

// reported is a result as reports have it: without what is not in JSON.
func reported(r Result) Result {
	r.UnitlessPrint, r.Literals, r.AsWritten = "", nil, false
	return r
}

// TestPassesRoundTrip holds that stored passes are restored unchanged, at their
// places.
func TestPassesRoundTrip(t *testing.T) {
	t.Parallel()
	want := passesSample()
	var a, b Passes
	rest := a.Take(slices.Clone(want[:100]))
	rest = append(slices.Clone(rest), b.Take(slices.Clone(want[100:]))...)
	packed := b.Pack()
	c, ok := packed.Unpack()
	if !ok {
		t.Fatal("not unpacked")
	}
	a.Join(c)
	kinds := make(map[string]bool)
	for i := range a.rules {
		kinds[string(a.rules[i].ruleKey(nil))] = true
	}
	if len(kinds) != len(a.rules) {
		t.Errorf("%d rules are kept, of which %d differ", len(a.rules), len(kinds))
	}
	a.Sort()
	Sort(rest)
	Sort(want)
	if n := len(want) - len(rest); n != a.Len() || n < 100 {
		t.Fatalf("%d of %d results are kept apart, and %d are counted", n, len(want), a.Len())
	}
	for i := range rest {
		if rest[i].Outcome == Pass && rest[i].Fields == nil && rest[i].Only == "" && rest[i].Cost == nil {
			t.Fatalf("%+v is not kept apart", rest[i])
		}
	}
	i := 0
	for r := range Merged(Each(rest), a.All()) {
		if diff := cmp.Diff(reported(want[i]), reported(*r)); diff != "" {
			t.Fatal(diff)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%d of %d results came", i, len(want))
	}
	byUnit, units := a.By(func(k render.Key) string { return k.Unit }), a.Units()
	for unit, n := range units {
		if byUnit[unit].Len() != n {
			t.Errorf("%s: %d passes, and %d are counted", unit, byUnit[unit].Len(), n)
		}
		for r := range byUnit[unit].All() {
			if r.Object.Unit != unit {
				t.Errorf("%s has a pass of %s", unit, r.Object.Unit)
			}
		}
	}
}

func TestPassesChange(t *testing.T) {
	t.Parallel()
	var p Passes
	p.Take(passesSample())
	p.Change(func(r *Result) {
		r.Object.Unit, r.Message = strings.ToUpper(r.Object.Unit), strings.ToUpper(r.Message)
	})
	for r := range p.All() {
		if r.Object.Unit == "" || strings.ToUpper(r.Object.Unit+r.Message) != r.Object.Unit+r.Message {
			t.Errorf("%+v is as it was", r)
		}
	}
}

// What no Pack made is refused, as of a cache that somebody wrote to.
func TestUnpackRefusesDamage(t *testing.T) {
	t.Parallel()
	var p Passes
	p.Take(passesSample())
	for name, damage := range map[string]func(*PackedPasses){
		"object":   func(k *PackedPasses) { k.Object[3] = 1 << 31 },
		"rule":     func(k *PackedPasses) { k.Rule[3] = uint32(len(k.Rules)) },
		"too few":  func(k *PackedPasses) { k.Rule = k.Rule[1:] },
		"too many": func(k *PackedPasses) { k.Rule = append(k.Rule, 0) },
	} {
		k := p.Pack()
		damage(&k)
		if _, ok := k.Unpack(); ok {
			t.Errorf("%s: unpacked", name)
		}
	}
}
