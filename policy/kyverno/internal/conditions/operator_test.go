package conditions

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

type list = []any

func TestCompare(t *testing.T) {
	t.Parallel()
	object := map[string]any{"a": "b"}
	tried := make(map[string]bool)
	for _, c := range []struct {
		key      any
		operator string
		value    any
		want     bool
	}{
		// Equals, NotEquals
		{true, "Equals", true, true},
		{true, "Equals", "true", false},
		{true, "NotEquals", "true", true},
		{true, "NotEqual", false, true},
		{5.0, "Equals", 5.0, true},
		{5.0, "Equal", int64(5), true},
		{int64(5), "Equals", 5.0, true},
		{5.5, "Equals", int64(5), false},
		{5.5, "NotEquals", int64(5), true},
		{int64(5), "Equals", 5.5, false},
		{int64(5), "NotEquals", 5.5, false},
		{5.0, "Equals", "5", true},
		{5.0, "Equals", "5.0", true},
		{int64(5), "Equals", "5", true},
		{int64(5), "Equals", "5.0", false},
		{5.0, "NotEquals", "x", true},
		{5.0, "Equals", "x", false},
		{5.0, "Equals", true, false},
		{5.0, "NotEquals", list{}, true},
		{"a", "Equals", "a", true},
		{"a", "Equals", "b", false},
		{"abc", "Equals", "a*", true},
		{"a*", "Equals", "abc", false},
		{"abc", "NotEquals", "a*", false},
		{"", "Equals", "", true},
		{"", "NotEquals", "x", true},
		{"a", "Equals", 5.0, false},
		{"a", "NotEquals", 5.0, true},
		{"a", "NotEquals", nil, true},
		{"1h", "Equals", "60m", true},
		{"1h", "Equals", 3600.0, true},
		{"1h", "Equals", 3600.9, true},
		{"1h", "NotEquals", "1h1s", true},
		{"0", "Equals", "0s", false},
		{"0", "Equals", "0", true},
		{"10", "Equals", "10.0", true},
		{"10", "Equals", 10.0, false},
		{"1Gi", "Equals", "1024Mi", true},
		{"1Gi", "Equals", "x", false},
		{"1Gi", "NotEquals", "x", true},
		{"1Gi", "NotEquals", "", true},
		{"1Gi", "Equals", "*", false},
		{"1Gi", "NotEquals", "2Gi", true},
		{list{"a", "b"}, "Equals", list{"a", "b"}, true},
		{list{"a", "b"}, "Equals", list{"b", "a"}, false},
		{list{"a"}, "Equals", "a", false},
		{list{"a"}, "NotEquals", "a", true},
		{list{}, "Equals", list{}, true},
		{list{1.0}, "Equals", list{int64(1)}, false},
		{object, "Equals", map[string]any{"a": "b"}, true},
		{object, "NotEquals", map[string]any{"a": "c"}, true},
		{object, "NotEquals", "x", true},
		// a null key
		{nil, "Equals", nil, false},
		{nil, "NotEquals", "x", false},
		{nil, "In", list{"x"}, false},
		{nil, "NotIn", list{"x"}, false},
		{nil, "AnyIn", list{}, false},
		{nil, "AnyNotIn", list{"x"}, false},
		{nil, "AllNotIn", list{"x"}, false},
		{nil, "LessThan", 5.0, false},
		{nil, "DurationLessThan", 5.0, false},
		// keys of types that operators don't know
		{object, "AnyIn", list{"x"}, false},
		{object, "AnyNotIn", list{"x"}, false},
		{object, "GreaterThan", 1.0, false},
		{true, "LessThan", 5.0, false},
		{list{1.0}, "LessThan", 5.0, false},
		{struct{}{}, "NotEquals", "x", false},
		// order
		{5.0, "GreaterThan", 4.0, true},
		{5.0, "GreaterThan", int64(5), false},
		{5.0, "GreaterThanOrEquals", int64(5), true},
		{5.0, "LessThan", "6", true},
		{5.0, "LessThan", "x", false},
		{5.0, "LessThan", "10s", true},
		{5.0, "LessThan", true, false},
		{"5", "LessThan", "10", true},
		{"5", "LessThan", 10.0, true},
		{"5", "GreaterThan", list{}, false},
		{"1h", "GreaterThan", "59m", true},
		{"1h", "GreaterThan", 3599.0, true},
		{3600.0, "LessThanOrEquals", "1h", true},
		{"1Gi", "GreaterThan", "1000Mi", true},
		{"100m", "LessThan", "1", true},
		{"1h", "LessThan", "2Gi", false},
		{"1.10.0", "GreaterThan", "1.9.0", true},
		{"1.9.0-rc.1", "LessThan", "1.9.0", true},
		{"1.9", "GreaterThan", "1.10", true},
		{"1.10.0", "GreaterThan", "1.9", false},
		{"v1.10.0", "GreaterThan", "v1.9.0", false},
		{"x", "LessThanOrEquals", "x", false},
		{"NaN", "LessThanOrEquals", 1.0, false},
		// durations, deprecated
		{"1h", "DurationGreaterThan", "59m", true},
		{"1h", "DurationGreaterThanOrEquals", 3600.0, true},
		{3600.0, "DurationLessThan", "2h", true},
		{int64(1), "DurationLessThanOrEquals", int64(1), true},
		{"x", "DurationLessThan", "1h", false},
		{"1h", "DurationLessThan", "x", false},
		{"1h", "DurationLessThan", true, false},
		{"5", "DurationLessThan", "1h", false},
		{math.MaxFloat64, "DurationGreaterThan", "1h", true},
		// membership of one
		{"a", "AnyIn", list{"a", "b"}, true},
		{"a", "AnyIn", list{}, false},
		{"abc", "AnyIn", list{"a*"}, true},
		{"a*", "AnyIn", list{"abc"}, true},
		{"a", "AnyNotIn", list{"a"}, false},
		{"c", "AnyNotIn", list{"a", "b"}, true},
		{"c", "AllNotIn", list{"a", "b"}, true},
		{"a", "AllIn", list{"a"}, true},
		{5.0, "AnyIn", list{"5"}, true},
		{5.0, "AnyIn", list{int64(5)}, true},
		{true, "AnyIn", list{true}, true},
		{true, "AllIn", list{"true"}, true},
		{true, "AnyNotIn", list{"false"}, true},
		{1e6, "AnyIn", list{int64(1000000)}, false},
		{1e6, "AnyIn", list{1e6}, true},
		{1e6, "AnyIn", list{"1e+06"}, true},
		{"<nil>", "AnyIn", list{nil}, true},
		{"a", "AnyIn", "a", true},
		{"abc", "AnyIn", "a*", true},
		{"a*", "AnyIn", "abc", false},
		{"b", "AnyNotIn", "a", true},
		{"a", "AnyIn", `["a","b"]`, true},
		{"abc", "AnyIn", `["a*"]`, false},
		{"c", "AnyNotIn", `["a","b"]`, true},
		{"5", "AnyIn", "10", false},
		{"5", "AnyNotIn", "10", false},
		{"5", "AllNotIn", "true", false},
		{"5", "AnyNotIn", `{"a":1}`, false},
		{"5", "AnyNotIn", `[1]`, false},
		{"10", "AnyIn", "10", true},
		{"5", "AnyIn", 5.0, false},
		{"5", "AnyNotIn", 5.0, false},
		{"5", "AnyNotIn", nil, false},
		{"5", "AnyIn", "1-10", true},
		{5.0, "AllIn", "1-10", true},
		{"50", "AnyIn", "1-10", false},
		{"50", "AnyNotIn", "1-10", true},
		{"5", "AllNotIn", "1-10", false},
		{"5Mi", "AnyIn", "1Mi-10Mi", true},
		// membership of many
		{list{"a", "c"}, "AnyIn", list{"a", "b"}, true},
		{list{"c"}, "AnyIn", list{"a", "b"}, false},
		{list{"a", "c"}, "AllIn", list{"a", "b"}, false},
		{list{"a", "b"}, "AllIn", list{"a", "b", "c"}, true},
		{list{}, "AllIn", list{"a"}, true},
		{list{}, "AnyIn", list{"a"}, false},
		{list{}, "AnyNotIn", list{"a"}, false},
		{list{}, "AllNotIn", list{"a"}, true},
		{list{"a", "c"}, "AnyNotIn", list{"a", "b"}, true},
		{list{"a"}, "AnyNotIn", list{"a", "b"}, false},
		{list{"c", "d"}, "AllNotIn", list{"a", "b"}, true},
		{list{"a", "d"}, "AllNotIn", list{"a", "b"}, false},
		{list{"a*"}, "AllIn", list{"abc"}, true},
		{list{5.0}, "AnyIn", list{"5"}, true},
		{list{5.0}, "AnyIn", 5.0, true},
		{list{5.0}, "AnyNotIn", 5.0, false},
		{list{"true"}, "AnyIn", true, true},
		{list{5.0}, "AllIn", 5.0, false},
		{list{5.0}, "AllNotIn", 6.0, false},
		{list{"a"}, "AnyIn", "a", true},
		{list{"a"}, "AllIn", "a", true},
		{list{"a"}, "AnyNotIn", "a", false},
		{list{"a"}, "AllNotIn", "a", false},
		{list{"10"}, "AnyIn", "10", true},
		{list{"10"}, "AnyNotIn", "10", false},
		{list{"5"}, "AnyNotIn", "10", false},
		{list{"a", "b"}, "AnyIn", "a*", true},
		{list{"a", "b"}, "AllIn", `["a","b"]`, true},
		{list{"a", "c"}, "AnyNotIn", `["a","b"]`, true},
		{list{"abc"}, "AnyIn", `["a*"]`, true},
		{list{5.0, 50.0}, "AnyIn", "1-10", true},
		{list{5.0, 50.0}, "AnyNotIn", "1-10", true},
		{list{5.0, 6.0}, "AnyNotIn", "1-10", false},
		{list{5.0, 50.0}, "AllIn", "1-10", false},
		{list{5.0, 6.0}, "AllIn", "1-10", true},
		{list{5.0, 50.0}, "AllNotIn", "1-10", false},
		{list{"x"}, "AnyNotIn", "1-10", false},
		{list{"x"}, "AnyIn", nil, false},
		{list{"x"}, "AnyNotIn", object, false},
		// In, NotIn, deprecated
		{"a", "In", list{"a"}, true},
		{"abc", "In", list{"a*"}, true},
		{"a", "NotIn", list{"b"}, true},
		{"a", "In", "a", true},
		{"b", "NotIn", "a", false},
		{"b", "NotIn", `["a"]`, true},
		{"5", "NotIn", "6-9", false},
		{list{"b"}, "NotIn", "a", false},
		{"b", "NotIn", "10", false},
		{"a", "NotIn", 5.0, false},
		{list{"a", "b"}, "In", list{"a", "b", "c"}, true},
		{list{"a", "d"}, "In", list{"a", "b", "c"}, false},
		{list{"a", "d"}, "NotIn", list{"a", "b", "c"}, true},
		{list{"a", "b"}, "NotIn", list{"a", "b", "c"}, false},
		{list{"abc"}, "In", list{"a*"}, false},
		{list{"a"}, "In", "a", true},
		{list{"a"}, "NotIn", "a", true},
		{list{"a"}, "In", `["a"]`, true},
		{list{"a"}, "In", list{1.0}, false},
		{list{"a"}, "NotIn", list{1.0}, false},
		{list{1.0}, "In", list{"1"}, false},
		{list{"a"}, "In", 5.0, false},
		{list{}, "In", list{"a"}, true},
		{list{}, "NotIn", list{"a"}, false},
		// what is no operator
		{"a", "equals", "a", false},
		{"a", "", "a", false},
	} {
		if got := Compare(c.operator, c.key, c.value); got != c.want {
			t.Errorf("%#v %s %#v is %v", c.key, c.operator, c.value, got)
		}
		tried[c.operator] = true
	}
	for _, o := range operators {
		if !tried[o.name] {
			t.Errorf("nothing tries %s", o.name)
		}
	}
}

