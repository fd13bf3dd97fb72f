package explain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

func list(n int, element any) []any {
	l := make([]any, n)
	for i := range l {
		l[i] = element
	}
	return l
}

// TestHostile bounds what an expression or an object can make us do: each
// gives ErrLimit, or an explanation of bounded size.
func TestHostile(t *testing.T) {
	t.Parallel()
	nested := "true"
	for i := range 12 {
		nested = fmt.Sprintf("object.ten.all(x%d, %s)", i, nested)
	}
	doubling := "'xxxxxxxx'"
	for i := range 30 {
		doubling = fmt.Sprintf("[%s].map(x%d, x%d + x%d)[0]", doubling, i, i, i)
	}
	sum := "object.n" + strings.Repeat(" + 1", 200)
	object := map[string]any{
		"ten": list(10, int64(1)), "n": int64(1),
		"many": list(20_000, map[string]any{"name": "x"}),
		"big":  strings.Repeat("x", 1<<20), "exp": "1e999999999",
	}
	for _, c := range []struct {
		name, expr string
		err        error
		culprits   int
	}{
		{"nested quantifiers", "!" + nested, ErrLimit, 0},
		{"string doubling", doubling + " == ''", ErrLimit, 0},
		{"slow regex", "object.big.matches('" + strings.Repeat("x*", 400) + "y')", ErrLimit, 0},
		{"huge join", "object.many.map(m, object.big).join(object.big) == ''", ErrLimit, 0},
		{"replace by more", "object.big.replace('x', object.big) == ''", ErrLimit, 0},
		{"quantity exponent", "quantity(object.exp).isInteger()", ErrLimit, 0},
		{"long sum", sum + " == 0", nil, 1},
		{"long disjunction", "object.n == 2" + strings.Repeat(" || object.n == 3", 2000), nil, 1},
		{"many at fault", "object.many.all(m, m.name == 'y')", nil, MaxCulprits},
		{"many among many", "object.ten.all(a, object.many.exists(m, m.name == 'y'))", nil, 1},
		{"many against many", "object.many.all(a, object.many.exists(m, m == 'y'))", nil, 1},
		{"many satisfied by many", "object.many.all(a, object.many.all(m, m.name != 'y')) && false", ErrLimit, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ast, issues := testEnv().Compile(c.expr)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			e, err := New(testEnv(), ast, nil)
			rendertest.OK(t, err)
			ex, err := e.Explain(t.Context(), Input{Roots: map[string]any{"object": object}, Want: true, Steps: 20})
			if !errors.Is(err, c.err) || len(ex.Culprits) != c.culprits {
				t.Errorf("%v, %d culprits; want %v, %d", err, len(ex.Culprits), c.err, c.culprits)
			}
			if len(ex.Summary) > 2000 || len(ex.Steps) > 20 {
				t.Errorf("summary of %d bytes, %d steps", len(ex.Summary), len(ex.Steps))
			}
		})
	}
}

// TestVariablesDoubling shares variables, each of which uses the one before it
// twice: nodes are asked once.
func TestVariablesDoubling(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.roots["object"] = map[string]any{"n": int64(1)}
	f.variables = []Variable{{"v0", compileExpr(t, testEnv(), "object.n == 2")}}
	for i := range 60 {
		expr := fmt.Sprintf("variables.v%d || variables.v%d", i, i)
		f.variables = append(f.variables, Variable{fmt.Sprintf("v%d", i+1), compileExpr(t, testEnv(), expr)})
	}
	ex := f.explain(t, "variables.v60", 1000)
	rendertest.Equal(t, []string{"object#/n"}, pointers(ex))
}

