package cel

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/preadmit/preadmit/render/rendertest"
)

// A published expression, with what it yields.
type published struct {
	ID, Expr, Library, K8sVersion, EnvType, Container, K8s137 string
	NeedsProto, NeedsCustomVariables, DisableCheck            bool
	CheckOnly, CompileOnly                                    bool
	Value                                                     map[string]any
	Error                                                     []string
	ErrorPhase                                                string
	Vars, Types                                               json.RawMessage
}

const tables = "../../../../shared/corpora/cel-expr/"

var noInput, _ = cel.NewActivation(map[string]any{})

// yields compiles and runs an expression both ways, and fails if these differ.
func yields(t *testing.T, env *cel.Env, expression string) (ref.Val, error) {
	t.Helper()
	ast, err := Compile(env, expression)
	if err != nil {
		return nil, err
	}
	p, err := Plan(ast)
	if err != nil {
		return nil, err
	}
	fast, fastErr := p.Eval(noInput)
	exact, cost, exactErr := p.EvalExact(context.Background(), noInput)
	if (fastErr == nil) != (exactErr == nil) || fastErr == nil && types.Equal(fast, exact) == types.False && fast.Type() != types.DoubleType {
		t.Errorf("%s: fast gives %v, %v, exact %v, %v", expression, fast, fastErr, exact, exactErr)
	}
	if bound := Cost(ast, Roots{}); exactErr == nil && uint64(cost) > bound {
		t.Errorf("%s: costs %d, more than the bound %d", expression, cost, bound)
	}
	return fast, fastErr
}

func newestEnv(t *testing.T) *cel.Env {
	t.Helper()
	env, err := (Newest() + 1).Env(Declarations{})
	rendertest.OK(t, err)
	return env
}

// TestCELSpec runs the published conformance expressions that the API server
// answers as the specification does.
func TestCELSpec(t *testing.T) {
	t.Parallel()
	env := newestEnv(t)
	n := 0
	for _, p := range rendertest.Rows[published](t, tables+"cel-spec.jsonl") {
		if p.K8s137 != "same" || p.Container != "" || p.NeedsProto || p.DisableCheck || p.CheckOnly || p.Vars != nil || p.Types != nil {
			continue
		}
		v, err := yields(t, env, p.Expr)
		checkPublished(t, p, v, err)
		n++
	}
	tell(t, "CEL specification", n)
	if n < 500 {
		t.Errorf("only %d expressions", n)
	}
}

// TestKubernetesLibraries runs the expressions of the API server's own tests,
// each in the environment that it is about.
func TestKubernetesLibraries(t *testing.T) {
	t.Parallel()
	n := 0
	for _, p := range rendertest.Rows[published](t, tables+"k8s-cel.jsonl") {
		if p.NeedsCustomVariables || p.CompileOnly || strings.HasPrefix(p.Library, "vap") || p.EnvType == "StoredExpressions" {
			continue
		}
		env := newestEnv(t)
		if p.K8sVersion != "" {
			minor, err := strconv.Atoi(strings.TrimPrefix(p.K8sVersion, "1."))
			rendertest.OK(t, err)
			if env, err = Version(minor + 1).Env(Declarations{}); err != nil {
				t.Fatal(err)
			}
		}
		v, err := yields(t, env, p.Expr)
		checkPublished(t, p, v, err)
		n++
	}
	tell(t, "CEL libraries of Kubernetes", n)
	if n < 250 {
		t.Errorf("only %d expressions", n)
	}
}

// tell logs the line that make conformance reads, of a test that fails at
// each difference.
func tell(t *testing.T, table string, n int) {
	t.Helper()
	if !t.Failed() {
		t.Logf("table %s: %d / %d", table, n, n)
	}
}

func checkPublished(t *testing.T, p published, v ref.Val, err error) {
	t.Helper()
	switch {
	case len(p.Error) > 0 || p.ErrorPhase != "":
		if err == nil {
			t.Errorf("%s: %s: want an error, got %v", p.ID, p.Expr, v)
		}
	case err != nil:
		t.Errorf("%s: %s: %v", p.ID, p.Expr, err)
	case p.Value != nil && !isPublished(v, p.Value):
		t.Errorf("%s: %s: want %v, got %v (%T)", p.ID, p.Expr, p.Value, v, v)
	}
}

// isPublished compares a value with its published form, {"int": "1"} and so
// on, as far as that form has one answer.
func isPublished(v ref.Val, want map[string]any) bool {
	for kind, w := range want {
		switch kind {
		case "int", "uint", "bool", "string", "null":
			got := fmt.Sprint(v.Value())
			if v == types.NullValue {
				got = "<nil>"
			}
			return got == fmt.Sprint(w) || kind == "null" && v == types.NullValue
		case "double":
			f, err := strconv.ParseFloat(fmt.Sprint(w), 64)
			return err != nil || fmt.Sprint(float64(v.(types.Double))) == fmt.Sprint(f)
		case "list":
			l, ok := v.(traits.Lister)
			list, isList := w.([]any)
			return ok && (!isList || l.Size() == types.Int(len(list)))
		case "map":
			_, ok := v.(traits.Mapper)
			return ok
		}
	}
	return true
}

