package rego

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/render/rendertest"
)

// texts are what the errors in err say, with their places.
func texts(err error) string {
	var b strings.Builder
	errs := []error{err}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		errs = j.Unwrap()
	}
	for _, e := range errs {
		var x *Error
		if !errors.As(e, &x) {
			return "not an *Error: " + e.Error()
		}
		b.WriteString(place(x) + ": " + x.Text + "\n")
	}
	return b.String()
}

func TestFunctionsThatReachOutsideDoNotCompile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"http", "package a\ndeny contains m if m := http.send({})", "a.rego:2:25: http.send is not available: policies are evaluated offline\n"},
		{"with", "package a\nf(x) := x\ndeny contains m if m := f({}) with f as http.send", "a.rego:3:41: http.send is not available: policies are evaluated offline\n"},
		{"with of a built-in", "package a\ndeny contains m if m := count([]) with count as net.lookup_ip_addr", "a.rego:2:49: net.lookup_ip_addr is not available: policies are evaluated offline\n"},
		{"v0", "package a\ndeny[m] { m := net.lookup_ip_addr(\"a\") }", "a.rego:2:16: net.lookup_ip_addr is not available: policies are evaluated offline\n"},
		{"environment", "package a\np := {x | x := opa.runtime().env}", "a.rego:2:16: opa.runtime is not available: policies are evaluated without the environment\n"},
		{"chance", "package a\np := rand.intn(\"a\", 2)", "a.rego:2:6: rand.intn is not available: policies are evaluated without randomness\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := tryProgram(tt.text)
			if err == nil {
				t.Fatal("it compiles")
			}
			if got := texts(err); got != tt.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestEveryBuiltinIsAllowedOrRefused(t *testing.T) {
	t.Parallel()
	for _, b := range ast.Builtins {
		inOne := 0
		if refused[b.Name] != "" {
			inOne++
		}
		if allowed[b.Name] {
			inOne++
		}
		if inOne != 1 {
			t.Errorf("%s stands in %d of the two lists, allowed and refused", b.Name, inOne)
		}
	}
}

func TestSchemasReadNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	reached := make(chan struct{}, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			reached <- struct{}{}
			c.Close()
		}
	}()
	file := filepath.Join(t.TempDir(), "schema.json")
	rendertest.OK(t, os.WriteFile(file, []byte(`{"type": "string"}`), 0o600))
	for _, schema := range []string{
		`{"$ref": "http://` + l.Addr().String() + `/x"}`,
		`{"$ref": "file://` + file + `"}`,
		`{"properties": {"a": {"$ref": "file://` + file + `"}}}`,
		`{"$id": "file://` + file + `", "properties": {"a": {"$ref": "#/x"}}}`,
	} {
		q := query(t, program(t, "package a\np := json.match_schema({\"a\": 1}, input.s)[0]\nq := json.verify_schema(json.marshal(input.s))"), "data.a.p")
		in := Question{Input: ast.ObjectTerm([2]*ast.Term{ast.StringTerm("s"), ast.MustParseTerm(schema)})}
		a, err := q.Ask(context.Background(), in)
		if err == nil || !strings.Contains(err.Error(), "offline") {
			t.Errorf("%s: %v, %v", schema, a, err)
		}
	}
	select {
	case <-reached:
		t.Error("a schema was fetched")
	case <-time.After(50 * time.Millisecond):
	}
}

