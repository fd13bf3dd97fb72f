package cel

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/quick"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestRunsWhatIsChecked holds the functions that programs run with against
// those of the newest environment: overload for overload.
func TestRunsWhatIsChecked(t *testing.T) {
	t.Parallel()
	r, err := theRunner()
	rendertest.OK(t, err)
	run := overloads(r.env)
	for id := range overloads((Newest() + 1).base().StoredExpressionsEnv()) {
		if !run[id] {
			t.Errorf("overload %s is not there to run", id)
		}
	}
	if len(run) < 200 {
		t.Errorf("only %d overloads", len(run))
	}
}

func overloads(env *cel.Env) map[string]bool {
	ids := map[string]bool{}
	for _, f := range env.Functions() {
		for _, o := range f.OverloadDecls() {
			ids[o.ID()] = true
		}
	}
	return ids
}

// TestFrozenIsNative compares expressions over a frozen tree with the same
// over the tree itself.
func TestFrozenIsNative(t *testing.T) {
	t.Parallel()
	tree := map[string]any{
		"s": "text", "i": int64(3), "f": 2.5, "b": true, "z": nil,
		"l": []any{int64(1), "two", nil, []any{}, map[string]any{"k": "v"}},
		"n": []any{int64(3), int64(1), int64(2)}, "t": []any{"a", "b"},
		"m": map[string]any{"a": int64(1), "b": int64(2), "c": int64(3), "d": int64(4), "e": int64(5), "f": int64(6), "g": int64(7), "h": int64(8), "i": int64(9), "j": int64(10)},
		"e": map[string]any{}, "x": []any{},
	}
	frozen := Freeze(tree)
	env, err := (Newest() + 1).Env(Declarations{Variables: map[string]*cel.Type{"o": cel.DynType}})
	rendertest.OK(t, err)
	for _, x := range []string{
		`o == o`, `o.m == o.m`, `o.m == {'a': 1}`, `{'a': 1, 'b': 2, 'c': 3, 'd': 4, 'e': 5, 'f': 6, 'g': 7, 'h': 8, 'i': 9, 'j': 10} == o.m`, `o.m == {'a': 1.0, 'b': 2, 'c': 3, 'd': 4, 'e': 5, 'f': 6, 'g': 7, 'h': 8, 'i': 9, 'j': 10u}`,
		`o.l[0]`, `o.l[4].k`, `o.l[5]`, `o.l[-1]`, `o.l['x']`, `o.l[1.0]`, `o.l[0u]`, `o.m['a']`, `o.m['q']`, `o.m[1]`, `'a' in o.m`, `1 in o.m`, `1 in o.l`, `null in o.l`, `{'k': 'v'} in o.l`, `[] in o.l`, `1.0 in o.l`,
		`o.l + o.n`, `o.l + [1]`, `[1] + o.l`, `o.l + 1`, `o.x + o.x`, `size(o.l)`, `size(o.m)`, `o.e.size()`, `o.n.sum()`, `o.n.max()`, `o.n.isSorted()`, `o.n.sort()`, `o.l.flatten()`, `o.n.slice(1, 2)`, `o.n.indexOf(2)`, `o.l.indexOf('two')`,
		`o.t.join(',')`, `o.l.join(',')`, `o.n.map(x, x * 2)`, `o.m.map(k, k).size()`, `o.m.all(k, v, v > 0)`, `o.n.all(i, v, v > i)`, `o.m.transformMap(k, v, v + 1)`, `o.n.transformList(i, v, v + i)`, `o.m.exists_one(k, o.m[k] == 3)`,
		`type(o)`, `type(o.l)`, `type(o.i)`, `type(o.z)`, `type(o.f)`, `o.z == null`, `o.i == 3.0`, `o.i + o.f`, `o.s + 'x'`, `o.b && o.i > 2`, `o.q`, `has(o.q)`, `has(o.m.a)`, `has(o.s.a)`, `o.?m.?a`, `o.?q.orValue(1)`, `o.l[?7].hasValue()`, `optional.ofNonZeroValue(o.e).hasValue()`, `optional.ofNonZeroValue(o.x).hasValue()`, `optional.ofNonZeroValue(o.n).hasValue()`,
		`'%s %s'.format([o.n, o.e])`, `'%s'.format([o.m])`, `sets.contains(o.n, [1])`, `sets.intersects(o.t, ['b'])`, `sets.equivalent(o.n, [1, 2, 3])`, `o.n == [3, 1, 2]`, `[3, 1, 2] == o.n`, `o.n == [3, 1]`, `o.n == 3`, `o.m == 3`, `o.m != o.e`, `string(o.i)`, `int(o.s)`, `dyn(o).i`, `list(o)`,
	} {
		compareFrozen(t, env, x, tree, frozen)
	}
}

