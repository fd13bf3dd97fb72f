package jmespath

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render/rendertest"
)

const pod = `{
	"metadata": {"name": "web", "labels": {"app": "web", "a/b": "x~y"}, "annotations": null},
	"spec": {
		"hostNetwork": false, "replicas": 0, "empty": "",
		"containers": [
			{"name": "one", "image": "nginx:1", "ports": [{"port": 80}, {"port": 443}]},
			{"name": "two", "securityContext": {"privileged": true}},
			{"name": "three", "image": "redis", "ports": []}
		],
		"volumes": {"b": {"size": 2}, "a": {"size": 1, "kind": "disk"}},
		"nested": [[1, [2]], [3], 4]
	}
}`

var grammarRows = []row{
	{expr: "metadata.name", want: `"web"`},
	{expr: ` metadata . "name" `, want: `"web"`},
	{expr: `metadata.labels."a/b"`, want: `"x~y"`},
	{expr: `metadata.labels."\u0061pp"`, want: `"web"`},
	{expr: "spec.containers[0].name", want: `"one"`},
	{expr: "spec.containers[-1].name", want: `"three"`},
	{expr: "spec.containers[3]", want: `null`},
	{expr: "spec.containers[-4].x", want: `null`},
	{expr: "spec[0]", want: `null`},
	{expr: "spec.containers[*].image", want: `["nginx:1", "redis"]`},
	{expr: "spec.containers[].ports", want: `[[{"port": 80}, {"port": 443}], []]`},
	{expr: "spec.containers[].ports[].port", want: `[80, 443]`},
	{expr: "spec.containers[*].ports[*].port", want: `[[80, 443], []]`},
	{expr: "spec.containers[*].ports | [0][1].port", want: `443`},
	{expr: "spec.nested[]", want: `[1, [2], 3, 4]`},
	{expr: "spec.nested[][]", want: `[1, 2, 3, 4]`},
	{expr: "spec.nested[*][0]", want: `[1, 3]`},
	{expr: "spec.volumes.*.size", want: `[1, 2]`},
	{expr: "spec.volumes.*.kind", want: `["disk"]`},
	{expr: "spec.*.a.size", want: `null`}, // (spec.*.a).size
	{expr: "*.name", want: `["web"]`},
	{expr: "spec.containers[?image].name", want: `["one", "three"]`},
	{expr: "spec.containers[?image == 'redis'] | [0].name", want: `"three"`},
	{expr: "spec.containers[?securityContext.privileged].name", want: `["two"]`},
	{expr: "spec.containers[?ports[?port > `100`]].name", want: `["one"]`},
	{expr: "spec.containers[?!image].name", want: `["two"]`},
	{expr: "spec.nested[?@ > `3`]", want: `[4]`},
	{expr: "spec.containers[0:2].name", want: `["one", "two"]`},
	{expr: "spec.containers[::-1].name", want: `["three", "two", "one"]`},
	{expr: "spec.containers[-2:].name", want: `["two", "three"]`},
	{expr: "spec.containers[5:-9223372036854775807:-2].name", want: `["three", "one"]`},
	{expr: "spec.containers[::9223372036854775807].name", want: `["one"]`},
	{expr: "spec.containers[::0]", err: "Invalid slice, step cannot be 0"},
	{expr: "spec.volumes[0:1]", want: `null`},
	{expr: "metadata.[name, missing]", want: `["web", null]`},
	{expr: `metadata.{n: name, "m m": missing}`, want: `{"n": "web", "m m": null}`},
	{expr: "metadata.{a: name b: name}", want: `{"a": "web", "b": "web"}`}, // as Kyverno's parser
	{expr: "metadata.annotations.[a]", want: `null`},
	{expr: "metadata.annotations.{a: b}", want: `null`},
	{expr: "[metadata.name, spec.replicas]", want: `["web", 0]`},
	{expr: "spec.hostNetwork || 'yes'", want: `"yes"`},
	{expr: "spec.replicas || 'yes'", want: `0`},
	{expr: "spec.empty || metadata.annotations || `[]` || `{}`", want: `{}`},
	{expr: "spec.replicas && metadata.name", want: `"web"`},
	{expr: "spec.empty && metadata.name", want: `""`},
	{expr: "!(spec.empty) && !(spec.hostNetwork)", want: `true`},
	{expr: "!(spec.replicas)", want: `false`},
	{expr: "!spec.replicas", want: `null`}, // (!spec).replicas
	{expr: "spec.containers[:::].name", want: `["one", "two", "three"]`},
	{expr: "!(spec.empty || spec.replicas)", want: `false`},
	{expr: "`1` == `1.0`", want: `true`},
	{expr: "`{\"a\": [1]}` == `{\"a\": [1]}`", want: `true`},
	{expr: "`{\"a\": [1]}` != `{\"b\": [1]}`", want: `true`},
	{expr: "`[1]` == `[1, 2]`", want: `false`},
	{expr: "`1` == '1'", want: `false`},
	{expr: "[`1` < `2`, `2` <= `2`, `1` > `2`, `2` >= `2`]", want: `[true, true, false, true]`},
	{expr: "'a' < 'b'", want: `null`},
	{expr: "'it\\'s \\n'", want: `"it's \\n"`},
	{expr: "`\"a\\`b\"`", want: "\"a`b\""},
	{expr: "metadata | name", want: `"web"`},
	{expr: "@ | metadata.name", want: `"web"`},
	{expr: "@.metadata.@.name", want: `null`, err: "SyntaxError: Expected identifier, lbracket, or lbrace, received: @"},
	{expr: "spec.containers[*].{n: name, p: length(ports || `[]`)} | [?p > `0`].n", want: `["one"]`},
	{expr: "metadata.join('-', [name, 'x'])", want: `"web-x"`},
	{expr: "length(spec.containers, )", want: `3`},

	// Where a missing key is an error, and where it is null.
	{expr: "missing", err: `Unknown key "missing" in path`},
	{expr: "metadata.missing.name", err: `Unknown key "missing" in path`},
	{expr: `metadata."a\"b"`, err: `Unknown key "a"b" in path`},
	{expr: "metadata.missing[0]", err: `Unknown key "missing" in path`},
	{expr: "(missing)", err: `Unknown key "missing" in path`},
	{expr: "metadata.annotations.x.y", want: `null`},
	{expr: "metadata.name.x", want: `null`},
	{expr: "spec.containers.x", want: `null`},
	{expr: "missing[*]", want: `null`},
	{expr: "missing[0:1]", want: `null`},
	{expr: "missing[].a", want: `null`},
	{expr: "missing[?a]", want: `null`},
	{expr: "missing.*", want: `null`},
	{expr: "keys('a')[]", want: `null`},
	{expr: "keys('a').*", want: `null`},
	{expr: "keys('a')[?a]", want: `null`},
	{expr: "keys('a')[*]", err: `Invalid type for: a, expected: []jmespath.JpType{"object"}`},
	{expr: "missing == `null`", want: `true`},
	{expr: "missing != metadata.missing", want: `false`},
	{expr: "missing || metadata.missing", want: `null`},
	{expr: "missing && metadata.name", want: `null`},
	{expr: "metadata.name && missing", err: `Unknown key "missing" in path`},
	{expr: "!missing", want: `true`},
	{expr: "missing | @", want: `null`},
	{expr: "metadata | missing", want: `null`},
	{expr: "to_string(missing)", want: `"null"`},
	{expr: "[missing]", want: `[null]`},
	{expr: "spec.volumes.*.length(@)", err: `Invalid type for: <nil>, expected: []jmespath.JpType{"string", "array", "object"}`},
	{expr: "values(spec.volumes)[*].length(@)", want: `[2, 1]`},
	{expr: "spec.volumes.*.type(@)", want: `["null", "null", "object", "object"]`},
	{expr: "&metadata", err: "an expression reference is not a value"},
}