// TestCosts compares costs with those that the API server's own programs
// count, and holds the bound against them.
func TestCosts(t *testing.T) {
	t.Parallel()
	env := newestEnv(t)
	n := 0
	for _, name := range []string{"k8s-cel-cost.jsonl", "k8s-cel.jsonl", "cel-spec.jsonl"} {
		for _, p := range rendertest.Rows[published](t, tables+name) {
			ast, err := Compile(env, p.Expr)
			if err != nil {
				continue // it reads variables, or is about not compiling
			}
			compareCost(t, env, ast, p.Expr)
			n++
		}
	}
	tell(t, "CEL costs", n)
	if n < 1000 {
		t.Errorf("only %d expressions", n)
	}
}

// TestJoinBound holds the bound of joined lists that expressions make against their
// cost, and far below the limit from which on costs are counted.
func TestJoinBound(t *testing.T) {
	t.Parallel()
	env := newestEnv(t)
	for _, expression := range []string{
		"['a', 'bcd'].map(x, x + '-').join(', ')",
		"['a', 'bcd'].filter(x, x != 'a').map(x, [x]).map(x, x[0] + '!').join()",
		"'in ' + [['a', 'b'], ['c']].map(l, l.join(' and ')).join('; ')",
		"[1, 22, 333].map(n, string(n)).join('------------------------------------------------')",
		"'a b c d e f'.split(' ').map(x, x + x).join(', ').size() > 3",
	} {
		ast, err := Compile(env, expression)
		if err != nil {
			t.Fatalf("%s: %v", expression, err)
		}
		compareCost(t, env, ast, expression)
		if bound := Cost(ast, Roots{}); bound > 50_000 {
			t.Errorf("%s: the bound is %d", expression, bound)
		}
	}
}

// TestContainerBound holds that what an expression iterates is bounded as a list and not
// as a text, and that the bound covers texts in the place of lists.
func TestContainerBound(t *testing.T) {
	t.Parallel()
	env, err := Newest().Env(Declarations{Variables: map[string]*cel.Type{"object": cel.DynType}})
	rendertest.OK(t, err)
	long := strings.Repeat("x", 5000)
	lists, sizes := Freeze(map[string]any{"a": []any{long, "b"}, "b": []any{"c"}, "c": []any{"d", long, "e"}})
	texts, textSizes := Freeze(map[string]any{"a": long, "b": long, "c": []any{"d", "e"}})
	for _, expression := range []string{
		`(object.a + object.b).exists(x, x == "b")`,
		`(object.a + object.b + object.a).filter(x, x in object.b).map(x, x + "b")`,
		`object.c.exists(y, (object.a + object.b).exists(x, x == y) || false)`,
		`object.c.all(y, (has(object.a) ? object.a + object.b : []).exists(x, x == y) || true)`,
		`object.c.map(y, y in object.a || true)`,
		`object.c.map(y, y in (object.a + object.b) || true)`,
		`dyn(object.a).exists_one(x, x == "b")`,
	} {
		ast, err := Compile(env, expression)
		if err != nil {
			t.Fatal(expression, err)
		}
		program, err := Plan(ast)
		if err != nil {
			t.Fatal(expression, err)
		}
		if bound := Cost(ast, Roots{Inputs: sizes}); bound > 100_000 {
			t.Errorf("%s: bound %d", expression, bound)
		}
		for _, c := range []struct {
			object ref.Val
			sizes  Sizes
		}{{lists, sizes}, {texts, textSizes}} {
			input, err := cel.NewActivation(map[string]any{"object": c.object})
			rendertest.OK(t, err)
			_, cost, _ := program.EvalExact(t.Context(), input)
			if bound := Cost(ast, Roots{Inputs: c.sizes}); cost == 0 || bound < uint64(cost) {
				t.Errorf("%s: bound %d, cost %d", expression, bound, cost)
			}
		}
	}
}

func compareCost(t *testing.T, env *cel.Env, ast *cel.Ast, expression string) {
	t.Helper()
	upstream, err := env.Program(ast)
	if err != nil {
		return
	}
	program, err := Plan(ast)
	if err != nil {
		t.Errorf("%s: %v", expression, err)
		return
	}
	want, details, wantErr := upstream.ContextEval(context.Background(), noInput)
	got, cost, gotErr := program.EvalExact(context.Background(), noInput)
	if fmt.Sprint(wantErr) != fmt.Sprint(gotErr) || wantErr == nil && types.Equal(want, got) == types.False && want.Type() != types.DoubleType {
		t.Errorf("%s: want %v, %v, got %v, %v", expression, want, wantErr, got, gotErr)
	}
	if details == nil || strings.Contains(expression, "{") && strings.Contains(expression, "(k, ") {
		return // macros stop at some entry of a map literal, in whatever order they come
	}
	if actual := *details.ActualCost(); actual != uint64(cost) {
		t.Errorf("%s: costs %d, want %d", expression, cost, actual)
	}
	if bound := Cost(ast, Roots{}); bound < uint64(cost) {
		t.Errorf("%s: bound %d is less than the cost %d", expression, bound, cost)
	}
}
