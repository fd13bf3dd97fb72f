package cel

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// parts are operands of every kind: of each type, missing, unknown, optional,
// errors and panics.
var parts = []string{
	"1", "-2", "3u", "1.5", "2.0", "'a'", "'abc'", "''", "b'a'", "true", "false", "null", "[]", "{}", "[1, 2, 3]", "['a', 'b']", "{'a': 1}", "{1: 'a'}",
	"dyn(1)", "dyn('a')", "dyn([1, 'a', null])", "dyn(2u)", "dyn(1.0)", "int", "type(1)", "duration('1h')", "timestamp('2024-01-01T00:00:00Z')",
	"o", "o.int", "o.str", "o.list", "o.map", "o.null", "o.dbl", "o.yes", "o.empty", "o.none", "o.map.a", "o.map.none.deep", "o.mixed", "o.objects",
	"o.list[0]", "o.list[9]", "o.list[-1]", "o.list['a']", "o.map['a']", "o.map['none']", "o.map[0]", "o[o.key]", "o.list[o.int]", "o.list[o.null]", "o[o.list]", "o.map[o.?key]",
	"o.?int", "o.?none", "o.map.?a.b", "o.?map.a", "o.?map.none", "o.?none.deep", "o[?'int']", "o.list[?0]", "o.list[?9]", "o.?null", "optional.none()", "optional.of(o.int)", "optional.of(o.map).a", "optional.of(o.map).?a", "optional.ofNonZeroValue('')",
	"has(o.int)", "has(o.none)", "has(o.map.a)", "has(o.none.deep)", "has(o.int.deep)", "has(o.?map.a)", "has(o.?none.a)", "has(opt.a)", "has(broken.a)", "has(unknown.a)",
	"opt", "opt.a", "nothing", "nothing.a", "unknown", "unknown.a", "broken", "broken.a", "absent", "absent.a", "native", "native.a", "native.list[1]", "native.none",
	"1 / (o.int - 3)", "o.int / 0", "o.str + 1", "error.now", "cause()",
	"(o.yes ? o.map : o.list).a", "(o.str ? 1 : 2)", "(unknown ? 1 : 2)", "(broken ? 1 : 2)", "[?o.?int, ?o.?none, 7]", "{?'x': o.?int, ?'y': o.?none}", "[o.none]", "{'a': o.none}", "{o.list: 1}",
}

// one are expressions of one part, many of two.
var one = []string{
	"%s", "!%s", "-%s", "size(%s)", "%s.size()", "string(%s)", "int(%s)", "double(%s)", "type(%s)", "dyn(%s).a", "dyn(%s)['a']", "dyn(%s)[0]", "dyn(%s)[?0]", "dyn(%s).?a", "dyn(%s).?a.orValue(9)",
	"has(dyn(%s).a)", "dyn(%s) == 'a'", "dyn(%s) != null", "dyn(%s) in [1, 'a', 2.0]", "dyn(%s) in ['a', 'b']", "dyn(%s) in [1, 2, 3u]", "dyn(%s) in [1.5, 2.0]", "dyn(%s) in []", "dyn(%s) in [b'a']",
	"dyn(%s) < 2", "dyn(%s) >= 'a'", "2 > dyn(%s)", "dyn(%s) ? 1 : 2", "true ? dyn(%s) : 1", "o.map[dyn(%s)]", "o.list[dyn(%s)]", "o.map[?dyn(%s)]",
	"dyn(%s).all(x, x != 2)", "dyn(%s).all(x, x > 1)", "dyn(%s).exists(x, x == 2)", "dyn(%s).exists(x, x.a == 1)", "dyn(%s).exists_one(x, x == 2)", "dyn(%s).map(x, x)", "dyn(%s).map(x, x + 1)", "dyn(%s).filter(x, x == 2)", "dyn(%s).filter(x, x > 1)", "dyn(%s).filter(x, x)", "dyn(%s).map(x, x > 1, x)",
	"dyn(%s).all(i, v, v != 2)", "dyn(%s).exists(i, v, v == 2 || i == 'a')", "dyn(%s).transformList(i, v, v)", "dyn(%s).transformMap(i, v, v)", "dyn(%s).transformMap(i, v, v == 2, i)", "dyn(%s).existsOne(i, v, v == 2)",
	"dyn(%s).startsWith('a')", "dyn(%s).endsWith('c')", "dyn(%s).contains('b')", "'abc'.contains(dyn(%s))", "dyn(%s).matches('^a')", "'abc'.matches(dyn(%s))", "dyn(%s).find('[a-b]+')", "dyn(%s).findAll('.', 2)", "dyn(%s).lowerAscii()", "dyn(%s).split('b')", "dyn(%s).join(',')", "dyn(%s).replace('a', 'b')",
	"quantity(dyn(%s)).isInteger()", "dyn(%s).sum()", "dyn(%s).isSorted()", "sets.contains(dyn(%s), [1])", "dyn(%s).hasValue()", "dyn(%s).value()", "dyn(%s).optMap(x, x + 1)", "dyn(%s).optFlatMap(x, x.?a)", "dyn(%s).or(optional.of(5))", "dyn(%s).orValue(5)", "optional.of(dyn(%s)).value()", "ip(dyn(%s)).family()", "dyn(%s).flatten()", "dyn(%s).sort()", "'%%v'.format([dyn(%s)])",
	"o.list.map(x, dyn(%s))", "o.list.filter(x, dyn(%s))", "o.list.all(x, dyn(%s))", "o.list.exists(x, dyn(%s))", "o.mixed.all(x, x == 1 || dyn(%s))", "o.objects.map(x, x.?a.orValue(dyn(%s)))", "o.list.map(x, o.list.map(y, x + y).exists(z, z == dyn(%s)))",
	"{'a': dyn(%s)}.a", "{dyn(%s): 1}", "[dyn(%s), 1]", "[?dyn(%s)]", "{?'a': dyn(%s)}", "dyn(%s).getFullYear()", "[dyn(%s)].all(o, o == o.a)",
}

