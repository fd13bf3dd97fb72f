package crd

import (
	"math/rand/v2"
	"testing"

	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// FuzzRule holds the evaluation of a rule against the API server's own validator, over
// objects that are changed at random: the same errors, the same budget left.
func FuzzRule(f *testing.F) {
	for _, rule := range []string{
		"self.a > 1", "self.s.startsWith('x')", "self.l.all(x, x < self.a)", "has(self.s) && self.s == 'b'", "self.l[2] > 1", "self.m['k'] == 'v'",
		"self.m.all(k, k != self.s)", "size(self.l) == self.a", "self.s.matches('^[a-c]+$')", "self.l.map(x, x + 1).exists(x, x == 3)", "quantity(self.s).isGreaterThan(quantity('1'))",
	} {
		f.Add(rule, uint64(1))
	}
	typed := func(t string) schema.Structural { return schema.Structural{Generic: schema.Generic{Type: t}} }
	of := func(t, item string) schema.Structural {
		s, each := typed(t), typed(item)
		if t == "array" {
			s.Items = &each
		} else {
			s.AdditionalProperties = &schema.StructuralOrBool{Structural: &each}
		}
		return s
	}
	f.Fuzz(func(t *testing.T, rule string, seed uint64) {
		if len(rule) > 200 {
			return
		}
		s := typed("object")
		s.Properties = map[string]schema.Structural{"a": typed("integer"), "s": typed("string"), "l": of("array", "integer"), "m": of("object", "string")}
		s.XValidations = v1.ValidationRules{{Rule: rule}}
		c := newOracleCase(&s, false, map[string]any{"a": int64(3), "s": "b", "l": []any{int64(1), int64(2)}, "m": map[string]any{"k": "v"}}, nil)
		if c == nil {
			return
		}
		random := rand.New(rand.NewPCG(seed, 1))
		object := c.object
		for range random.IntN(3) {
			object = mutate(random, object)
		}
		got, left := c.ours(t, object, nil)
		want, wantLeft := c.upstream(t, object, nil)
		if len(got) != len(want) || left != wantLeft && left > 0 && wantLeft > 0 && left < celconfig.RuntimeCELCostBudget {
			t.Errorf("%s over %v: %v, %d left; the API server: %v, %d left", rule, object, got, left, want, wantLeft)
		}
	})
}