func TestGrammar(t *testing.T) {
	t.Parallel()
	for _, r := range grammarRows {
		if strings.HasPrefix(r.err, "SyntaxError") {
			if _, err := Compile(r.expr); message(err) != r.err {
				t.Errorf("%s: %v", r.expr, err)
			}
			continue
		}
		r.data = pod
		r.run(t, nil)
	}
}

func TestSyntaxErrors(t *testing.T) {
	t.Parallel()
	for expression, offset := range map[string]int{
		"": 0, ".": 0, "a.": 2, "a..b": 2, "a.1": 2, "a b": 2, "a[": 2, "a[b]": 2, "a[0": 3, "a[0, 1]": 3, "a]": 1,
		"[": 1, "{": 1, "{a}": 2, "{a:}": 3, "{a: b": 5, "{a: b,}": 6, "{'a': b}": 1, "(a": 2, "a)": 1, "f(": 2, "f(a": 3,
		"@(a)": 1, `"f"(a)`: 3, "a.'b'": 2, "a.`1`": 2, "'a": 0, `"a`: 0, "`1": 0, "`a`": 0, "``": 0, `"\x"`: 0,
		"a = b": 2, "a <> b": 3, "a || ": 5, "|| a": 0, "a[?b": 4, "a[?]": 3, "a[*": 3, "a[*]b": 4, "*b": 1, "[:a]": 2,
		"-": 0, "#": 0, "a ^ b": 2, "é": 0, "a[99999999999999999999]": 2, "foo[ ?a]": 5, "\x00": 0, "a\xff": 1, "\u00a0a": 0,
	} {
		_, err := Compile(expression)
		syntax, ok := errors.AsType[*SyntaxError](err)
		if !ok || syntax.Offset != offset || syntax.Expression != expression {
			t.Errorf("%q: %#v", expression, err)
		}
	}
}