func compareFrozen(t *testing.T, env *cel.Env, x string, tree map[string]any, frozen ref.Val) {
	t.Helper()
	ast, err := Compile(env, x)
	if err != nil {
		return
	}
	p, err := Plan(ast)
	rendertest.OK(t, err)
	native, _ := cel.NewActivation(map[string]any{"o": tree})
	ours, _ := cel.NewActivation(map[string]any{"o": frozen})
	want, _, wantErr := p.Eval(t.Context(), native)
	got, _, gotErr := p.Eval(t.Context(), ours)
	if (wantErr == nil) != (gotErr == nil) {
		t.Errorf("%s: want %v, %v, got %v, %v", x, want, wantErr, got, gotErr)
		return
	}
	if wantErr == nil && (types.Equal(want, got) != types.True || types.Equal(got, want) != types.True || want.Type() != got.Type()) {
		t.Errorf("%s: want %v, got %v", x, want, got)
	}
}

// TestMapOrder says that maps are gone through in the order of their keys.
func TestMapOrder(t *testing.T) {
	t.Parallel()
	inOrder := func(m map[string]int64) bool {
		tree := map[string]any{}
		for k, v := range m {
			tree[k] = v
		}
		frozen := Freeze(tree)
		var keys []string
		for it := frozen.(*Map).Iterator(); it.HasNext() == types.True; {
			keys = append(keys, string(it.Next().(types.String)))
		}
		for k, v := range m {
			if got, ok := frozen.(*Map).Lookup(k); !ok || got != types.Int(v) {
				return false
			}
		}
		return cmp.Equal(keys, slices.Sorted(maps.Keys(m))) || len(m) == 0
	}
	if err := quick.Check(inOrder, nil); err != nil {
		t.Error(err)
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]Version{"": Newest(), "1.31": 31, "v1.31": 31, "v1.31.4": 31, "1.31+": 31, "1.9999": Newest(), "1.5": oldest} {
		if got, err := ParseVersion(s); err != nil || got != want {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"1", "2.0", "x", "1.x", "v1."} {
		if got, err := ParseVersion(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}

// TestVersions is the matrix of what came when: the API server accepts an
// expression one version after its environment has it.
func TestVersions(t *testing.T) {
	t.Parallel()
	for x, since := range map[string]Version{
		`1 == 1`: oldest, `1.5 > 1`: 29, `quantity('1').isInteger()`: 29, `sets.contains([1], [1])`: 30, `isIP('1')`: 31, `isCIDR('1')`: 31,
		`format.dns1123Label().validate('x').hasValue()`: 32, `{'a': 1}.all(k, v, v > 0)`: 33, `isSemver('1.0.0')`: 34, `[1].sort() == [1]`: 35,
	} {
		for v := Version(26); v <= Newest(); v++ {
			env, err := v.Env(Declarations{})
			rendertest.OK(t, err)
			if _, err := Compile(env, x); (err == nil) != (v >= since) {
				t.Errorf("%s in %v: %v", x, v, err)
			}
		}
	}
}

// TestHostileValues gives functions what would stall them for minutes: each
// must give an error, and soon.
func TestHostileValues(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 3<<20)
	env, err := Newest().Env(Declarations{Variables: map[string]*cel.Type{"o": cel.DynType}})
	rendertest.OK(t, err)
	for x, o := range map[string]any{
		`quantity(o).isInteger()`:                                        "1e2147483647",
		`isQuantity(o)`:                                                  "1e-2147483647",
		`quantity('1e4294967296').isInteger()`:                           "",
		`quantity(o + '7').isInteger()`:                                  "1e999999999",
		`sign(quantity(o)) == 1`:                                         strings.Repeat("9", 100000),
		`o.matches('` + strings.Repeat("x*", 400) + `')`:                 big,
		`o.matches('(x{1000}y?)(x{1000}y?)*')`:                           big,
		`o.matches('` + strings.Repeat("(x{900}|y{900})", 100) + `')`:    big[:60000],
		`o.find(o) == ''`:                                                big[:10000],
		`(o + o + o).findAll('` + strings.Repeat("x*", 100) + `') == []`: big,
		`o.replace('x', '` + strings.Repeat("y", 99) + `') == o`:         big[:1<<20],
		`o.split('').join('` + strings.Repeat("y", 56) + `') == o`:       big[:1<<20],
		`[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, [1,2,3,4,5,6,7,8,9].all(f, [1,2,3,4,5,6,7,8,9].all(g, a+b+c+d+e+f+g > 0)))))))`: "",
	} {
		evalHostile(t, env, x, o)
	}
}

func evalHostile(t *testing.T, env *cel.Env, x string, o any) {
	t.Helper()
	ast, err := Compile(env, x)
	if err != nil {
		t.Errorf("%.60s: %v", x, err)
		return
	}
	p, err := Plan(ast)
	if err != nil {
		return // the pattern is too large
	}
	frozen := Freeze(o)
	input, _ := cel.NewActivation(map[string]any{"o": frozen})
	if v, _, err := p.Eval(t.Context(), input); err == nil {
		t.Errorf("%.60s: %v", x, v)
	}
}

func TestSafeQuantity(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"1": true, "1Gi": true, "1E": true, "1Ei": true, "1e3": true, "1e27": true, "1e-27": true, "1e028": false, "1e28": false, "1E2147483647": false,
		"1e+99999": false, "": true, "e": true, "1e": true, "1e3x": true, "the": true, "2e00000000000003": true,
	} {
		if SafeQuantity(s) != want {
			t.Errorf("%q: want %v", s, want)
		}
	}
}
