package rego

import (
	"context"
	"fmt"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/render/rendertest"
)

// program compiles texts, or ends the test.
func program(t testing.TB, texts ...string) *Program {
	t.Helper()
	p, err := tryProgram(texts...)
	rendertest.OK(t, err)
	return p
}

func tryProgram(texts ...string) (*Program, error) {
	modules := map[string]*ast.Module{}
	for i, text := range texts {
		name := string(rune('a'+i)) + ".rego"
		m, err := Parse(Source{Name: name, Text: text})
		if err != nil {
			return nil, err
		}
		modules[name] = m
	}
	return Compile(modules, Options{ExternalData: true})
}

// place is where an error is, as compilers write it.
func place(e *Error) string { return fmt.Sprintf("%s:%d:%d", e.Name, e.Line, e.Column) }

func query(t testing.TB, p *Program, ref string) *Query {
	t.Helper()
	q, err := p.Prepare(ast.MustParseRef(ref))
	rendertest.OK(t, err)
	return q
}

func ask(t testing.TB, q *Query, in Question) Answer {
	t.Helper()
	a, err := q.Ask(context.Background(), in)
	rendertest.OK(t, err)
	return a
}

func TestAskBothVersionsTogether(t *testing.T) {
	t.Parallel()
	p := program(t, `package old
deny[msg] { not input.spec.replicas; msg := data.lib.text("replicas") }`,
		`package lib
text(x) := sprintf("no %s", [x]) if x != ""`)
	q := query(t, p, "data.old.deny")
	a := ask(t, q, Question{Input: Value(map[string]any{"spec": map[string]any{}})})
	rendertest.Equal(t, []any{"no replicas"}, Plain(a.Value))
	if len(p.Rules(ast.MustParseRef("data.old.deny"))) == 0 || len(p.Rules(ast.MustParseRef("data.old.dney"))) > 0 {
		t.Error("Has is wrong")
	}
	if a := ask(t, query(t, p, "data.none.deny"), Question{}); a.Value != nil {
		t.Errorf("got %v of nothing", a.Value)
	}
}