func TestOperators(t *testing.T) {
	t.Parallel()
	names := Operators()
	if len(names) != len(operators) || !slices.IsSorted(names) {
		t.Errorf("%v", names)
	}
	for _, name := range names {
		if !KnownOperator(name) || KnownOperator(strings.ToLower(name)) {
			t.Error(name)
		}
	}
	names[0] = "other"
	if Operators()[0] == "other" {
		t.Error("the list is shared")
	}
}

// FuzzCompare wants an answer of every operator, and of each and its negation
// that they don't both hold, where they are each other's.
func FuzzCompare(f *testing.F) {
	for _, s := range [][2]string{{"1h", "60m"}, {"10", "10.0"}, {"1-5", "3"}, {`["a"]`, "a"}, {"1e999999999", "1"}, {"1.2.3", "1.2.4"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		for _, name := range Operators() {
			for _, k := range []any{key, list{key}, list{key, "x"}, float64(len(key))} {
				for _, v := range []any{value, list{value}, list{}, float64(len(value))} {
					holds := Compare(name, k, v)
					if opposite, ok := opposites[name]; ok && holds && Compare(opposite, k, v) {
						t.Errorf("%s and %s hold of %v and %v", name, opposite, k, v)
					}
				}
			}
		}
	})
}

var opposites = map[string]string{
	"Equals": "NotEquals", "AllIn": "AnyNotIn", "GreaterThan": "LessThanOrEquals", "LessThan": "GreaterThanOrEquals",
	"DurationGreaterThan": "DurationLessThanOrEquals",
}

func BenchmarkCompare(b *testing.B) {
	for _, c := range []struct {
		operator   string
		key, value any
	}{
		{"Equals", "nginx", "nginx"},
		{"NotEquals", "1Gi", "2Gi"},
		{"AnyIn", "CREATE", list{"CREATE", "UPDATE"}},
		{"AllNotIn", list{"a", "b", "c"}, list{"x", "y", "z"}},
		{"GreaterThan", 5.0, 3.0},
	} {
		b.Run(fmt.Sprint(c.operator), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Compare(c.operator, c.key, c.value)
			}
		})
	}
}

// Operators are the names of the operators, sorted.
func Operators() []string {
	names := make([]string, len(operators))
	for i, o := range operators {
		names[i] = o.name
	}
	return names
}