// lazy is a Scope that notes what it is asked for.
type lazy struct {
	data  map[string]any
	asked []string
}

func (l *lazy) Lookup(name string) (any, bool, error) {
	l.asked = append(l.asked, name)
	if name == "broken" {
		return nil, false, errors.New("the ConfigMap default/x is not in this tree")
	}
	if name == "unresolved" {
		return nil, false, &NotFoundError{Key: "inner"}
	}
	v, found := l.data[name]
	return v, found, nil
}

func (l *lazy) All() (map[string]any, error) {
	l.asked = append(l.asked, "all of it")
	return l.data, nil
}

func TestScope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expr, want, err, asked string }{
		{"a.b", `1`, "", "a"},
		{"@.a.b", `1`, "", "a"},
		{"a.b || c", `1`, "", "a"},
		{"c || to_string(a.b)", `"1"`, "", "c a"},
		{"d.e", ``, `Unknown key "d" in path`, "d"},
		{"d || 'x'", `"x"`, "", "d"},
		{"a.c[?a == `2`]", `null`, "", "a"},
		{"@", `{"a": {"b": 1}, "l": [{"a": 2}]}`, "", "all of it"},
		{"keys(@)", `["a", "l"]`, "", "all of it"},
		{"*", `[{"b": 1}, [{"a": 2}]]`, "", "all of it"},
		{"{x: a.b}", `{"x": 1}`, "", "a"},
		{"[a, l]", `[{"b": 1}, [{"a": 2}]]`, "", "a l"},
		{"l[].a", `[2]`, "", "l"},
		{"broken.x || 'x'", ``, "the ConfigMap default/x is not in this tree", "broken"},
		{"broken[].x", ``, "the ConfigMap default/x is not in this tree", "broken"},
		{"unresolved.x || 'x'", `"x"`, "", "unresolved"},
	} {
		scope := &lazy{data: map[string]any{"a": map[string]any{"b": 1.0}, "l": []any{map[string]any{"a": 2.0}}}}
		e, err := Compile(c.expr)
		rendertest.OK(t, err)
		got, err := e.Search(scope, nil)
		if message(err) != c.err {
			t.Errorf("%s: %v", c.expr, err)
		}
		if diff := cmp.Diff(decode(t, c.want), got); diff != "" {
			t.Errorf("%s: %s", c.expr, diff)
		}
		if asked := strings.Join(scope.asked, " "); asked != c.asked {
			t.Errorf("%s asked for %s, not %s", c.expr, asked, c.asked)
		}
	}
}

func TestFunctionNames(t *testing.T) {
	t.Parallel()
	e, err := Compile("a[?contains(b, 'c')] | map(&to_upper(@), sort_by(@, &length(x))) && nosuch(`1`) && length('a')")
	rendertest.OK(t, err)
	want := []string{"contains", "length", "map", "nosuch", "sort_by", "to_upper"}
	rendertest.Equal(t, want, e.Functions())
	if Known("nosuch") || !Known("x509_decode") {
		t.Error("what is known is not")
	}
	if e.String()[:2] != "a[" {
		t.Error(e.String())
	}
}

// An index of an element is an int64: no number to functions and comparisons.
func TestIntegers(t *testing.T) {
	t.Parallel()
	data := map[string]any{"i": int64(1), "n": 1.0}
	for expression, want := range map[string]any{
		"i": int64(1), "i == i": true, "i == n": false, "i < `2`": nil, "to_string(i)": "1", "i || 'x'": int64(1), "[i] == [i]": true,
	} {
		e, err := Compile(expression)
		rendertest.OK(t, err)
		got, err := e.Search(data, nil)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", expression, err, diff)
		}
	}
	for expression, want := range map[string]string{
		"add(i, `1`)": "JMESPath function 'add': invalid operand", "type(i)": "unknown type", "to_number(i)": "unknown type",
		"abs(i)": `Invalid type for: 1, expected: []jmespath.JpType{"number"}`,
	} {
		e, err := Compile(expression)
		rendertest.OK(t, err)
		if _, err := e.Search(data, nil); message(err) != want {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

func TestConcurrentSearches(t *testing.T) {
	t.Parallel()
	e, err := Compile("spec.containers[?regex_match('^t', name)] | sort_by(@, &name)[].name")
	rendertest.OK(t, err)
	data := decode(t, pod)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				got, err := e.Search(data, nil)
				if diff := cmp.Diff([]any{"three", "two"}, got); diff != "" || err != nil {
					t.Error(err, diff)
				}
			}
		})
	}
	group.Wait()
}
