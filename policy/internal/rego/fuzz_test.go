package rego

import (
	"context"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
)

// FuzzProgram holds that a module decides the same whether or not rules are chosen by
// what they compare, and that the fields named as the cause of an answer are in the
// input, or said to be missing. A plan answers as OPA's evaluator does.
func FuzzProgram(f *testing.F) {
	for _, s := range []string{
		"deny contains input.a if input.b == 1", "deny contains x if { some x in input.l; x > 1 }", "deny contains m if { m := sprintf(\"%v %d\", [input, count(input.l)]) }",
		"f(x) := x if x == 1\nf(x) := 2 if x != 1\ndeny contains f(input.b)", "default allow := false\nallow if not input.b\ndeny contains allow", "deny contains x if { x := data.main.deny }",
		"p contains {\"m\": x, \"f\": f} if { some f in [\"a\", \"b\"]; x := input[f] }\ndeny contains m if data.main.p[{\"m\": m, \"f\": \"a\"}]", "deny contains x if { [x, 1] = [input.a, input.b]; not input.c.e }", "g(x, y) := z if { z := x + y }\ndeny contains g(input.l[_], input.b)", "deny contains y if { input.l[i] = input.b; y := {i: input.c.d[j] | j := i} }",
		"deny contains 1 if not {x | x := input.l[_]} == input", "deny contains walk(input)[0][_]", "deny contains x if x := [y | some y in input.l][_]", "deny contains object.get(input, [\"c\", \"d\"], 3)", "deny contains x if { regex.match(\"a+\", input.a); x := json.unmarshal(\"{}\") }",
	} {
		f.Add(s)
	}
	input := ast.MustParseTerm(`{"a": "aa", "b": 1, "c": {"d": [true, null]}, "l": [1, 2, 3]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return
		}
		m, err := Parse(Source{Name: "a.rego", Text: "package main\nimport rego.v1\n" + text})
		if err != nil {
			return
		}
		p, err := Compile(map[string]*ast.Module{"a.rego": m}, Options{Time: 200 * time.Millisecond})
		if err != nil {
			return
		}
		q, err := p.Prepare(ast.MustParseRef("data.main.deny"))
		if err != nil {
			return
		}
		in := Question{Input: input}
		ctx := context.Background()
		b, want, wantErrors, err := q.once(ctx, in, true)
		if b.err != nil {
			return
		}
		b, got, gotErrors, gotErr := q.once(ctx, in, false)
		if b.err != nil {
			return
		}
		if !sameValue(want, got) || (err == nil) != (gotErr == nil) {
			t.Errorf("%s\nby an index %v %v %v, without %v %v %v", text, want, wantErrors, err, got, gotErrors, gotErr)
		}
		besideOPA(t, q, in)
		set, ok := want.(ast.Set)
		if err != nil || !ok {
			return
		}
		var values []ast.Value
		set.Foreach(func(x *ast.Term) { values = append(values, x.Value) })
		causes, err := q.Causes(ctx, in, values)
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		places := newOrigins(input, nil, nil)
		for i, c := range causes {
			for _, field := range c.Fields {
				if places.exists(field.Path) == field.Missing {
					t.Errorf("%s\n%v is there because of %v, which the input has: %v", text, values[i], field, !field.Missing)
				}
			}
		}
	})
}