func TestVariablesInACircle(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.variables = []Variable{
		{"a", compileExpr(t, testEnv(), "variables.b")},
		{"b", compileExpr(t, testEnv(), "variables.a")},
	}
	if ex := f.explain(t, "variables.a", 100); ex.Culprits != nil {
		t.Errorf("culprits %v", ex.Culprits)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e, err := New(testEnv(), compileExpr(t, testEnv(), "object.all(x, x == 1)"), nil)
	rendertest.OK(t, err)
	_, err = e.Explain(ctx, Input{Roots: map[string]any{"object": list(5000, int64(2))}, Want: true})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestNoCulprits gives no culprits where there is nothing to point at, or
// where the expression did not fail.
func TestNoCulprits(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.roots["object"] = map[string]any{"n": int64(1)}
	for _, expr := range []string{"false", "1 == 2", "object.n == 1", "[1, 2].all(x, x == 1)", "1 / 0 == 1"} {
		if ex := f.explain(t, expr, 0); ex.Culprits != nil {
			t.Errorf("%s: %v", expr, ex.Culprits)
		}
	}
}

// TestWantFalse explains a condition that should not have held.
func TestWantFalse(t *testing.T) {
	t.Parallel()
	e, err := New(testEnv(), compileExpr(t, testEnv(), "object.a == 1 && object.b.exists(x, x > 1)"), nil)
	rendertest.OK(t, err)
	object := map[string]any{"a": int64(1), "b": []any{int64(1), int64(2)}}
	ex, err := e.Explain(t.Context(), Input{Roots: map[string]any{"object": object}})
	rendertest.OK(t, err)
	rendertest.Equal(t, []string{"object#/b/1", "object#/a"}, pointers(ex))
}

// TestVariablesAsMap uses variables without naming one, and only some of them.
func TestVariablesAsMap(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.roots["object"] = map[string]any{"a": int64(1), "b": int64(2)}
	f.variables = []Variable{
		{"a", compileExpr(t, testEnv(), "object.a")},
		{"b", compileExpr(t, testEnv(), "object.b + variables.a")},
	}
	for expr, want := range map[string][]string{
		"variables.all(k, v, v < 2)":           {"object#/a", "object#/b"},
		"variables['a'] == 2":                  {"object#/a"},
		"has(variables.b) && variables.b==1":   {"object#/a", "object#/b"},
		"variables.map(k, variables[k]) == []": {"object#/a", "object#/b"},
	} {
		if diff := cmp.Diff(want, pointers(f.explain(t, expr, 10))); diff != "" {
			t.Errorf("%s: %s", expr, diff)
		}
	}
}

// TestPresenceOfVariable asks only whether there is a variable, so that others need not
// be evaluated.
func TestPresenceOfVariable(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.roots["object"] = map[string]any{"a": int64(1)}
	f.variables = []Variable{
		{"a", compileExpr(t, testEnv(), "object.a")},
		{"b", compileExpr(t, testEnv(), "object.missing")},
	}
	for expr, want := range map[string][]string{
		"!has(variables.b)":                      nil,
		"has(variables.b) && variables.a == 2":   {"object#/a"},
		"!has(variables.b) || object.a == 2":     {"object#/a"},
		"has(variables.b) ? object.a > 1 : true": {"object#/a"},
	} {
		if diff := cmp.Diff(want, pointers(f.explain(t, expr, 10))); diff != "" {
			t.Errorf("%s: %s", expr, diff)
		}
	}
}

// TestSecret keeps the content of Secrets out of the texts.
func TestSecret(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.roots["object"] = map[string]any{"kind": "Secret", "stringData": map[string]any{"k": "hunter2"}}
	for _, expr := range []string{
		"object.stringData.k == 'x'", "object.stringData.all(k, v, v.startsWith('x') || v == k)",
		"ip(object.stringData.k).family() == 4", "object.stringData.k.split('').size() == 3 && false",
	} {
		ex := f.explain(t, expr, 100)
		if len(ex.Culprits) == 0 && !strings.HasSuffix(expr, "false") {
			t.Errorf("%s: no culprits", expr)
		}
		texts := ex.Summary
		for _, s := range ex.Steps {
			texts += s.Text + s.Value + s.Loop
		}
		if strings.Contains(texts, "hunter") {
			t.Errorf("%s: told: %s", expr, texts)
		}
	}
}

// TestConcurrent shares one Explainer.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	e, err := New(testEnv(), compileExpr(t, testEnv(), "object.l.all(x, x.startsWith(params.p))"), nil)
	rendertest.OK(t, err)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 50 {
				object := map[string]any{"l": append(list(i+j, "ok"), "bad")}
				in := Input{Roots: map[string]any{"object": object, "params": map[string]any{"p": "ok"}}, Want: true}
				ex, err := e.Explain(t.Context(), in)
				want := []string{fmt.Sprintf("object#/l/%d", i+j), "params#/p"}
				if err != nil || !cmp.Equal(want, pointers(ex)) {
					t.Errorf("%v, %v; want %v", pointers(ex), err, want)
				}
			}
		})
	}
	group.Wait()
}

// TestSharedParts holds that a list which contains another twice, and so on, is not
// expanded.
func TestSharedParts(t *testing.T) {
	t.Parallel()
	variables := []Variable{{"v0", compileExpr(t, testEnv(), "[1, 2]")}}
	for i := range 40 {
		expr := fmt.Sprintf("[variables.v%d, variables.v%d]", i, i)
		if i%2 == 1 {
			expr = fmt.Sprintf("{'a': variables.v%d, 'b': variables.v%d}", i, i)
		}
		variables = append(variables, Variable{fmt.Sprintf("v%d", i+1), compileExpr(t, testEnv(), expr)})
	}
	for _, expr := range []string{"variables.v40 == variables.v40", "'%s'.format([variables.v40]) == ''", "variables.v40 in [variables.v40]"} {
		e, err := New(testEnv(), compileExpr(t, testEnv(), expr), variables)
		rendertest.OK(t, err)
		if _, err = e.Explain(t.Context(), Input{Want: true}); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", expr, err)
		}
	}
}
