package cel

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestCover counts by hand: each line is a branch with how often it was taken over the
// objects.
func TestCover(t *testing.T) {
	objects := []map[string]any{
		{"a": true, "b": true, "list": []any{}},
		{"a": true, "b": false, "list": []any{int64(1), int64(5)}},
		{"a": false, "b": true, "list": []any{int64(7)}, "deep": map[string]any{"x": "y"}},
	}
	for _, test := range []struct{ source, want string }{
		{"object.a", ""}, // of any type
		{"object.a && object.b", "object.a && object.b: true 1, false 2; object.a: true 2, false 1; object.b: true 1, false 1"},
		{"object.a || object.b || object.a", "object.a || object.b || object.a: true 3, false 0; object.a: true 2, false 1; object.b: true 1, false 0"},
		{"object.a ? object.b == true : true", "object.a ? (object.b == true) : true: true 2, false 1; object.a: true 2, false 1"},
		{"!object.a", "!object.a: true 1, false 2"},
		{"true", ""},
		{"object.list.all(x, x > 3)", "object.list.all(x, x > 3): true 2, false 1; object.list: not empty 2, empty 1; x > 3: true 1, false 1"},
		{"object.list.exists(x, x > 3 && x < 6)", "object.list.exists(x, x > 3 && x < 6): true 1, false 2; object.list: not empty 2, empty 1; x < 6: true 1, false 1; x > 3: true 2, false 1"},
		{"has(object.deep) && object.deep.x == 'y'", "has(object.deep) && object.deep.x == \"y\": true 1, false 2; object.deep.x == \"y\": true 1, false 0; has(object.deep): true 1, false 2"},
		{"object.list.map(x, x + 1).size() == 0", "object.list.map(x, x + 1).size() == 0: true 1, false 2; object.list: not empty 2, empty 1"},
		{"object.list.filter(x, x > 6).size() > 0", "object.list.filter(x, x > 6).size() > 0: true 1, false 2; object.list: not empty 2, empty 1; x > 6: true 1, false 2"},
	} {
		env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.EnableMacroCallTracking())
		rendertest.OK(t, err)
		ast, err := Compile(env, test.source)
		if err != nil {
			t.Fatalf("%s: %v", test.source, err)
		}
		p, err := Plan(ast)
		rendertest.OK(t, err)
		c := policy.NewCoverage()
		(&Expression{Source: test.source, Program: p}).Cover(c, &render.Object{}, policy.Branch{Policy: "p", Rule: "r"})
		for _, o := range objects {
			if _, _, err := p.Eval(t.Context(), activationOf(t, o)); err != nil {
				t.Fatalf("%s: %v", test.source, err)
			}
		}
		if d := cmp.Diff(test.want, branchesText(c.Branches())); d != "" {
			t.Errorf("%s: -want +got:\n%s", test.source, d)
		}
	}
}

func activationOf(t *testing.T, object map[string]any) cel.Activation {
	t.Helper()
	v := Freeze(object)
	a, err := cel.NewActivation(map[string]any{"object": v})
	rendertest.OK(t, err)
	return a
}

func branchesText(all []policy.Branch) string {
	var parts []string
	for i, b := range all {
		if i%2 == 1 { // the other case of the part
			parts[len(parts)-1] += fmt.Sprintf(", %s %d", b.Case, b.Hits)
			continue
		}
		parts = append(parts, fmt.Sprintf("%s: %s %d", b.Part, b.Case, b.Hits))
	}
	return strings.Join(parts, "; ")
}
