package conditions

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/render/rendertest"
)

func TestParse(t *testing.T) {
	t.Parallel()
	c := func(pointer string, key any) Condition {
		return Condition{Pointer: "/p" + pointer, Key: key, Operator: "Equals", Value: "v"}
	}
	const one = "{key: k, operator: Equals, value: v}"
	for _, test := range []struct {
		name, text string
		form       Form
		want       []Group
		problems   []Problem
	}{
		{"nothing", "null", Legacy, nil, nil},
		{
			"any and all", "{any: [" + one + "], all: [" + one + ", " + one + "]}", AnyAll,
			[]Group{{Any: []Condition{c("/any/0", "k")}, HasAny: true, All: []Condition{c("/all/0", "k"), c("/all/1", "k")}}},
			nil,
		},
		{"an empty any", "{any: []}", AnyAll, []Group{{HasAny: true}}, nil},
		{"any that is null", "{any: null, all: null}", AnyAll, []Group{{}}, nil},
		{"an empty block", "{}", AnyAll, []Group{{}}, nil},
		{"a list of conditions", "[" + one + "]", Legacy, []Group{{All: []Condition{c("/0", "k")}}}, nil},
		{
			"a list of groups", "[{any: [" + one + "]}, {all: [" + one + "]}]", Legacy,
			[]Group{{}},
			[]Problem{{"/p/0", "a list contains conditions, not any and all of them"}, {"/p/1", "a list contains conditions, not any and all of them"}},
		},
		{"an empty list", "[]", Legacy, []Group{{}}, nil},
		{
			"a list, which newer versions do not take", "[" + one + "]", AnyAll, nil,
			[]Problem{{"/p", "conditions must be under any or all in this API version"}},
		},
		{"no conditions", "5", Legacy, nil, []Problem{{"/p", "conditions are any and all of them, not a number"}}},
		{"any that is no list", "{any: {}}", Legacy, []Group{{}}, []Problem{{"/p/any", "a list of conditions expected, not a map"}}},
		{"an element that is no condition", "{all: [x]}", Legacy, []Group{{}}, []Problem{{"/p/all/0", "a condition expected, not a string"}}},
		{"no key", "{all: [{operator: Equals}]}", Legacy, []Group{{}}, []Problem{{"/p/all/0", "the condition has no key"}}},
		{"no operator", "{all: [{key: k, value: v}]}", Legacy, []Group{{}}, []Problem{{"/p/all/0", "the condition has no operator"}}},
		{
			"an operator spelled otherwise", "{all: [{key: k, operator: equals}]}", Legacy,
			[]Group{{}},
			[]Problem{{"/p/all/0/operator", `unknown operator "equals"`}},
		},
		{
			"an operator that is none", "{all: [{key: k, operator: 5}]}", Legacy,
			[]Group{{}},
			[]Problem{{"/p/all/0/operator", "an operator is a string, not a number"}},
		},
		{
			"a deprecated operator", "{all: [{key: k, operator: In, value: [v]}]}", Legacy,
			[]Group{{All: []Condition{{Pointer: "/p/all/0", Key: "k", Operator: "In", Value: []any{"v"}}}}},
			nil,
		},
		{
			"a deprecated operator in newer versions", "{all: [{key: k, operator: NotIn}]}", AnyAll,
			[]Group{{}},
			[]Problem{{"/p/all/0/operator", "operator NotIn is not of this API version: AnyNotIn and AllNotIn are"}},
		},
		{
			"a message", "{all: [{key: k, operator: Equals, message: m}]}", Legacy,
			[]Group{{All: []Condition{{Pointer: "/p/all/0", Key: "k", Operator: "Equals", Message: "m"}}}},
			nil,
		},
		{
			"a message that is none", "{all: [{key: k, operator: Equals, message: [m]}]}", Legacy,
			[]Group{{}},
			[]Problem{{"/p/all/0/message", "a message is a string, not a list"}},
		},
		{
			"a null key", "{all: [{key: null, operator: Equals}]}", Legacy,
			[]Group{{All: []Condition{{Pointer: "/p/all/0", Operator: "Equals"}}}},
			nil,
		},
		{
			"numbers", "{all: [{key: 5, operator: Equals, value: [5, 1.5, {a: 1e+06}]}]}", Legacy,
			[]Group{{All: []Condition{{Pointer: "/p/all/0", Key: 5.0, Operator: "Equals", Value: []any{int64(5), 1.5, map[string]any{"a": int64(1000000)}}}}}},
			nil,
		},
		{
			"operations", "{all: [{key: '{{ request.operation }}', operator: AnyIn, value: [CREATE, '{{ x }}', PATCH]}]}", Legacy,
			[]Group{{}},
			[]Problem{{"/p/all/0/value/2", `no operation is called "PATCH": there are CREATE, UPDATE, DELETE and CONNECT`}},
		},
		{
			"an operation", "{all: [{key: '{{request.operation}}', operator: Equals, value: create}]}", Legacy,
			[]Group{{}},
			[]Problem{{"/p/all/0/value", `no operation is called "create": there are CREATE, UPDATE, DELETE and CONNECT`}},
		},
		{
			"an operation that is none", "{all: [{key: '{{request.operation}}', operator: Equals, value: 5}]}", Legacy,
			[]Group{{}},
			[]Problem{{"/p/all/0/value", "request.operation is compared with a string or a list, not a number"}},
		},
		{
			"an operation or another", "{all: [{key: \"{{request.operation || 'BACKGROUND'}}\", operator: Equals, value: BACKGROUND}]}", Legacy,
			[]Group{{All: []Condition{{Pointer: "/p/all/0", Key: "{{request.operation || 'BACKGROUND'}}", Operator: "Equals", Value: "BACKGROUND"}}}},
			nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in := rendertest.Value(t, test.text)
			b, problems := Parse(in, "/p", test.form)
			rendertest.Equal(t, &Block{Groups: test.want}, b)
			rendertest.Equal(t, test.problems, problems)
			if !reflect.DeepEqual(in, rendertest.Value(t, test.text)) {
				t.Error("what went in was changed")
			}
		})
	}
}

