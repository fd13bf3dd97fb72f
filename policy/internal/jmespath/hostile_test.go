package jmespath

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// What a pull request may write ends soon, in an error that says why.
func TestHostile(t *testing.T) { // not beside others, whose memory would count
	long := strings.Repeat("a", 1<<20)
	list := make([]any, 3000)
	for i := range list {
		list[i] = map[string]any{"a": list[:i:i]}
	}
	data := map[string]any{"long": long, "list": list, "x": "x"}
	doubled := strings.Repeat(" | [@, @]", 60)
	for name, expression := range map[string]string{
		"a value endless in print":    "x" + doubled,
		"its text":                    "to_string(x" + doubled + ")",
		"its comparison":              "[x" + doubled + ", x" + doubled + "] | [0] == [1]",
		"its error":                   "keys('x'" + doubled + ")",
		"a list that doubles":         "[x]" + strings.Repeat(" | [@, @][]", 60),
		"filters in filters":          "list[?a[?a[?a]]]",
		"a cross product":             "map(&length(long), list)[] | [@,@,@,@,@,@,@,@][] | map(&map(&@, [@,@,@]), @) | sort_by(@, &[0])",
		"replacements":                "x" + strings.Repeat(" | replace_all(@, 'x', 'xxxxxxxxxx')", 12),
		"replacements of nothing":     "replace_all(long, '', long)",
		"a join":                      "join(long, split(long, ''))",
		"a regular expression's text": "regex_replace_all('(.*)', long, '" + strings.Repeat("$0", 1000) + "')",
		"a literal one's":             "regex_replace_all_literal('', long, long)",
		"a long regular expression":   "regex_match(long, 'a')",
		"a large regular expression":  `regex_match('((\pL{100}){10}|(\pL{100}){10}|(\pL{100}){10}){1}(((\pL{10}){10}){9})(((\pL{10}){10}){9})(((\pL{10}){10}){9})(((\pL{10}){10}){9})(((\pL{10}){10}){9})(((\pL{10}){10}){9})', 'a')`,
		"a slow regular expression":   "list[].regex_match('(.?){400}b', $)",
		"many groups":                 "regex_replace_all('" + strings.Repeat("()", 500) + "', long, 'a')",
		"slow regular expressions":    "map(&regex_match('(a?){500}c', '" + strings.Repeat("a", 5000) + "'), list)",
		"base64 of base64":            "long" + strings.Repeat(" | base64_encode(@)", 30),
		"a random text":               "random('(((a{1000}))){1}" + strings.Repeat("(b{1000})", 100) + "')",
		"aliases":                     "parse_yaml('a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]')",
		"a wildcard":                  "pattern_match(long, long)",
		"nested JSON":                 "parse_json('" + strings.Repeat("[", 20000) + "')",
		"nested YAML":                 "parse_yaml('" + strings.Repeat("[", 20000) + "')",
		"a certificate":               "x509_decode(join('', [long, long, long]))",
		"a version":                   "semver_compare('1.0.0', join(' || ', split(long, '')))",
		"an image":                    "image_normalize(long)",
		"a quantity":                  "add('1e999999999', `1`)",
		"a quantity's digits":         "multiply(long, `2`)",
	} {
		t.Run(name, func(t *testing.T) {
			expression = strings.ReplaceAll(expression, "$)", "'"+strings.Repeat("a", 4000)+"')")
			e, err := Compile(expression)
			rendertest.OK(t, err)
			before := allocated()
			_, err = e.Search(data, nil)
			if err == nil || len(err.Error()) > 4096 {
				t.Errorf("%.200v", err)
			}
			if used := allocated() - before; used > 400<<20 {
				t.Errorf("%d MiB were allocated", used>>20)
			}
		})
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestHostileExpressions(t *testing.T) {
	t.Parallel()
	for name, expression := range map[string]string{
		"parentheses": strings.Repeat("(", 100000) + "a" + strings.Repeat(")", 100000),
		"not":         strings.Repeat("!", 100000) + "a",
		"dots":        "a" + strings.Repeat(".a", 100000),
		"brackets":    strings.Repeat("[", 100000),
		"braces":      strings.Repeat("{a:", 80000),
		"filters":     strings.Repeat("[?", 100000),
		"stars":       "a" + strings.Repeat("[*]", 80000),
		"calls":       strings.Repeat("f(", 100000),
		"references":  strings.Repeat("&", 100001),
		"length":      strings.Repeat(" ", maxLength+1),
		"json":        "`" + strings.Repeat("[", 100000) + "`",
	} {
		_, err := Compile(expression)
		if _, ok := errors.AsType[*SyntaxError](err); !ok || len(err.Error()) > 300 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	deepest := strings.Repeat("(", 400) + strings.Repeat("a.", 90) + "a" + strings.Repeat(")", 400)
	e, err := Compile(deepest)
	rendertest.OK(t, err)
	if _, err := e.Search(map[string]any{}, nil); !IsNotFound(err) {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	list := make([]any, 100)
	for expression, limits := range map[string]Limits{
		"@[?@ == `1`]":              {Steps: 50},
		"[*].to_string(@)":          {Bytes: 20},
		"replace_all('aa','a','b')": {Bytes: 1},
	} {
		e, err := Compile(expression)
		rendertest.OK(t, err)
		_, err = e.Search(list, &Options{Limits: limits})
		if _, ok := errors.AsType[*LimitError](err); !ok {
			t.Errorf("%s: %v", expression, err)
		}
		if _, err := e.Search(list, nil); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
	}
}
