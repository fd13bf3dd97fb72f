package cel

import (
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestWeight holds that values which hold the same parts again and again are
// refused before anything goes through them, and that others are not.
func TestWeight(t *testing.T) {
	t.Parallel()
	twice := func(n int) string { return "[[1, 2]]" + strings.Repeat(".map(x, [x, x])", n) }
	for expression, want := range map[string]string{
		"dyn(" + twice(40) + ") == [[1]]":                                               "parts refused",
		twice(40) + " == " + twice(40):                                                  "parts refused",
		"'%s'.format([" + twice(40) + "]) == ''":                                        "parts refused",
		"dyn([1]) in dyn(" + twice(40) + ")":                                            "parts refused",
		"[{'a': 1}]" + strings.Repeat(".map(x, {'a': x, 'b': x})", 40) + ".size() == 1": "parts refused",
		"[[1, 2]]" + strings.Repeat(".map(x, x + x)", 40) + ".size() == 1":              "refused",
		"['" + strings.Repeat("x", 4096) + "']" + strings.Repeat(".map(x, x + x)", 8) + ".map(x, [x, x, x, x, x, x, x, x, x]).size() == 1": "parts refused",

		twice(10) + " == " + twice(10):                 "",
		twice(14) + ".size() == 1":                     "",
		"lists.range(1000).map(x, [x]).size() == 1000": "",
		"[1, 2] + [3] == [1, 2, 3]":                    "",
	} {
		got := weighedEval(t, expression)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%.80s: %q, want %q", expression, got, want)
		}
	}
}

func weighedEval(t *testing.T, expression string) string {
	t.Helper()
	env, err := RunEnv()
	rendertest.OK(t, err)
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		t.Fatalf("%.80s: %v", expression, issues.Err())
	}
	p, err := Plan(ast)
	rendertest.OK(t, err)
	v, _, err := p.Eval(t.Context(), interpreter.EmptyActivation())
	if err != nil {
		return err.Error()
	}
	if v != types.True {
		return "false"
	}
	return ""
}
