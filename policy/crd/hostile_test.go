package crd_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// object makes an object of a tree, without provenance.
func object(tree map[string]any) *render.Object {
	return &render.Object{Unstructured: &unstructured.Unstructured{Object: tree}}
}

func definitionOf(spec map[string]any, rest map[string]any) *render.Object {
	root := map[string]any{"type": "object", "properties": map[string]any{"spec": spec}}
	for k, v := range rest {
		root[k] = v
	}
	return object(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "things.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Cluster",
			"names": map[string]any{"kind": "Thing", "plural": "things"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": root},
			}},
		},
	})
}

func thing(spec any) *render.Object {
	return object(map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": spec,
	})
}

func strs(n int, s string) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = s
	}
	return list
}

// TestHostile gives an answer in bounded time and size, whatever the
// definition and the object are.
func TestHostile(t *testing.T) {
	t.Parallel()
	texts := map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	rule := func(texts ...string) []any {
		var rules []any
		for _, r := range texts {
			rules = append(rules, map[string]any{"rule": r})
		}
		return rules
	}
	with := func(schema map[string]any, key string, value any) map[string]any {
		out := map[string]any{key: value}
		for k, v := range schema {
			out[k] = v
		}
		return out
	}
	var branches []any
	for i := range 3000 {
		branches = append(branches, map[string]any{"minLength": int64(i)})
	}
	longKey := strings.Repeat("k", 1<<20)
	for _, c := range []struct {
		name string
		spec map[string]any
		rest map[string]any
		of   any
		want string // in one of the messages
	}{
		{
			"nested loops", with(texts, "x-kubernetes-validations", rule("self.all(a, self.all(b, self.all(c, a+b+c != '')))")), nil,
			strs(300, "x"), "cost limit exceeded",
		},
		{"budget of the object", map[string]any{"type": "array", "items": map[string]any{
			"type": "string", "x-kubernetes-validations": rule("[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, a + b > 0))"),
		}}, nil, strs(50_000, "x"), "running out of cost budget"},
		{"rules that cost nothing", map[string]any{"type": "array", "items": map[string]any{
			"type": "string", "x-kubernetes-validations": rule("true", "true", "true", "true", "true", "true", "true"),
		}}, nil, strs(100_000, ""), "more than 200000 evaluations"},
		{
			"quantity", with(texts, "x-kubernetes-validations", rule("self.all(s, isQuantity(s))")), nil,
			[]any{"1e999999999"},
			"quantity out of range",
		},
		{
			"pattern",
			map[string]any{"type": "string", "pattern": "^(x*y?){1000}$"},
			nil,
			strings.Repeat("x", 1<<20), "patterns or branches are too much",
		},
		{
			"branches",
			map[string]any{"type": "array", "items": map[string]any{"type": "string", "anyOf": branches}},
			nil,
			strs(50_000, "x"), "patterns or branches are too much",
		},
		{"wrong values", texts, nil, func() any {
			list := make([]any, 200_000)
			for i := range list {
				list[i] = int64(i)
			}
			return list
		}(), "more failures of this object are not listed"},
		{"unknown fields", map[string]any{"type": "object"}, nil, func() any {
			m := map[string]any{}
			for i := range 20_000 {
				m[fmt.Sprint("f", i)] = true
			}
			return m
		}(), "more failures of this object are not listed"},
		{
			"long key",
			map[string]any{"type": "object", "additionalProperties": texts},
			nil,
			map[string]any{longKey: strs(1000, "x")},
			"too large to be checked",
		},
		{
			"key of dots",
			map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "integer"}},
			nil,
			map[string]any{strings.Repeat(".[x]", 10_000): "x"},
			"spec..[x].[x]",
		},
		{
			"long message",
			map[string]any{"type": "string", "enum": []any{"a"}},
			nil,
			strings.Repeat("x", 100_000), "Unsupported value",
		},
		{"newlines in a message", map[string]any{"type": "string", "x-kubernetes-validations": []any{
			map[string]any{"rule": "false", "messageExpression": "'a\\n' + self", "message": "plain"},
		}}, nil, "b", "plain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			results := evaluate(t, "", []*render.Object{definitionOf(c.spec, c.rest)}, nil, []*render.Object{thing(c.of)})
			found := false
			for _, r := range results {
				found = found || strings.Contains(r.Message, c.want) && r.Outcome != policy.Pass
				if len(r.Message) > 4<<10 {
					t.Errorf("a message of %d bytes", len(r.Message))
				}
			}
			if !found || len(results) > 110 {
				for _, r := range results[:min(len(results), 5)] {
					t.Log(r.Outcome, r.Rule, r.Message[:min(len(r.Message), 300)])
				}
				t.Errorf("%d results, none says %q", len(results), c.want)
			}
		})
	}
}

// TestHostileDefinitions gives an answer on definitions that take much to
// compile.
func TestHostileDefinitions(t *testing.T) {
	t.Parallel()
	var many []any
	for range 6000 {
		many = append(many, map[string]any{"rule": "true"})
	}
	deep := map[string]any{"type": "string"}
	for range 200 {
		deep = map[string]any{"type": "object", "properties": map[string]any{"a": deep}}
	}
	for _, c := range []struct {
		name string
		spec map[string]any
		want string
	}{
		{"many rules", map[string]any{"type": "object", "x-kubernetes-validations": many}, "too many to be checked"},
		{"long rules", map[string]any{"type": "object", "x-kubernetes-validations": []any{
			map[string]any{"rule": strings.Repeat("(", 600_000)},
		}}, "too many to be checked"},
		{"parentheses", map[string]any{"type": "object", "x-kubernetes-validations": []any{
			map[string]any{"rule": strings.Repeat("(", 100_000) + "true" + strings.Repeat(")", 100_000)},
		}}, "compilation failed"},
		{"big pattern", map[string]any{"type": "string", "pattern": "^(x*y?){1000}$", "default": strings.Repeat("x", 1<<20)}, "too much to be tried"},
		{"deep", deep, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := definitionOf(c.spec, nil)
			results := evaluate(t, "1.30", []*render.Object{d}, nil, []*render.Object{d, thing(map[string]any{})})
			found := false
			for _, r := range results {
				found = found || strings.Contains(r.Message, c.want)
			}
			if !found {
				t.Errorf("none of %d says %q: %+v", len(results), c.want, results)
			}
		})
	}
}

// TestHostileUpdate says so when there are too many errors to tell which were
// there before.
func TestHostileUpdate(t *testing.T) {
	t.Parallel()
	definition := definitionOf(map[string]any{"type": "array", "items": map[string]any{"type": "integer"}}, nil)
	for _, c := range []struct {
		values int
		want   policy.Outcome
	}{{50, policy.Fail}, {50_000, policy.Error}} {
		old, now := thing(strs(c.values, "x")), thing(strs(c.values, "y"))
		results := evaluate(t, "", []*render.Object{definition}, []*render.Object{old}, []*render.Object{now})
		for _, r := range results {
			if r.Outcome != c.want {
				t.Errorf("%d values: %s %s %s", c.values, r.Outcome, r.Rule, r.Message)
			}
		}
		if len(results) == 0 {
			t.Errorf("%d values: no results", c.values)
		}
		same := evaluate(t, "", []*render.Object{definition}, []*render.Object{old}, []*render.Object{old})
		if c.want == policy.Fail && (len(same) != 1 || same[0].Outcome != policy.Pass) {
			t.Errorf("nothing has changed: %+v", same)
		}
	}
}