var many = []string{
	"dyn(%s) == dyn(%s)", "dyn(%s) != dyn(%s)", "dyn(%s) < dyn(%s)", "dyn(%s) <= dyn(%s)", "dyn(%s) > dyn(%s)", "dyn(%s) >= dyn(%s)", "dyn(%s) + dyn(%s)", "dyn(%s) - dyn(%s)", "dyn(%s) %% dyn(%s)", "dyn(%s) in dyn(%s)",
	"dyn(%s) && dyn(%s)", "dyn(%s) || dyn(%s)", "dyn(%s)[dyn(%s)]", "dyn(%s)[?dyn(%s)]", "o.yes ? dyn(%s) : dyn(%s)", "[dyn(%s), dyn(%s)].all(x, x)", "[dyn(%s), dyn(%s)].exists(x, x)", "[dyn(%s), dyn(%s)].filter(x, x)", "[dyn(%s), dyn(%s)].map(x, x == 1, x + 1)",
	"dyn(%s).startsWith(dyn(%s))", "dyn(%s).orValue(dyn(%s))", "dyn(%s).or(dyn(%s))", "[dyn(%s), dyn(%s)].exists_one(x, x)", "o.mixed.map(x, [dyn(%s), dyn(%s), x])", "[1, 2].transformMap(i, v, v > 1 ? dyn(%s) : dyn(%s))", "dyn(%s).exists(x, x in dyn(%s))", "dyn(%s).all(x, dyn(%s).exists(y, x == y))", "dyn(%s).map(x, dyn(%s).filter(y, y != x))",
}

