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

// yields compiles and runs an expression.
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
	v, _, err := p.Eval(context.Background(), noInput)
	return v, err
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

// TestCosts compares costs with those that the API server's own programs count.
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
	got, cost, gotErr := program.Eval(context.Background(), noInput)
	if fmt.Sprint(wantErr) != fmt.Sprint(gotErr) || wantErr == nil && types.Equal(want, got) == types.False && want.Type() != types.DoubleType {
		t.Errorf("%s: want %v, %v, got %v, %v", expression, want, wantErr, got, gotErr)
	}
	if details == nil || strings.Contains(expression, "{") && strings.Contains(expression, "(k, ") {
		return // macros stop at some entry of a map literal, in whatever order they come
	}
	if actual := *details.ActualCost(); actual != uint64(cost) {
		t.Errorf("%s: costs %d, want %d", expression, cost, actual)
	}
}
