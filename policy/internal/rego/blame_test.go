package rego

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestBlame asks policies as people write them what their violations are
// about. UPDATE_GOLDEN=1 rewrites what is wanted.
func TestBlame(t *testing.T) {
	t.Parallel()
	rendertest.Archives(t, "testdata/blame", blameCase)
}

// blameCase is what the rules of a case say, with the fields of each.
func blameCase(t *testing.T, a *txtar.Archive) string {
	modules := map[string]*ast.Module{}
	var pkg ast.Ref
	var input any
	review := map[string]any{}
	for _, f := range a.Files {
		switch {
		case strings.HasSuffix(f.Name, ".rego"):
			m, err := Parse(Source{Name: f.Name, Text: string(f.Data)})
			if err != nil {
				t.Fatal(texts(err))
			}
			modules[f.Name] = m
			if f.Name == "policy.rego" {
				pkg = m.Package.Path
			}
		case f.Name == "input.yaml":
			input = document(t, f.Data)
		case f.Name == "object.yaml":
			object := document(t, f.Data).(map[string]any)
			review["review"] = map[string]any{"object": object, "operation": "CREATE", "kind": map[string]any{"group": "", "version": "v1", "kind": object["kind"]}}
		case f.Name == "parameters.yaml":
			review["parameters"] = document(t, f.Data)
			input = review
		}
	}
	p, err := Compile(modules, Options{})
	if err != nil {
		t.Fatal(texts(err))
	}
	var b strings.Builder
	for _, rule := range []string{"deny", "violation", "warn"} {
		ref := slices.Concat(pkg, ast.Ref{ast.StringTerm(rule)})
		if len(p.Rules(ref)) > 0 {
			blameRule(t, p, ref, Question{Input: Value(input), Data: inventory()}, &b)
		}
	}
	return b.String()
}

// inventory has an ingress for host a.example.
func inventory() *Data {
	return NewData(ast.MustParseTerm(`{"inventory": {"namespace": {"other": {"networking.k8s.io/v1": {"Ingress": {"x":
		{"metadata": {"name": "x", "namespace": "other"}, "spec": {"rules": [{"host": "a.example"}]}}}}}}}}`).Value.(ast.Object))
}

func blameRule(t *testing.T, p *Program, ref ast.Ref, in Question, b *strings.Builder) {
	q, err := p.Prepare(ref)
	rendertest.OK(t, err)
	var values []ast.Value
	each(ask(t, q, in).Value, func(v *ast.Term) { values = append(values, v.Value) })
	slices.SortFunc(values, func(x, y ast.Value) int { return cmp.Compare(x.String(), y.String()) })
	blamed, err := blame(q, in, values)
	rendertest.OK(t, err)
	for i, v := range values {
		fmt.Fprintf(b, "%s\n", said(v))
		for _, f := range blamed[i] {
			fmt.Fprintf(b, "  %s%s%s\n", strings.Join(f.Path, "/"), map[bool]string{true: " missing"}[f.Missing], map[bool]string{false: " unsure"}[f.Sure])
		}
	}
}

func said(v ast.Value) string {
	if o, ok := v.(ast.Object); ok {
		return textOf(o.Get(ast.StringTerm("msg")))
	}
	return string(v.(ast.String))
}

func document(t *testing.T, data []byte) any {
	var x any
	rendertest.OK(t, yaml.Unmarshal(data, &x))
	return x
}

// blame are the fields of each value.
func blame(q *Query, in Question, values []ast.Value) ([][]Field, error) {
	causes, err := q.Causes(context.Background(), in, values)
	fields := make([][]Field, len(causes))
	for i, c := range causes {
		fields[i] = c.Fields
	}
	return fields, err
}
