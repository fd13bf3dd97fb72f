package jmespath

import "testing"

func TestCheck(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"a.b || length(c)":            "",
		"nofunc(a)":                   "unknown function: nofunc",
		"a[?nofunc(@)].b":             "unknown function: nofunc",
		"map(&nofunc(@), a)":          "unknown function: nofunc",
		"length(a, b)":                "incorrect number of args",
		"merge()":                     "Invalid arity.",
		"time_now()":                  "",
		"not_null()":                  "Invalid arity.",
		"regex_match('(', a)":         "error parsing regexp: missing closing ): `(`",
		"regex_match(a, b)":           "",
		"regex_replace_all('[', a,b)": "JMESPath function 'regex_replace_all': error parsing regexp: missing closing ]: `[`",
	} {
		e, err := Compile(expression)
		if err != nil {
			t.Fatal(expression, err)
		}
		got := ""
		if err := e.Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", expression, got, want)
		}
	}
}
