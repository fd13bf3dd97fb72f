package document

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// policyOf makes a policy of a spec that YAML would be too slow, or too
// strict, to bring.
func policyOf(spec map[string]any) []*render.Object {
	return []*render.Object{{Unstructured: &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "p"}, "spec": spec,
	}}}}
}

func ruleOf(name string, match, validate map[string]any) map[string]any {
	return map[string]any{"name": name, "match": match, "validate": validate}
}

func podsAnd(kinds ...any) map[string]any {
	return map[string]any{"any": []any{map[string]any{"resources": map[string]any{"kinds": append([]any{"Pod"}, kinds...)}}}}
}

func nested(depth int, inner any) any {
	for range depth {
		inner = map[string]any{"a": inner}
	}
	return inner
}

// TestHostilePolicies reads what a pull request could bring to have us take long, or
// never come back.
func TestHostilePolicies(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		spec  map[string]any
		valid bool
	}{
		"thousands of rules": {map[string]any{"rules": many(2_000, func(i int) any {
			return ruleOf(fmt.Sprint("r", i), podsAnd(), map[string]any{"pattern": nested(5, "{{ request.object.spec.a }}")})
		})}, true},
		"thousands of rules of one name": {map[string]any{"rules": many(5_000, func(int) any {
			return ruleOf("a", podsAnd(), map[string]any{"deny": map[string]any{}})
		})}, false},
		"a hundred thousand kinds": {map[string]any{"rules": []any{
			ruleOf("a", podsAnd(many(100_000, func(i int) any { return fmt.Sprint("g/v1/K", i) })...), map[string]any{"deny": map[string]any{}}),
		}}, true},
		"wildcards upon wildcards": {map[string]any{"rules": []any{
			ruleOf("a", podsAnd(strings.Repeat("*a", 5_000)+"b"), map[string]any{"deny": map[string]any{}}),
		}}, true},
		"a deep pattern": {map[string]any{"rules": []any{
			ruleOf("a", podsAnd(), map[string]any{"pattern": nested(450, "b")}),
		}}, false},
		"a deep match": {map[string]any{"rules": []any{
			ruleOf("a", nested(450, "b").(map[string]any), map[string]any{"deny": map[string]any{}}),
		}}, false},
		"deep foreach": {map[string]any{"rules": []any{
			ruleOf("a", podsAnd(), map[string]any{"foreach": foreachIn(150)}),
		}}, true},
		"variables in variables": {map[string]any{"rules": []any{
			ruleOf("a", podsAnd(), map[string]any{"message": strings.Repeat("{{ request.object.", 2_000) + "x" + strings.Repeat(" }}", 2_000), "deny": map[string]any{}}),
		}}, true},
		"a long variable": {map[string]any{"rules": []any{
			ruleOf("a", podsAnd(), map[string]any{"message": "{{ " + strings.Repeat("x.", 100_000) + "y }}", "deny": map[string]any{}}),
		}}, false},
		"braces without an end": {map[string]any{"rules": []any{
			ruleOf("a", podsAnd(), map[string]any{"message": strings.Repeat("{{ ", 200_000), "deny": map[string]any{}}),
		}}, true},
		"parentheses": {map[string]any{"rules": []any{
			ruleOf("a", podsAnd(), map[string]any{"message": "{{ request." + strings.Repeat("(", 100_000) + " }}", "deny": map[string]any{}}),
		}}, false},
		"a thousand unknown fields": {func() map[string]any {
			m := map[string]any{}
			for i := range 1_000 {
				m[fmt.Sprint("validationFailureAction", i)] = strings.Repeat("x", 1_000)
			}
			return m
		}(), false},
		"conflicting overrides": {map[string]any{"validationFailureActionOverrides": many(20_000, func(i int) any {
			return map[string]any{"action": []string{"Audit", "Enforce"}[i%2], "namespaces": []any{fmt.Sprintf("*%d*", i)}}
		})}, false},
		"filters that exclude filters": {map[string]any{"rules": []any{map[string]any{
			"name": "a", "validate": map[string]any{"deny": map[string]any{}},
			"match":   map[string]any{"any": manyFilters("a")},
			"exclude": map[string]any{"any": manyFilters("b")},
		}}}, true},
		"attestors in attestors": {map[string]any{"validationFailureAction": "Enforce", "rules": []any{map[string]any{
			"name": "a", "match": podsAnd(), "verifyImages": []any{map[string]any{"imageReferences": []any{"*"}, "attestors": []any{attestorsIn(400)}}},
		}}}, false},
		"aliases in a patch": {map[string]any{"rules": []any{map[string]any{
			"name": "a", "match": podsAnd(), "mutate": map[string]any{"patchesJson6902": laughs},
		}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policies, _, err := Read(policyOf(row.spec), Options{})
			if valid := len(policies) == 1; valid != row.valid || valid != (err == nil) {
				t.Errorf("valid is %v: %.400v", valid, err)
			}
			for _, e := range render.Errors(err) {
				if len(e.Error()) > policy.MaxMessage+100 {
					t.Errorf("an error of %d bytes", len(e.Error()))
				}
			}
			if n := len(render.Errors(err)); n > MaxErrors {
				t.Errorf("%d errors", n)
			}
			for _, p := range policies {
				x := thing{kind: "Pod", metadata: meta{"name": strings.Repeat("a", 253)}}.target()
				for _, r := range p.RulesFor(schema.GroupVersionKind{Kind: "CronJob"}) {
					r.Matches(x)
				}
			}
		})
	}
}

func many(n int, make func(i int) any) []any {
	var all []any
	for i := range n {
		all = append(all, make(i))
	}
	return all
}

func manyFilters(prefix string) []any {
	return many(5_000, func(i int) any {
		return map[string]any{"resources": map[string]any{"kinds": []any{"Pod"}, "namespaces": []any{fmt.Sprint(prefix, i)}}}
	})
}

func foreachIn(depth int) []any {
	entry := map[string]any{"list": "request.object.a", "deny": map[string]any{}}
	for range depth {
		entry = map[string]any{"list": "request.object.a", "foreach": []any{entry}}
	}
	return []any{entry}
}

func attestorsIn(depth int) any {
	set := map[string]any{"entries": []any{map[string]any{"keys": map[string]any{"kms": "k"}}}}
	for range depth {
		set = map[string]any{"entries": []any{map[string]any{"attestor": set}}}
	}
	return set
}

// laughs doubles itself by aliases.
const laughs = `- &a [x, x, x, x, x, x, x, x, x, x]
- &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]
- &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]
- &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]
- &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]
- &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]
- &g [*f, *f, *f, *f, *f, *f, *f, *f, *f, *f]
- &h [*g, *g, *g, *g, *g, *g, *g, *g, *g, *g]
- &i [*h, *h, *h, *h, *h, *h, *h, *h, *h, *h]
`
