package conditions

import "testing"

func TestConstant(t *testing.T) {
	is := func(key, operator string, value any) Condition {
		return Condition{Key: key, Operator: operator, Value: value}
	}
	all := func(c ...Condition) Group { return Group{All: c} }
	anyOf := func(c ...Condition) Group { return Group{Any: c, HasAny: true} }
	open := is("{{ request.operation }}", "Equals", "CREATE")
	for _, test := range []struct {
		name   string
		groups []Group
		want   string
	}{
		{"none", nil, "T"},
		{"variable", []Group{all(open)}, "?"},
		{"true", []Group{all(is("a", "Equals", "a"))}, "T"},
		{"false", []Group{all(is("a", "Equals", "b"))}, "F"},
		{"false beside a variable", []Group{all(open, is("a", "Equals", "b"))}, "F"},
		{"true beside a variable", []Group{all(open, is("a", "Equals", "a"))}, "?"},
		{"any with a true one", []Group{anyOf(open, is("a", "Equals", "a"))}, "T"},
		{"any of false ones", []Group{anyOf(is("a", "Equals", "b"), is("a", "AnyIn", []any{"b", "c"}))}, "F"},
		{"any with a false one", []Group{anyOf(open, is("a", "Equals", "b"))}, "?"},
		{"any of nothing", []Group{anyOf()}, "F"},
		{"wildcard", []Group{all(is("abc", "Equals", "a*"))}, "T"},
		{"two values", []Group{all(open, is("{{ request.operation }}", "Equals", "DELETE"))}, "F"},
		{"two values in two groups", []Group{all(open), all(is("{{ request.operation }}", "Equals", "DELETE"))}, "F"},
		{"two values of any", []Group{anyOf(open, is("{{ request.operation }}", "Equals", "DELETE"))}, "?"},
		{"a value and its opposite", []Group{all(open, is("{{ request.operation }}", "NotEquals", "CREATE"))}, "F"},
		{"a value and another's opposite", []Group{all(open, is("{{ request.operation }}", "NotEquals", "DELETE"))}, "?"},
		{"values that wildcards may both match", []Group{all(open, is("{{ request.operation }}", "Equals", "C*"))}, "?"},
		{"quantities", []Group{all(is("{{ q }}", "Equals", "1Gi"), is("{{ q }}", "Equals", "1024Mi"))}, "?"},
		{"a variable in the value", []Group{all(is("a", "Equals", "{{ b }}"))}, "?"},
	} {
		got := "?"
		if v, ok := Constant(&Block{Groups: test.groups}); ok {
			if got = "F"; v {
				got = "T"
			}
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
