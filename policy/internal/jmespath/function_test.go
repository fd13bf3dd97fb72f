package jmespath

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

// A row is an expression, the data it searches, and what comes of it: JSON, or
// the text of an error.
type row struct{ expr, data, want, err string }

func (r row) run(t *testing.T, o *Options) {
	t.Helper()
	e, err := Compile(r.expr)
	if err != nil {
		t.Fatalf("%s: %v", r.expr, err)
	}
	got, err := e.Search(decode(t, r.data), o)
	if message(err) != r.err {
		t.Errorf("%s\ngot error  %q\nwant error %q", r.expr, message(err), r.err)
	}
	if diff := cmp.Diff(decode(t, r.want), throughJSON(t, got)); diff != "" {
		t.Errorf("%s: -want +got\n%s", r.expr, diff)
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	if text == "" {
		return nil
	}
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

var functionRows = []row{
	{expr: "abs(`-1.5`)", want: `1.5`},
	{expr: "avg(`[1, 2]`)", want: `1.5`},
	{expr: "avg(`[]`)", want: `null`},
	{expr: "ceil(`1.2`)", want: `2`},
	{expr: "floor(`-1.2`)", want: `-2`},
	{expr: "contains('foobar', 'oba')", want: `true`},
	{expr: "contains('foobar', `1`)", want: `false`},
	{expr: "contains(`[1, \"a\", null]`, 'a')", want: `true`},
	{expr: "contains(`[1, \"a\", null]`, `null`)", want: `true`},
	{expr: "contains(`[[1]]`, `[1]`)", want: `false`},
	{expr: "ends_with('foobar', 'bar')", want: `true`},
	{expr: "starts_with('foobar', 'bar')", want: `false`},
	{expr: "join(', ', `[\"a\", \"b\"]`)", want: `"a, b"`},
	{expr: "join(', ', `[]`)", want: `""`},
	{expr: "join(', ', `[1]`)", err: `Invalid type for: [1], expected: []jmespath.JpType{"array[string]"}`},
	{expr: "keys(@)", data: `{"b": 1, "a": 2}`, want: `["a", "b"]`},
	{expr: "keys(a)", data: `{}`, err: `Invalid type for: <nil>, expected: []jmespath.JpType{"object"}`},
	{expr: "values(@)", data: `{"b": 1, "a": 2}`, want: `[2, 1]`},
	{expr: "length('äöü')", want: `3`},
	{expr: "length(`[1, 2]`)", want: `2`},
	{expr: "length(`{\"a\": 1}`)", want: `1`},
	{expr: "length(missing)", data: `{}`, err: `Invalid type for: <nil>, expected: []jmespath.JpType{"string", "array", "object"}`},
	{expr: "map(&a, @)", data: `[{"a": 1}, {"b": 2}]`, want: `[1, null]`},
	{expr: "map(&to_number(@), `[\"1\", \"x\"]`)", want: `[1, null]`},
	{expr: "max(`[1, 3, 2]`)", want: `3`},
	{expr: "max(`[\"a\", \"c\", \"b\"]`)", want: `"c"`},
	{expr: "max(`[]`)", want: `null`},
	{expr: "max(`[1, \"a\"]`)", err: `Invalid type for: [1 a], expected: []jmespath.JpType{"array[number]", "array[string]"}`},
	{expr: "min(`[2, 1, 3]`)", want: `1`},
	{expr: "max_by(@, &n).v", data: `[{"n": 1, "v": "a"}, {"n": 3, "v": "b"}, {"n": 3, "v": "c"}]`, want: `"b"`},
	{expr: "min_by(@, &n).v", data: `[{"n": "y", "v": "a"}, {"n": "x", "v": "b"}]`, want: `"b"`},
	{expr: "max_by(@, &n)", data: `[]`, want: `null`},
	{expr: "max_by(@, &n)", data: `[{"m": 1}]`, want: `{"m": 1}`},
	{expr: "max_by(@, &n)", data: `[{"m": 1}, {"n": 1}]`, err: "invalid type, must be number of string"},
	{expr: "max_by(@, &n)", data: `[{"n": 1}, {"n": "a"}]`, err: "invalid type, must be number"},
	{expr: "min_by(@, &n)", data: `[{"n": "a"}, {"n": 1}]`, err: "invalid type, must be string"},
	{expr: "merge(`{\"a\": 1, \"b\": 1}`, `{\"b\": 2}`)", want: `{"a": 1, "b": 2}`},
	{expr: "merge()", err: "Invalid arity."},
	{expr: "merge(`1`)", err: `Invalid type for an argument of merge, expected: []jmespath.JpType{"object"}`},
	{expr: "not_null(a, b, c)", data: `{"b": false, "c": 1}`, want: `false`},
	{expr: "not_null(a)", data: `{}`, want: `null`},
	{expr: "reverse('aé')", want: `"éa"`},
	{expr: "reverse(`[1, 2]`)", want: `[2, 1]`},
	{expr: "sort(`[3, 1, 2]`)", want: `[1, 2, 3]`},
	{expr: "sort(`[\"b\", \"B\", \"a\"]`)", want: `["B", "a", "b"]`},
	{expr: "sort_by(@, &n)[].v", data: `[{"n": 2, "v": 1}, {"n": 1, "v": 2}, {"n": 2, "v": 3}]`, want: `[2, 1, 3]`},
	{expr: "sort_by(@, &n)", data: `[{"n": 2}, {"n": "a"}]`, err: "error in sort_by comparison"},
	{expr: "sort_by(@, &n)", data: `[{"n": true}, {"n": "a"}]`, err: "invalid type, must be number of string"},
	{expr: "sort_by(@, &n)", data: `[{"n": true}]`, want: `[{"n": true}]`},
	{expr: "to_array(`1`)", want: `[1]`},
	{expr: "to_array(`[1]`)", want: `[1]`},
	{expr: "to_number('1e3')", want: `1000`},
	{expr: "to_number('inf')", want: `null`},
	{expr: "to_number(`[1]`)", want: `null`},
	{expr: "to_string('a')", want: `"a"`},
	{expr: "to_string(`[1, 1.50, 1e21, \"<\"]`)", want: `"[1,1.5,1e+21,\"\\u003c\"]"`},
	{expr: "type(`1`)", want: `"number"`},
	{expr: "[type('a'), type(`[]`), type(`{}`), type(`null`), type(`true`)]", data: `{}`, want: `["string", "array", "object", "null", "boolean"]`},
	{expr: "sum(`[1, 2, 3]`)", want: `6`},
	{expr: "sum(`[\"1Gi\", \"1Gi\"]`)", want: `"2Gi"`},
	{expr: "sum(`[\"a\"]`)", want: `"a"`},
	{expr: "sum(`[]`)", err: "JMESPath function 'sum': at least one element in the array is required"},
	{expr: "sum(`[1, \"1h\"]`)", err: "JMESPath function 'sum': Types mismatch"},

	{expr: "compare('a', 'b')", want: `-1`},
	{expr: "compare('a', 'a') == `0`", want: `false`},
	{expr: "equal_fold('ÄB', 'äb')", want: `true`},
	{expr: "replace('aaa', 'a', 'b', `2`)", want: `"bba"`},
	{expr: "replace('aaa', 'a', 'b', `-1`)", want: `"bbb"`},
	{expr: "replace('ab', '', '-', `2`)", want: `"-a-b"`},
	{expr: "replace_all('a.b.c', '.', '')", want: `"abc"`},
	{expr: "to_upper('aé')", want: `"AÉ"`},
	{expr: "to_lower('AÉ')", want: `"aé"`},
	{expr: "trim('xyaxy', 'yx')", want: `"a"`},
	{expr: "trim_prefix('v1', 'v')", want: `"1"`},
	{expr: "split('a,b', ',')", want: `["a", "b"]`},
	{expr: "split('aé', '')", want: `["a", "é"]`},
	{expr: "truncate('äöü', `2`)", want: `"äö"`},
	{expr: "truncate('abc', `-1`)", want: `""`},
	{expr: "truncate('abc', `9`)", want: `"abc"`},
	{expr: "path_canonicalize('/var//run/../x/')", want: `"/var/x"`},
	{expr: "path_canonicalize('')", want: `""`},
	{expr: "regex_match('^1.$', `12`)", want: `true`},
	{expr: "regex_match('^16777216$', `16777217`)", want: `true`},
	{expr: "regex_match('(', 'a')", err: "error parsing regexp: missing closing ): `(`"},
	{expr: "regex_replace_all('(a)(b)?', 'abac', '<$1$2>')", want: `"<ab><a>c"`},
	{expr: "regex_replace_all('x*', 'abc', '-')", want: `"-a-b-c-"`},
	{expr: "regex_replace_all('[', 'a', 'b')", err: "JMESPath function 'regex_replace_all': error parsing regexp: missing closing ]: `[`"},
	{expr: "regex_replace_all_literal('a', 'aba', '$0')", want: `"$0b$0"`},
	{expr: "pattern_match('ngin?:*', 'nginx:1/2')", want: `true`},
	{expr: "pattern_match('*a*b', 'aXbXaXb')", want: `true`},
	{expr: "pattern_match('', '')", want: `true`},
	{expr: "pattern_match('?', '')", want: `false`},
	{expr: "pattern_match('12*', `123`)", want: `true`},
	{expr: "label_match(`{\"a\": \"b\"}`, `{\"a\": \"b\", \"c\": 1}`)", want: `true`},
	{expr: "label_match(`{\"a\": null}`, `{}`)", want: `false`},
	{expr: "to_boolean('TRUE')", want: `true`},
	{expr: "to_boolean('False')", want: `false`},
	{expr: "to_boolean('yes')", err: "JMESPath function 'to_boolean': lowercase argument must be 'true' or 'false' (provided: 'yes')"},
	{expr: "semver_compare('1.2.3', '>=1.0.0 <2.0.0')", want: `true`},
	{expr: "semver_compare('nonsense', '<0.1.0')", want: `true`},
	{expr: "semver_compare('1.2.3', 'nonsense')", err: `Could not get version from string: "nonsense"`},

	{expr: "add(`1`, `0.5`)", want: `1.5`},
	{expr: "add('1Ki', '1Ki')", want: `"2Ki"`},
	{expr: "add('1', '100m')", want: `"1100m"`},
	{expr: "add('1h', '30m0s')", want: `"1h30m0s"`},
	{expr: "add('1h', '30m')", err: "JMESPath function 'add': Types mismatch"}, // 30m is a quantity
	{expr: "add('1h', '1Ki')", err: "JMESPath function 'add': Types mismatch"},
	{expr: "add('1h', `1`)", err: "JMESPath function 'add': Types mismatch"},
	{expr: "add(`null`, `1`)", err: "JMESPath function 'add': invalid operand"},
	{expr: "add('x', `1`)", err: "JMESPath function 'add': invalid operand"},
	{expr: "subtract(`1`, `3`)", want: `-2`},
	{expr: "subtract('1Gi', '1Mi')", want: `"1023Mi"`},
	{expr: "subtract('1h', '30m0s')", want: `"30m0s"`},
	{expr: "subtract('1h', `1`)", err: "JMESPath function 'subtract': Types mismatch"},
	{expr: "multiply(`2`, `3`)", want: `6`},
	{expr: "multiply('2Ki', `3`)", want: `"6Ki"`},
	{expr: "multiply(`0.5`, '1h')", want: `"30m0s"`},
	{expr: "multiply('2Ki', '3Ki')", err: "JMESPath function 'multiply': Types mismatch"},
	{expr: "multiply('1h', `1e300`)", err: "JMESPath function 'multiply': the result is out of the bounds of a duration"},
	{expr: "multiply(`1e300`, `1e300`)", err: "JMESPath function 'multiply': the result is not a number that JSON can hold"},
	{expr: "divide(`7`, `2`)", want: `3.5`},
	{expr: "divide('10', `3`)", want: `"3"`},
	{expr: "divide('1h', '30m0s')", want: `2`},
	{expr: "divide(`1`, `0`)", err: "JMESPath function 'divide': Zero divisor passed"},
	{expr: "modulo(`7`, `-4`)", want: `3`},
	{expr: "modulo(`7.5`, `2`)", err: "JMESPath function 'modulo': Non-integer argument(s) passed for modulo"},
	{expr: "modulo('13Ki', '5Ki')", want: `"3Ki"`},
	{expr: "modulo('100m', '1')", err: "JMESPath function 'modulo': Non-integer argument(s) passed for modulo"},
	{expr: "modulo('90m', '1h')", err: "JMESPath function 'modulo': Types mismatch"},
	{expr: "modulo('90m10s', '1h')", want: `"30m10s"`},
	{expr: "modulo(`1`, `0`)", err: "JMESPath function 'modulo': Zero divisor passed"},
	{expr: "modulo('1s', '0s')", err: "JMESPath function 'modulo': Zero divisor passed"},
	{expr: "round(`2.5`, `0`)", want: `3`},
	{expr: "round(`-2.5`, `0`)", want: `-3`},
	{expr: "round(`1.25`, `400`)", want: `1.25`},
	{expr: "round(`1.25`, `0.5`)", err: "JMESPath function 'round': Non-integer argument(s) passed for round off"},

	{expr: "base64_decode('aGk=')", want: `"hi"`},
	{expr: "base64_decode('aGk')", err: "illegal base64 data at input byte 0"},
	{expr: "base64_encode('hi')", want: `"aGk="`},
	{expr: "md5('')", want: `"d41d8cd98f00b204e9800998ecf8427e"`},
	{expr: "sha1('')", want: `"da39a3ee5e6b4b0d3255bfef95601890afd80709"`},
	{expr: "sha256('')", want: `"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`},
	{expr: "parse_json('{\"a\": [1, null]}')", want: `{"a": [1, null]}`},
	{expr: "parse_json('{')", err: "unexpected end of JSON input"},
	{expr: "parse_yaml('a: [1, yes, 0x10, ~, \"1\", 2001-01-01, 1.5]')", want: `{"a": [1, true, 16, null, "1", "2001-01-01", 1.5]}`},
	{expr: "parse_yaml('{1: a, true: b, 1.5: c}')", want: `{"1": "a", "true": "b", "1.5": "c"}`},
	{expr: "parse_yaml('&a [x, *a]')", err: "yaml: anchor 'a' value contains itself"},
	{expr: "parse_yaml('[.inf]')", err: "json: unsupported value: +Inf"},
	{expr: "parse_yaml('{[a]: b}')", err: "yaml: invalid map key: []interface {}{\"a\"}"},
	{expr: "x509_decode('')", err: "failed to decode PEM block"},
	{expr: "x509_decode('-----BEGIN X-----\n-----END X-----\n')", err: "PEM block neither contains a CERTIFICATE or CERTIFICATE REQUEST"},

	{expr: "lookup(`{\"a\": 1}`, 'a')", want: `1`},
	{expr: "lookup(`{\"a\": 1}`, 'b')", want: `null`},
	{expr: "lookup(`[1, 2]`, `1`)", want: `2`},
	{expr: "lookup(`[1, 2]`, `2`)", want: `null`},
	{expr: "lookup(`[1, 2]`, `-1`)", want: `null`},
	{expr: "lookup(`[1, 2]`, 'a')", err: "JMESPath function 'lookup': argument #2 is not of type Number"},
	{expr: "lookup(`{}`, `1`)", err: "JMESPath function 'lookup': argument #2 is not of type String"},
	{expr: "lookup(`[1]`, `0.5`)", err: "JMESPath function 'lookup': argument #2: expected an integer number but got: 0.5"},
	{expr: "lookup(`[1]`, `1e300`)", err: "JMESPath function 'lookup': argument #2: number is outside the range of integer numbers: 1e+300"},
	{expr: "items(`{\"b\": 1, \"a\": 2}`, 'k', 'v')", want: `[{"k": "a", "v": 2}, {"k": "b", "v": 1}]`},
	{expr: "items(`[\"x\"]`, 'k', 'v')", want: `[{"k": 0, "v": "x"}]`},
	{expr: "object_from_lists(`[\"a\", 1, true]`, `[1, 2]`)", want: `{"a": 1, "1": 2, "true": null}`},
	{expr: "object_from_lists(`[[]]`, `[1]`)", err: "JMESPath function 'object_from_lists': argument #1 is not of type StringArray"},

	{expr: "time_since('', '2021-01-02T15:04:05Z', '2021-01-02T16:04:05Z')", want: `"1h0m0s"`},
	{expr: "time_since('', '2021-01-02T15:04:05Z', '')", want: `"24h0m0s"`},
	{expr: "time_since('2006', 'x', '')", err: `parsing time "x" as "2006": cannot parse "x" as "2006"`},
	{expr: "time_now()", want: `"2021-01-03T17:04:05+02:00"`},
	{expr: "time_now_utc()", want: `"2021-01-03T15:04:05Z"`},
	{expr: "time_add('2021-01-02T15:04:05-07:00', '3h')", want: `"2021-01-02T18:04:05-07:00"`},
	{expr: "time_add('2021-01-02T15:04:05Z', '3')", err: `time: missing unit in duration "3"`},
	{expr: "time_parse('02 Jan 2006', '05 Feb 2021')", want: `"2021-02-05T00:00:00Z"`},
	{expr: "time_parse('1', '1612137600')", want: `"2021-02-01T00:00:00Z"`},
	{expr: "time_parse('1', 'x')", err: `strconv.ParseInt: parsing "x": invalid syntax`},
	{expr: "time_to_cron('2023-02-02T15:04:05+05:00')", want: `"4 15 2 2 4"`},
	{expr: "time_utc('2021-01-02T18:04:05-05:11')", want: `"2021-01-02T23:15:05Z"`},
	{expr: "time_diff('2021-01-02T16:04:05Z', '2021-01-02T15:04:05Z')", want: `"-1h0m0s"`},
	{expr: "time_before('2021-01-02T15:04:05Z', '2021-01-02T15:04:05Z')", want: `false`},
	{expr: "time_after('2021-01-02T15:04:06Z', '2021-01-02T15:04:05Z')", want: `true`},
	{expr: "time_between('2021-01-02T15:04:06Z', '2021-01-02T15:04:05Z', '2021-01-02T15:04:07Z')", want: `true`},
	{expr: "time_truncate('2021-01-02T15:34:05Z', '1h')", want: `"2021-01-02T15:00:00Z"`},

	{expr: "image_normalize('nginx')", want: `"docker.io/nginx:latest"`},
	{expr: "image_normalize('localhost/a/b:1')", want: `"localhost/a/b:1"`},
	{expr: "image_normalize('r:5000/a@sha256:" + strings.Repeat("a", 64) + "')", want: `"r:5000/a@sha256:` + strings.Repeat("a", 64) + `"`},
	{expr: "image_normalize('a/B')", err: "JMESPath function 'image_normalize': bad image: docker.io/a/B, defaultRegistry: docker.io, enableDefaultRegistryMutation: true: repository name must be lowercase"},
	{expr: "is_external_url('http://10.0.0.1/x')", want: `false`},
	{expr: "is_external_url('https://[::1]:80')", want: `false`},
	{expr: "is_external_url('https://8.8.8.8')", want: `true`},
	{expr: "is_external_url('https://example.com')", err: "JMESPath function 'is_external_url': the address of a name is not known offline"},
	{expr: "is_external_url('x')", err: "lookup : no such host"},
	{expr: "random('[a-z]{3}-(x|y)+\\d')", want: `"aaa-x0"`},
	{expr: "random('')", err: "no pattern provided"},
	{expr: "nosuch(@)", err: "unknown function: nosuch"},
}

// atNoon is a clock that stands.
func atNoon() *Options {
	zone := time.FixedZone("", 2*60*60)
	return &Options{Now: func() time.Time { return time.Date(2021, 1, 3, 17, 4, 5, 0, zone) }}
}

func TestFunctions(t *testing.T) {
	t.Parallel()
	called := map[string]bool{}
	for _, r := range functionRows {
		r.run(t, atNoon())
		if e, err := Compile(r.expr); err == nil && r.err == "" {
			for _, f := range e.Functions() {
				called[f] = true
			}
		}
	}
	for name := range functions {
		if !called[name] && name != "x509_decode" { // has a test of its own
			t.Errorf("no row calls %s", name)
		}
	}
	if len(functions) != 26+50 { // sum is of both
		t.Errorf("there are %d functions", len(functions))
	}
}

// Every parameter of every function refuses what it does not allow.
func TestArguments(t *testing.T) {
	t.Parallel()
	good := map[valueKind]string{
		aNumber: "`1`", aString: "'a'", aList: "`[]`", anObject: "`{}`", someNumbers: "`[1]`",
		someStrings: "`[\"a\"]`", aReference: "&@", anything: "`1`",
	}
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		f := functions[name]
		if f.variadic || len(f.params) == 0 {
			continue
		}
		args := make([]string, len(f.params))
		for i, p := range f.params {
			args[i] = good[p[0]]
		}
		wrongNumber := "incorrect number of args"
		expectError(t, fmt.Sprintf("%s(%s)", name, strings.Join(args[1:], ", ")), wrongNumber)
		expectError(t, fmt.Sprintf("%s(%s, `1`)", name, strings.Join(args, ", ")), wrongNumber)
		for i, p := range f.params {
			if p[0] == anything {
				continue
			}
			wrong := slices.Clone(args)
			wrong[i] = "`true`"
			expectError(t, fmt.Sprintf("%s(%s)", name, strings.Join(wrong, ", ")), "Invalid type for: true, expected: "+p.String())
			wrong[i] = "missing.key"
			expectError(t, fmt.Sprintf("%s(%s)", name, strings.Join(wrong, ", ")), "Invalid type for: <nil>, expected: "+p.String())
		}
	}
}

func expectError(t *testing.T, expression, want string) {
	t.Helper()
	row{expr: expression, data: `{}`, want: `null`, err: want}.run(t, nil)
}

func TestSecretsStayOutOfErrors(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"keys(data)", "keys(data.password)", "to_boolean(data.password)", "abs([data])", "map(&abs(@), values(data))", "add(data.password, `1`)", "join('', data.*.{a: @})"} {
		e, err := Compile(expression)
		rendertest.OK(t, err)
		_, err = e.Search(map[string]any{"data": map[string]any{"password": "hunter2"}}, nil)
		if strings.Contains(message(err), "hunter2") {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

func TestUndecided(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		"time_now()", "time_now_utc()", "time_since('', '2021-01-02T15:04:05Z', '')", "is_external_url('https://a.b')",
		// Not even what hides other errors hides these.
		"time_now().*", "time_now()[]", "time_now()[?a]", "is_external_url('https://a.b') || 'x'",
	} {
		e, err := Compile(expression)
		rendertest.OK(t, err)
		_, err = e.Search(nil, nil)
		if _, ok := errors.AsType[*UndecidedError](err); !ok {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

func TestRandom(t *testing.T) {
	t.Parallel()
	e, err := Compile("random('a{2}')")
	rendertest.OK(t, err)
	var assumed []string
	got, err := e.Search(nil, &Options{Assumed: func(s string) { assumed = append(assumed, s) }})
	if err != nil || got != "aa" || len(assumed) != 1 || assumed[0] != `random(a{2}) gives "aa"` {
		t.Errorf("got %v, %v, assumed %q", got, err, assumed)
	}
}

// Known reports whether there is a function of a name.
func Known(function string) bool { return functions[function] != nil }

// Functions are the names of the functions that the expression calls, sorted.
func (e *Expression) Functions() []string {
	names := map[string]bool{}
	visit(e.root, true, func(n node, _ bool) {
		if c, ok := n.(*call); ok {
			names[c.name] = true
		}
	})
	return slices.Sorted(maps.Keys(names))
}
