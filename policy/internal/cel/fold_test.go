package cel

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestFold decides expressions for every object: T and F are constants, ? depends on
// the object. The values of the fields are not known.
func TestFold(t *testing.T) {
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.Variable("variables", cel.DynType))
	rendertest.OK(t, err)
	compile := func(source string) *cel.Ast {
		a, issues := env.Compile(source)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", source, issues.Err())
		}
		return a
	}
	variables := map[string]*cel.Ast{
		"kind":   compile("object.kind"),
		"isPod":  compile("object.kind == 'Pod'"),
		"always": compile("1 < 2"),
		"cycle":  compile("variables.cycle"),
	}
	for _, test := range []struct{ assume, source, want string }{
		{"", "object.a", "?"},
		{"", "object.a == 1", "?"},
		{"", "1 + 1 == 2", "T"},
		{"", "[1, 2].all(x, x > 2)", "F"},
		{"", "object.a || true", "T"},
		{"", "object.a && 'a'.startsWith('b')", "F"},
		{"", "object.a == object.a", "T"},
		{"", "object.a != object.a", "F"},
		{"", "object.a == 'x' && object.a == 'y'", "F"},
		{"", "object.a == 'x' && object.b == 'y'", "?"},
		{"", "object.a != 'x' || object.a != 'y'", "T"},
		{"", "object.a == 'x' || object.a == 'y'", "?"},
		{"", "object.n > 5 && object.n < 3", "F"},
		{"", "object.n > 5 && object.n <= 5", "F"},
		{"", "object.n >= 5 && object.n <= 5", "?"},
		{"", "object.n > 5 && object.n > 3", "?"},
		{"", "object.n <= 5 || object.n > 3", "T"},
		{"", "object.n < 5 || object.n > 5", "?"},
		{"", "size(object.list) >= 0", "T"},
		{"", "object.list.size() < 0", "F"},
		{"", "size(object.list) > 0", "?"},
		{"", "0 <= size(object.list)", "T"},
		{"", "object.a in []", "F"},
		{"", "object.a in ['x'] && object.a == 'y'", "F"},
		{"", "object.a in ['x', 'y'] && object.a == 'y'", "?"},
		{"", "has(object.a) || !has(object.a)", "T"},
		{"", "has(object.a) ? true : true", "T"},
		{"", "has(object.a) ? object.b : true", "?"},
		{"", "!has(object.a) || has(object.a) && object.a == object.a", "T"},
		{"", "variables.always", "T"},
		{"", "variables.isPod && object.kind == 'Deployment'", "F"},
		{"", "variables.kind == 'Pod' && object.kind == 'Deployment'", "F"},
		{"", "variables.cycle", "?"},
		{"", "object.list.all(x, x.a == 'b') && object.list.all(x, x.a == 'b')", "?"},
		{"", "object.list.all(x, x.a == 'b') || !object.list.all(x, x.a == 'b')", "T"},
		{"object.kind == 'Pod'", "object.kind == 'Pod'", "T"},
		{"object.kind == 'Pod'", "object.kind != 'Pod' || object.a", "?"},
		{"object.kind == 'Pod'", "object.kind in ['Pod', 'Job']", "T"},
		{"object.kind == 'Pod'", "object.kind in ['Job']", "F"},
		{"object.kind in ['Pod', 'Job']", "object.kind in ['Pod', 'Job', 'X']", "T"},
		{"object.kind in ['Pod', 'Job']", "object.kind != 'X'", "T"},
		{"!(object.kind in ['Pod', 'Job'])", "object.kind == 'Pod'", "F"},
		{"!(object.kind in ['Pod', 'Job'])", "object.kind in ['Job', 'Pod']", "F"},
		{"object.a && object.b", "object.b", "T"},
		{"!(object.a || object.b)", "object.a", "F"},
		{"object.n >= 3", "object.n < 3", "F"},
		{"object.n >= 3", "object.n <= 3", "?"},
		{"object.n >= 3", "object.n != 2", "T"},
		{"object.n >= 3", "object.n == 3", "?"},
		{"object.n <= 3", "object.n > 3", "F"},
		{"object.n <= 3", "object.n >= 3", "?"},
		{"object.n <= 3", "object.n <= 3 && object.n < 4", "T"},
		{"object.a == object.b", "object.b == object.a", "T"},
		{"object.a == object.b", "object.a != object.b", "F"},
	} {
		f := NewFolder(func(name string) *cel.Ast { return variables[name] })
		if test.assume != "" {
			f = f.Assume(compile(test.assume), true)
		}
		got := "?"
		if v, ok := f.Truth(compile(test.source)); ok {
			if got = "F"; v {
				got = "T"
			}
		}
		if got != test.want {
			t.Errorf("%s, assuming %q: %s, want %s", test.source, test.assume, got, test.want)
		}
	}
}

// TestFoldHostile decides in bounded time what doubles with each variable.
func TestFoldHostile(t *testing.T) {
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.Variable("variables", cel.DynType))
	rendertest.OK(t, err)
	compile := func(source string) *cel.Ast {
		a, issues := env.Compile(source)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		return a
	}
	variables := map[string]*cel.Ast{"v0": compile("object.a")}
	for i := 1; i < 60; i++ {
		variables[fmt.Sprintf("v%d", i)] = compile(fmt.Sprintf("(variables.v%d || object.b) && (variables.v%d || object.c)", i-1, i-1))
	}
	start := time.Now()
	f := NewFolder(func(name string) *cel.Ast { return variables[name] })
	f.Assume(compile("variables.v59"), true).Truth(compile("variables.v58 && variables.v59"))
	f.Truth(compile("object.a" + strings.Repeat(" && object.a", 1000)))
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}