// whole are expressions that stand for themselves.
var whole = []string{
	"1", "true || o.none", "o.none || true", "o.none && false", "o.none && true", "false && o.none", "o.yes && o.yes && !o.yes", "o.int == 3 && o.str == 'abc' || o.none",
	"o.objects.all(x, has(x.a) && x.a > 0)", "o.objects.all(x, x.a > 0)", "o.objects.exists(x, x.b == 'z')", "o.objects.filter(x, has(x.b)).map(x, x.b).join(', ')", "o.objects.filter(x, x.a > 0).size() == 1",
	"o.map.all(k, o.map[k] != 7)", "o.map.exists(k, k.startsWith('a') && o.map[k] == 1)", "o.map.map(k, k)", "o.map.filter(k, k != 'a')", "o.objects.map(o, o.a)", "[1, 2].all(o, o > 0) && o.int == 3", "[[1], [2]].map(x, x.map(x, x + 1))", "[[1], []].exists(x, x.all(y, y == 1))",
	"o.list.map(x, x * 2).filter(y, y > 2).exists(z, z == 4)", "o.list + [4]", "[0] + o.list + native.list", "(o.list + native.list).all(x, x < 9)", "o.list == [1, 2, 3]", "[1.0, 2.0, 3.0] == o.list", "o.map == {'a': 1, 'b': 'x'}", "o.list in [[1, 2, 3]]",
	"'a' in o.map", "'z' in o.map", "2 in o.list", "2.0 in o.list", "2u in o.list", "'2' in o.list", "null in o.mixed", "1 in {1u: 2}", "o.str in ['abc', 'd']", "o.int in [3.0]", "9007199254740993 in [9007199254740992.0]", "dyn(9007199254740993) == 9007199254740992.0",
	"1 < 1.5", "1u < 2", "2 < 1.5", "'a' < 'b'", "dyn('a') < 1", "9223372036854775807 + 1", "-9223372036854775807 - 2", "o.str.size() == 3", "'äö'.size()", "b'ä'.size()", "o.map.size()", "size(o.list) + size('ab')",
	"o.str.matches('^a.c$')", "o.str.matches(o.str)", "o.int.matches('a')", "'aXbX'.find('X')", "'a1b2'.findAll('[0-9]')", "'a1b2'.findAll('[0-9]', 1)", "o.list.matches('a')", "o.none.matches('a')", "unknown.matches('a')",
	"string(o.list)", "int('5') + o.int", "duration('90m').getMinutes()", "o.int.getMinutes()", "timestamp('2024-02-03T04:05:06Z').getMonth()", "type(o.int) == int", "type(o.list) == list", "type(o) == map", "type(o.none)",
	"[1, 2, 3].map(x, x, x)", "[].map(x, x)", "[].all(x, x)", "[].exists(x, o.none)", "[1, 2, 3].exists_one(x, x > 2)", "{'a': 1}.map(k, k)", "o.objects[0].a", "o.objects[0].?b.orValue('none')", "o.objects[2].c.d[0]", "o.?objects[?2].?c.d.orValue([])", "o.objects.map(x, x.?a).filter(x, x.hasValue()).map(x, x.value())",
	"o.list.transformList(i, v, i * v)", "o.list.transformList(i, v, i > 0, v)", "o.map.transformMap(k, v, v)", "o.map.transformMapEntry(k, v, {k + '2': v})", "{'a': 1}.transformMapEntry(k, v, {'x': 1, 'x': 2})", "o.map.transformList(k, v, k + string(v))",
	"quantity('1Gi').isGreaterThan(quantity('1M'))", "quantity('x')", "isQuantity('1Gi')", "quantity(o.str)", "ip('10.0.0.1').family()", "cidr('10.0.0.0/8').containsIP('10.1.2.3')", "url('https://a.b/c').getHost()", "semver('1.2.3').major()", "'%s %d'.format(['a', 1])", "[3, 1, 2].sort()", "[1, [2]].flatten()", "lists.range(3)", "['b', 'a'].isSorted()", "o.list.sum() + o.list.max()", "[].max()", "{'b': 1, 'a': 2}", "{'a': 1, 'a': 2}", "{o.str: 1, 'b': o.none}", "{b'a': 1}", "[?opt]",
	"sets.intersects(o.list, [3, 9])", "sets.equivalent(o.list, [3, 2, 1])", "'a,b'.split(',').map(x, x.upperAscii())", "o.str.substring(5)", "o.str.replace('b', o.str)", "''.join([])", "base64.encode(b'a')", "optional.of(1).or(optional.of(o.none)).value()", "optional.none().orValue(o.none)", "o.?a.?b.?c.orValue(o.?int.value())",
	"object.a", "opt.?a", "opt[?'a']", "opt.optMap(x, x.a)", "nothing.optMap(x, x.a)", "opt.optFlatMap(x, x.?a)", "[opt, nothing].map(x, x.hasValue())", "opt == optional.of(o.map)", "has(opt.none)", "has(nothing.a)", "o.nested.opt", "lists.range(o.int).map(i, o.list[i])", "panic()", "[1].map(x, panic())",
}