func TestUnknownFields(t *testing.T) {
	t.Parallel()
	b, problems := Parse(rendertest.Value(t, "{some: [], all: [{key: k, operator: Equals, values: v}]}"), "/p", Legacy)
	rendertest.Equal(t, &Block{
		Groups: []Group{{All: []Condition{{Pointer: "/p/all/0", Key: "k", Operator: "Equals"}}}},
		Unknown: []Problem{
			{"/p/all/0/values", `unknown field "values": a condition has key, operator, value and message`},
			{"/p/some", `unknown field "some": conditions have any and all`},
		},
	}, b)
	rendertest.Equal(t, []Problem(nil), problems)
}

// Each condition's key says how it comes out: t, f, or an error e.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, block   string
		held          bool
		asked, decide string
		fails         bool
	}{
		{"no block", "", true, "", "", false},
		{"an empty block", "{}", true, "", "", false},
		{"an empty list", "[]", true, "", "", false},
		{"an empty any", "{any: []}", false, "", "", false},
		{"an empty any, and all that holds", "{any: [], all: [t]}", false, "t", "", false},
		{"an empty all", "{all: []}", true, "", "", false},
		{"any stops at the first that holds", "{any: [f1, t1, t2]}", true, "f1 t1", "t1", false},
		{"any that does not hold", "{any: [f1, f2]}", false, "f1 f2", "f1 f2", false},
		{"all", "{all: [t1, t2]}", true, "t1 t2", "t1 t2", false},
		{"all stops at the first that does not hold", "{all: [t1, f1, f2]}", false, "t1 f1", "f1", false},
		{"any and all", "{any: [t1], all: [t2]}", true, "t1 t2", "t1 t2", false},
		{"all is looked at though any fails", "{any: [f1], all: [t1]}", false, "f1 t1", "f1", false},
		{"any's failures count where all fails", "{any: [f1, t1], all: [f2]}", false, "f1 t1 f2", "f1 f2", false},
		{"an error", "{all: [t1, e1, t2]}", false, "t1 e1", "", true},
		{"an error behind what decides", "{any: [t1, e1]}", true, "t1", "t1", false},
		{"an error in all behind any that fails", "{any: [f1], all: [e1]}", false, "f1 e1", "", true},
		{"a list of conditions", "[t1, f1, t2]", false, "t1 f1", "f1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var b *Block
			if c.block != "" {
				var problems []Problem
				if b, problems = Parse(expand(rendertest.Value(t, c.block)), "", Legacy); problems != nil {
					t.Fatal(problems)
				}
			}
			var asked []string
			held, decided, err := Evaluate(b, func(c *Condition) (any, any, error) {
				name := c.Key.(string)
				asked = append(asked, name)
				if name[0] == 'e' {
					return nil, nil, errors.New(name)
				}
				return name[:1], "t", nil
			})
			var keys []string
			for _, d := range decided {
				keys = append(keys, d.Key.(string))
			}
			if held != c.held || strings.Join(asked, " ") != c.asked || strings.Join(keys, " ") != c.decide || (err != nil) != c.fails {
				t.Errorf("%v, asked %v, decided by %v, %v", held, asked, keys, err)
			}
		})
	}
}

// expand makes conditions of their keys.
func expand(v any) any {
	switch v := v.(type) {
	case string:
		return map[string]any{"key": v, "operator": "Equals", "value": "t"}
	case []any:
		v = slices.Clone(v)
		for i := range v {
			v[i] = expand(v[i])
		}
		return v
	case map[string]any:
		for k := range v {
			v[k] = expand(v[k])
		}
	}
	return v
}

// The conditions that decided are the block's own, not copies.
func TestEvaluatePointsIntoTheBlock(t *testing.T) {
	t.Parallel()
	b := &Block{Groups: []Group{{All: []Condition{{Key: "a", Operator: "Equals", Value: "a"}}}}}
	_, decided, _ := Evaluate(b, func(c *Condition) (any, any, error) { return c.Key, c.Value, nil })
	if len(decided) != 1 || decided[0] != &b.Groups[0].All[0] {
		t.Error(decided)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("{any: [{key: 1, operator: In, value: []}], all: []}")
	f.Add("[{any: []}, {key: x}]")
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if yaml.Unmarshal([]byte(text), &v) != nil {
			t.Skip()
		}
		for _, form := range []Form{Legacy, AnyAll} {
			b, _ := Parse(v, "", form)
			_, _, _ = Evaluate(b, func(c *Condition) (any, any, error) { return c.Key, c.Value, nil })
		}
	})
}