func TestEndlessQueriesEnd(t *testing.T) {
	const limit = time.Second / 2
	doubling := func(call string) string {
		b := strings.Builder{}
		b.WriteString("x0 := input.seed\n")
		for i := range 60 {
			b.WriteString(strings.ReplaceAll(strings.ReplaceAll(call, "NEW", "x"+string(rune('a'+i/26))+string(rune('a'+i%26))),
				"OLD", map[bool]string{true: "x0", false: "x" + string(rune('a'+(i-1)/26)) + string(rune('a'+(i-1+26)%26))}[i == 0]) + "\n")
		}
		return b.String() + "p := count(xch)"
	}
	seed := map[string]any{
		"seed": "0123456789abcdef", "big": strings.Repeat("a", 1<<20), "array": []any{int64(1), int64(2)},
		"object": map[string]any{"a": "b"},
	}
	for name, body := range map[string]string{
		"shift":             `p := bits.lsh(1, 10000000000)`,
		"shift then text":   `p := format_int(bits.lsh(1, 100000000), 10)`,
		"digits":            `p := format_int(to_number("1e100000000"), 10)`,
		"floor":             `p := floor(to_number("1e1000000000"))`,
		"rem":               `p := to_number("1e900000000") % 7`,
		"range":             `p := count(numbers.range(0, 100000000))`,
		"range of giants":   `p := count(numbers.range(0, to_number("1e100000000")))`,
		"expand":            `p := count(net.cidr_expand("10.0.0.0/8"))`,
		"expand v6":         `p := count(net.cidr_expand("::/0"))`,
		"width":             `p := count(sprintf("%1000000000d", [1]))`,
		"starred width":     `p := count(sprintf("%*d", [1000000000, 1]))`,
		"concat doubles":    doubling(`NEW := concat("", [OLD, OLD])`),
		"sprintf doubles":   doubling(`NEW := sprintf("%s%s", [OLD, OLD])`),
		"indexed sprintf":   `p := count(sprintf("` + strings.Repeat("%[1]s", 2000) + `", [input.big]))`,
		"template doubles":  doubling("NEW := $\"{OLD}{OLD}\""),
		"replace doubles":   doubling(`NEW := replace(OLD, "a", "aa")` + "\n"),
		"replace n":         doubling(`NEW := strings.replace_n({"a": "aa", "b": "bb"}, OLD)`),
		"regex replace":     doubling(`NEW := regex.replace(OLD, "(.*)", "$1$1")`),
		"regex replace all": doubling(`NEW := regex.replace(OLD, "[0-9]", "00")`),
		"regex big":         `p := regex.match("(a?){1000}(a?){1000}(a?){1000}$", input.big)`,
		"glob":              `p := glob.match("*a*a*a*a*a*a*a*a*a*a*a*ab", [], input.big)`,
		"array doubles":     "x0 := input.array\n" + strings.TrimPrefix(doubling(`NEW := array.concat(OLD, OLD)`), "x0 := input.seed\n"),
		"marshal of shared": "x0 := input.array\n" + strings.TrimSuffix(strings.TrimPrefix(doubling(`NEW := [OLD, OLD]`), "x0 := input.seed\n"), "p := count(xch)") +
			"p := count(json.marshal(xch))",
		"text of shared": "x0 := input.array\n" + strings.TrimSuffix(strings.TrimPrefix(doubling(`NEW := [OLD, OLD]`), "x0 := input.seed\n"), "p := count(xch)") +
			"p := count(sprintf(\"%v\", [xch]))",
		"walk of shared": "x0 := input.array\n" + strings.TrimSuffix(strings.TrimPrefix(doubling(`NEW := [OLD, OLD]`), "x0 := input.seed\n"), "p := count(xch)") +
			"p := [1 | walk(xch, [_, 3])]",
		"patch copies":    `p := json.patch({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": sprintf("/a/c%d", [i])} | some i in numbers.range(1, 60)])`,
		"paths":           `g := {sprintf("%d", [i]): [sprintf("%d", [j]) | some j in numbers.range(i + 1, 40)] | some i in numbers.range(1, 39)}` + "\n" + `p := count(graph.reachable_paths(g, ["1"]))`,
		"render range":    `p := strings.render_template("{{range .n}}x{{end}}", {"n": 1000000000})`,
		"render self":     `p := strings.render_template("{{define \"a\"}}{{template \"a\" .}}{{end}}{{template \"a\" .}}", {})`,
		"nested loops":    `p := count({[i, j, k] | some i in numbers.range(1, 1000); some j in numbers.range(1, 1000); some k in numbers.range(1, 1000)})`,
		"growing strings": `p := count([s | some i in numbers.range(1, 100000); s := upper(input.big)])`,
		"endless check":   `p := [1 | some i in numbers.range(1, 5000); some j in numbers.range(1, 5000); i * j == -1]`,
		"distinct texts":  `p := count({sprintf("%d/%d/%d", [i, j, k]) | some i in numbers.range(1, 1000); some j in numbers.range(1, 1000); some k in numbers.range(1, 1000)})`,
		"many arrays":     `p := count([[i, j, k] | some i in numbers.range(1, 1000); some j in numbers.range(1, 1000); some k in numbers.range(1, 1000)])`,
		"aliases":         `p := count(yaml.unmarshal(concat("", ["a: &a ", substring(input.big, 0, 50000), "\nb: [", concat("", ["*a," | numbers.range(1, 16000)[_]]), "]"])))`,
		"aliases, nested": `p := count(yaml.unmarshal(concat("", ["a0: &a0 [x, x]\n", concat("", [sprintf("a%d: &a%d [*a%d, *a%d]\n", [i, i, i - 1, i - 1]) | some i in numbers.range(1, 60)])])))`,
		"places":          `p := count(indexof_n(concat("", [input.big | numbers.range(1, 4)[_]]), "a"))`,
		"unit":            `p := units.parse("1e99999999")`,
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Parse(Source{Name: "a.rego", Text: "package a\n" + body})
			if err != nil {
				t.Fatal(texts(err))
			}
			p, err := Compile(map[string]*ast.Module{"a.rego": m}, Options{Time: limit})
			if err != nil {
				t.Fatal(texts(err))
			}
			q := query(t, p, "data.a.p")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			a, err := q.Ask(context.Background(), Question{Input: Value(seed)})
			runtime.ReadMemStats(&after)
			t.Logf("%.1fs, %d MB allocated, heap %d MB", time.Since(start).Seconds(), (after.TotalAlloc-before.TotalAlloc)>>20, after.HeapSys>>20)
			if err == nil && len(a.Errors) == 0 {
				t.Errorf("it ends with %.80v", a.Value)
			} else if err != nil {
				t.Log(strings.TrimSpace(texts(err)))
			} else {
				t.Log(a.Errors[0])
			}
		})
	}
}

func TestReachableAsOPA(t *testing.T) {
	t.Parallel()
	layers := `g := {sprintf("%d/%d", [i, j]): [sprintf("%d/%d", [i + 1, k]) | some k in numbers.range(1, 20)] | some i in numbers.range(1, 30); some j in numbers.range(1, 20)}`
	q := query(t, program(t, "package a\n"+layers+"\np := [count(graph.reachable(g, {\"1/1\"})), graph.reachable({\"a\": [\"b\"], \"b\": {\"a\", \"c\"}, \"c\": [], \"d\": [\"a\"]}, [\"a\", \"x\"])]"), "data.a.p")
	if got, want := ask(t, q, Question{}).Value.String(), `[581, {"a", "b", "c"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