// testActivation has a value of each kind, frozen and not.
func testActivation(t testing.TB) cel.Activation {
	t.Helper()
	tree := map[string]any{
		"int": int64(3), "str": "abc", "dbl": 2.0, "yes": true, "null": nil, "key": "int", "empty": "",
		"list": []any{int64(1), int64(2), int64(3)}, "map": map[string]any{"a": int64(1), "b": "x"}, "mixed": []any{int64(1), "a", nil, true, 2.0, []any{}},
		"objects": []any{map[string]any{"a": int64(1)}, map[string]any{"b": "z", "a": int64(-1)}, map[string]any{"c": map[string]any{"d": []any{"e"}}}},
		"broken":  struct{}{},
	}
	o, _ := Freeze(tree)
	a, err := cel.NewActivation(map[string]any{
		"o": o, "opt": types.OptionalOf(mapOf(o)), "nothing": types.OptionalNone,
		"unknown": types.NewUnknown(7, nil), "broken": types.NewErr("it is broken"),
		"native": map[string]any{"list": []any{int64(4), "x"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mapOf(o ref.Val) ref.Val {
	m, _ := o.(*Map).Lookup("map")
	return m
}

func treeEnv(t testing.TB) *cel.Env {
	t.Helper()
	vars := map[string]*cel.Type{}
	for _, name := range []string{"o", "opt", "nothing", "unknown", "broken", "native", "absent", "error"} {
		vars[name] = cel.DynType
	}
	env, err := (Newest() + 1).Env(Declarations{Variables: vars})
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// TestTree runs expressions by our own trees and by cel-go's planner: values,
// types and the words of errors are the same.
func TestTree(t *testing.T) {
	t.Parallel()
	env, input := treeEnv(t), testActivation(t)
	r, err := theRunner()
	if err != nil {
		t.Fatal(err)
	}
	var ran, left int
	for _, x := range treeExpressions() {
		ast, err := Compile(env, x)
		if err != nil {
			continue
		}
		grown, err := grow(r, ast)
		if err != nil {
			left++
			continue
		}
		ran++
		program, err := planned(r.fast, ast)
		if err != nil {
			t.Errorf("%s: runs, though cel-go refuses it: %v", x, err)
			continue
		}
		got, gotErr := grown.eval(input)
		want, _, wantErr := program.Eval(input)
		if a, b := told(got, gotErr), told(want, wantErr); a != b {
			t.Errorf("%s: %s, want %s", x, a, b)
		}
	}
	t.Logf("%d expressions, %d are left to cel-go", ran, left)
	if ran < 10000 || left > ran/10 {
		t.Errorf("%d expressions, %d are left to cel-go", ran, left)
	}
}

// treeExpressions combines the parts: all with each form of one, and the forms
// of two with every pair in turn.
func treeExpressions() []string {
	all := append([]string(nil), whole...)
	for _, form := range one {
		for _, part := range parts {
			all = append(all, fmt.Sprintf(form, part))
		}
	}
	n := 0
	for _, a := range parts {
		for _, b := range parts {
			n++
			all = append(all, fmt.Sprintf(many[n%len(many)], a, b))
		}
	}
	return all
}

// told is a value or an error as a test compares it: with its type, and without the
// names of Go's types.
func told(v ref.Val, err error) string {
	if err != nil {
		return "error: " + goTypes.ReplaceAllString(err.Error(), "T")
	}
	return valueText(v)
}

var goTypes = regexp.MustCompile(`\*?(types|cel)\.\w+|'\*?\w+\.\w+'|0x[0-9a-f]+`)

func valueText(v ref.Val) string {
	switch v := v.(type) {
	case *types.Unknown:
		return v.String()
	case *types.Optional:
		if !v.HasValue() {
			return "none"
		}
		return "optional " + valueText(v.GetValue())
	case traits.Mapper:
		var entries []string
		for _, k := range elements(v) {
			e, _ := v.Find(k)
			entries = append(entries, valueText(k)+": "+valueText(e))
		}
		slices.Sort(entries)
		return "{" + strings.Join(entries, ", ") + "}"
	case traits.Lister:
		var elems []string
		for _, e := range elements(v) {
			elems = append(elems, valueText(e))
		}
		return "[" + strings.Join(elems, ", ") + "]"
	}
	return fmt.Sprintf("%s %v", v.Type().TypeName(), v.Value())
}
