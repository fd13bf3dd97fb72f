package cel

import (
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// TestFits holds that lists, maps and texts which an expression made are measured
// wherever they are in its value, and that one of very many parts does not fit.
func TestFits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 11)
	env := newestEnv(t)
	for _, c := range []struct {
		expression string
		want       bool
	}{
		{`1`, true},
		{`"` + long + `"`, false},
		{`b"` + long + `"`, false},
		{`["a", "b", "c"]`, true},
		{`["a", "b", "c"] + ["d"]`, false},
		{`["a", "` + long + `"]`, false},
		{`[["a"], ["` + long + `"]]`, false},
		{`{"a": ["b"], "c": ["d"]}`, true},
		{`{"a": 1, "b": 2, "c": 3, "d": 4}`, false},
		{`{"` + long + `": 1}`, false},
		{`{"a": {"b": "` + long + `"}}`, false},
		{`optional.of("` + long + `")`, false},
		{`optional.none()`, true},
	} {
		ast, err := Compile(env, c.expression)
		if err != nil {
			t.Fatal(c.expression, err)
		}
		program, err := Plan(ast)
		if err != nil {
			t.Fatal(c.expression, err)
		}
		v, err := program.Eval(noInput)
		if err != nil {
			t.Fatal(c.expression, err)
		}
		if got := Fits(v, Sizes{Items: 3, Length: 10}); got != c.want {
			t.Errorf("%s: %t", c.expression, got)
		}
	}
	list, _ := Freeze([]any{"a", "b"})
	both := list.(*List).and(list.(*List))
	if Fits(both, Sizes{Items: 3, Length: 10}) {
		t.Error("two lists that are added fit")
	}
	var v ref.Val = types.String("a")
	for range 40 {
		v = types.NewRefValList(types.DefaultTypeAdapter, []ref.Val{v, v})
	}
	if Fits(v, Sizes{Items: 3, Length: 10}) {
		t.Error("a value of a trillion parts fits")
	}
}
