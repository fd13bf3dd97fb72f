package rego

import (
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/render/rendertest"
)

func TestPrepareAll(t *testing.T) {
	t.Parallel()
	p := program(t, "package main\na contains 1 if input.x\nb contains 2\nc := 3 if input.x\n")
	for _, tt := range []struct{ refs, input, want string }{
		{"[data.main.a, data.main.b]", `{}`, "[set(), {2}]"},
		{"[data.main.b, data.main.a]", `{"x": 1}`, "[{2}, {1}]"},
		{"[data.main.b, data.main.c]", `{}`, ""},
	} {
		var refs []ast.Ref
		ast.MustParseTerm(tt.refs).Value.(*ast.Array).Foreach(func(r *ast.Term) { refs = append(refs, r.Value.(ast.Ref)) })
		q, err := p.PrepareAll(refs)
		rendertest.OK(t, err)
		got := ""
		if v := ask(t, q, Question{Input: ast.MustParseTerm(tt.input)}).Value; v != nil {
			got = v.String()
		}
		if got != tt.want {
			t.Errorf("%s of %s is %q, want %q", tt.refs, tt.input, got, tt.want)
		}
	}
}
