package mutator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLocation reads locations; String writes them as simply as can be.
func TestLocation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]location{
		"":                        nil,
		" \t\n":                   nil,
		"spec":                    {{name: "spec"}},
		"spec . a":                {{name: "spec"}, {name: "a"}},
		"-_a9":                    {{name: "-_a9"}},
		`"a.b"."c d"`:             {{name: "a.b"}, {name: "c d"}},
		`'it''s'`:                 nil, // two names
		`'it\'s'`:                 {{name: "it's"}},
		`"a\\b\"c"`:               {{name: `a\b"c`}},
		`""`:                      {{name: ""}},
		`"12"`:                    {{name: "12"}},
		"spec.c[name: *].image":   {{name: "spec"}, {name: "c"}, {name: "name", list: true, glob: true}, {name: "image"}},
		"spec.c[ name:main ]":     {{name: "spec"}, {name: "c"}, {name: "name", list: true, key: "main"}},
		`c["a b": "x]y"].z`:       {{name: "c"}, {name: "a b", list: true, key: "x]y"}, {name: "z"}},
		"ports[containerPort: 8]": {{name: "ports"}, {name: "containerPort", list: true, key: int64(8)}},
		`ports[p: "8"]`:           {{name: "ports"}, {name: "p", list: true, key: "8"}},
		`metadata.labels."a/b"`:   {{name: "metadata"}, {name: "labels"}, {name: "a/b"}},
		`"ä".b`:                   {{name: "ä"}, {name: "b"}},
	} {
		got, err := parseLocation(text)
		if text == `'it''s'` {
			if err == nil {
				t.Errorf("%q is read as %v", text, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(part{})); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
		again, err := parseLocation(got.String())
		if err != nil || !cmp.Equal(got, again, cmp.AllowUnexported(part{})) {
			t.Errorf("%q is written %q, and read as %v, %v", text, got, again, err)
		}
	}
}

// TestLocationError says what is wrong with locations, and where.
func TestLocationError(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]locationError{
		".":                         {0, `has "." where the name of a field should be`},
		"spec.":                     {5, "ends with a dot"},
		"spec..a":                   {5, `has "." where the name of a field should be`},
		"spec.0":                    {5, `has "0" where the name of a field should be`},
		"2abc":                      {0, `has "2" where the name of a field should be`},
		"a b":                       {2, `has "b" where a dot, or the end should be`},
		"a[b: c]d":                  {7, `has "d" where a dot, or the end should be`},
		"a[b: c][d: e]":             {7, `has "[" where a dot, or the end should be`},
		"[b: c]":                    {0, `has "[" where the name of a field should be`},
		"a[]":                       {2, `has "]" where the key of a list's elements should be`},
		"a[1: b]":                   {2, `has "1" where the key of a list's elements should be`},
		"a[b]":                      {3, `has "]" where a colon should be`},
		"a[b:]":                     {4, `has "]" where a value, or *, should be`},
		"a[b: c":                    {6, "has the end where a closing bracket should be"},
		"a[b: 2c]":                  {6, `has "c" where a closing bracket should be`},
		"a[b: -1].c":                {},
		"a[b: 9223372036854775808]": {5, "has the number 9223372036854775808, which is above 9223372036854775807"},
		"a.$x":                      {2, `has "$", which must be in quotes`},
		"a.ä":                       {2, `has "ä", which must be in quotes`},
		`a."b`:                      {2, "has a quote that is not closed"},
		`a.'b\'`:                    {2, "has a quote that is not closed"},
		"a*":                        {1, `has "*" where a dot, or the end should be`},
	} {
		_, err := parseLocation(text)
		e, _ := err.(*locationError)
		switch {
		case want.text == "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case want.text != "" && (e == nil || *e != want):
			t.Errorf("%q: got %+v, want %+v", text, e, want)
		}
	}
}

// TestLongLocation bounds locations, and the time that it takes to refuse one.
func TestLongLocation(t *testing.T) {
	t.Parallel()
	if _, err := parseLocation(strings.Repeat("a.", maxParts-1) + "a"); err != nil {
		t.Error(err)
	}
	for _, text := range []string{
		strings.Repeat("a.", 1<<20), strings.Repeat("a[b: *].", 1<<18), strings.Repeat("[", 1<<20), strings.Repeat(`"`, 1<<20),
		strings.Repeat(" ", 1<<20) + "$", strings.Repeat("9", 1<<20), "a[b: " + strings.Repeat("9", 1<<10) + "]",
	} {
		if _, err := parseLocation(text); err == nil {
			t.Errorf("%.20q is read", text)
		}
	}
}

func FuzzLocation(f *testing.F) {
	for _, s := range []string{"spec.c[name: *].image", `a."b\"c"[d: 12]`, "a[b: 'c'].d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseLocation(text)
		if err != nil {
			return
		}
		again, err := parseLocation(l.String())
		if err != nil || !cmp.Equal(l, again, cmp.AllowUnexported(part{})) {
			t.Errorf("%q is written %q: %v", text, l, err)
		}
	})
}
