package rego

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestBroken shows what is said of modules that are wrong: a place, one
// sentence, no more than anybody reads.
func TestBroken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"no value", "package a\ndeny[msg] { input.x\n msg = \n}", "a.rego:4:1: unexpected } token\n"},
		{"v0 with rego.v1", "package a\nimport rego.v1\ndeny[msg] { msg := 1 }", "a.rego:3:1: `contains` keyword is required for partial set rules\na.rego:3:1: `if` keyword is required before rule body\n"},
		{"half v1", "package a\ndeny contains msg if { msg := 1 }\nfoo { 1 == 2 }", "a.rego:3:1: `if` keyword is required before rule body\n"},
		{"unknown function", "package a\np := nothing(1)", "a.rego:2:6: undefined function nothing\n"},
		{"recursion", "package a\np if q\nq if p", "a.rego:2:1: rule data.a.p is recursive: data.a.p -> data.a.q -> data.a.p\na.rego:3:1: rule data.a.q is recursive: data.a.q -> data.a.p -> data.a.q\n"},
		{"deprecated", "package a\nimport rego.v1\np if re_match(\"a\", \"b\")", "a.rego:3:6: deprecated built-in function calls in expression: re_match\n"},
		{"no package", "p := 1", "a.rego:1:1: package expected\n"},
		{"nesting", "package a\np := " + strings.Repeat("[", 100_000), "a.rego:2:256: brackets nest deeper than 250\n"},
		{"nesting after texts", "package a\nq := \"((((\" # [[[\nr := `\n[[`\np := " + strings.Repeat("{", 300), "a.rego:5:256: brackets nest deeper than 250\n"},
		{"length", "package a\n" + strings.Repeat("# x\n", 1<<19), "a.rego:1:1: the module is longer than 1048576 bytes\n"},
		{"many errors", "package a\n" + strings.Repeat("p := nothing(1)\n", 1000), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := tryProgram(tt.text)
			if err == nil {
				t.Fatal("it compiles")
			}
			got := texts(err)
			if len(got) > 8<<10 {
				t.Errorf("%d bytes are told", len(got))
			}
			if tt.want != "" && got != tt.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       ast.RegoVersion
	}{
		{"v1", "package a\np contains 1 if true", ast.RegoV1},
		{"v0", "package a\np[1] { true }", ast.RegoV0},
		{"both read", "package a\np := 1", ast.RegoV1},
		{"v0 with keywords and a function v1 lost", "package a\nimport future.keywords\np contains 1 if re_match(`a`, input.x)", ast.RegoV0},
		{"v0 with rego.v1", "package a\nimport rego.v1\np contains 1 if true", ast.RegoV1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, err := Parse(Source{Name: "a.rego", Text: tt.text})
			if err != nil {
				t.Fatal(texts(err))
			}
			if m.RegoVersion() != tt.want {
				t.Errorf("it is read as %v", m.RegoVersion())
			}
			program(t, tt.text)
		})
	}
}

// TestErrorsOfBuiltins holds which errors of functions OPA takes for undefined and
// the engine reports, such as 1/0, and which always end the evaluation.
func TestErrorsOfBuiltins(t *testing.T) {
	t.Parallel()
	input := Value(map[string]any{"n": int64(0), "x": "zzz", "list": []any{int64(1), int64(2)}})
	for _, tt := range []struct{ body, swallowed, fault string }{
		{"p contains 1 if 1 / input.n == 1", "a.rego:2:17: div: divide by zero", ""},
		{"p contains 1 if to_number(input.x)", "a.rego:2:17: to_number: strconv.ParseFloat: parsing \"zzz\": invalid syntax", ""},
		{"p contains 1 if units.parse_bytes(input.x)", "a.rego:2:17: units.parse_bytes: units.parse_bytes: no byte amount provided", ""},
		{"p contains 1 if time.parse_rfc3339_ns(input.x)", "", ""},
		{"p := 1\np := 2", "", "a.rego:3:1: rule data.a.p produced conflicting values"},
		{"p := f(1)\nf(x) := 1\nf(x) := 2", "", "a.rego:4:1: function data.a.f produced conflicting values for the same inputs"},
		{"p[k] := v if { k := \"a\"; v := input.list[_] }", "", "a.rego:2:1: object keys must be unique"},
	} {
		t.Run(tt.body, func(t *testing.T) {
			t.Parallel()
			q := query(t, program(t, "package a\n"+tt.body), "data.a.p")
			a, err := q.Ask(context.Background(), Question{Input: input})
			checkFault(t, err, tt.fault)
			for _, e := range a.Errors {
				if got := place(e) + ": " + e.Text; tt.swallowed != "" && got != tt.swallowed {
					t.Errorf("swallowed %s", got)
				}
			}
			if tt.fault == "" && len(a.Errors) != 1 {
				t.Errorf("swallowed %v", a.Errors)
			}
		})
	}
}

func checkFault(t *testing.T, err error, want string) {
	t.Helper()
	var e *Error
	switch {
	case err == nil && want == "":
	case !errors.As(err, &e):
		t.Errorf("got %v, want %s", err, want)
	case place(e)+": "+e.Text != want:
		t.Errorf("got %s: %s, want %s", place(e), e.Text, want)
	}
}

func TestPrintIsCaught(t *testing.T) {
	t.Parallel()
	q := query(t, program(t, "package a\np if {\n\tprint(\"::error::\", input.x, input.nothing)\n}"), "data.a.p")
	var got []string
	ask(t, q, Question{Input: Value(map[string]any{"x": "y"}), Print: func(name string, line int, text string) {
		got = append(got, fmt.Sprintf("%s:%d: %s", name, line, text))
	}})
	rendertest.Equal(t, []string{"a.rego:3: ::error:: y <undefined>"}, got)
	ask(t, q, Question{Input: Value(map[string]any{"x": "y"})})
}

func TestExternalDataIsUnknown(t *testing.T) {
	t.Parallel()
	q := query(t, program(t, `package a
p contains x if x := external_data({"provider": "b", "keys": [1]})
p contains x if x := external_data({"provider": "a", "keys": [1]})`), "data.a.p")
	a := ask(t, q, Question{})
	if diff := cmp.Diff([]string{"external data of provider a", "external data of provider b"}, a.Unknown); diff != "" || a.Value.String() != "set()" {
		t.Error(a.Value, diff)
	}
	m, err := Parse(Source{Name: "a.rego", Text: "package a\np := external_data({})"})
	rendertest.OK(t, err)
	if _, err := Compile(map[string]*ast.Module{"a.rego": m}, Options{}); err == nil {
		t.Error("it is known where nobody asked for it")
	}
}

func TestQueryOverTimeIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	m, err := Parse(Source{Name: "a.rego", Text: "package a\np if {\n\tsome i in numbers.range(1, 100000)\n\tsome j in numbers.range(1, 100000)\n\ti * j == -1\n}"})
	if err != nil {
		t.Fatal(texts(err))
	}
	p, err := Compile(map[string]*ast.Module{"a.rego": m}, Options{Time: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(texts(err))
	}
	q := query(t, p, "data.a.p")
	for range maxEnded {
		_, err = q.Ask(context.Background(), Question{})
		checkFault(t, err, "a.rego:2:1: the evaluation of data.a.p takes more than 20ms, and was ended")
	}
	_, err = q.Ask(context.Background(), Question{})
	checkFault(t, err, "a.rego:2:1: the evaluation of data.a.p took too much for other objects, and is not begun again")
}

func TestLargeAnswersAreErrors(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("package a\nx0 := [1, 2]\np := x40\n")
	for i := range 40 {
		fmt.Fprintf(&b, "x%d := [x%d, x%d]\n", i+1, i, i)
	}
	_, err := query(t, program(t, b.String()), "data.a.p").Ask(context.Background(), Question{})
	checkFault(t, err, "a.rego:3:1: the value of data.a.p is larger than 32 MiB")
}

func TestCancelledIsNoError(t *testing.T) {
	t.Parallel()
	q := query(t, program(t, "package a\np := count([1 | some i in numbers.range(1, 1000); i > 2])"), "data.a.p")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := q.Ask(ctx, Question{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestSlowCompilationEnds(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("package a\nx0 := 1\n")
	for i := range 3000 {
		fmt.Fprintf(&b, "x%d := [x%d]\n", i+1, i)
	}
	m, err := Parse(Source{Name: "a.rego", Text: b.String()})
	rendertest.OK(t, err)
	_, err = compile(map[string]*ast.Module{"a.rego": m}, Options{}, 100*time.Millisecond)
	checkFault(t, err, "a.rego:1:1: the modules take more than 100ms to compile")
}

// TestOrderAndParallel holds that neither the order of modules nor how many
// ask at once changes an answer.
func TestOrderAndParallel(t *testing.T) {
	t.Parallel()
	sources := []string{limitsPolicy, "package lib\nimport rego.v1\nok(x) if x > 1", "package main\nimport rego.v1\ndeny contains \"few\" if not data.lib.ok(input.spec.replicas)", "package main\ndeny[\"old\"] { not input.old }"}
	want := ""
	for seed := range 10 {
		modules := map[string]*ast.Module{}
		for n, i := range rand.New(rand.NewSource(int64(seed))).Perm(len(sources)) {
			m, err := Parse(Source{Name: fmt.Sprint(n), Text: sources[i]})
			rendertest.OK(t, err)
			modules[fmt.Sprint(n)] = m
		}
		p, err := Compile(modules, Options{})
		if err != nil {
			t.Fatal(texts(err))
		}
		for _, got := range askTogether(t, query(t, p, "data.main.deny")) {
			if want == "" {
				want = got
			}
			if got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	}
	if !strings.Contains(want, "no memory limit") {
		t.Error(want)
	}
}

func askTogether(t *testing.T, q *Query) []string {
	in := Question{Input: Value(deployment(true)), Data: NewData(ast.NewObject())}
	out := make([]string, 16)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			a, err := q.Ask(context.Background(), in)
			if err != nil {
				t.Error(err)
				return
			}
			var values []ast.Value
			each(a.Value, func(v *ast.Term) { values = append(values, v.Value) })
			fields, err := blame(q, in, values)
			if err != nil {
				t.Error(err)
			}
			out[i] = a.Value.String() + fmt.Sprint(fields)
		})
	}
	wg.Wait()
	return out
}

func TestPlain(t *testing.T) {
	t.Parallel()
	v := ast.MustParseTerm(`{"a": [1, 1.5, 9007199254740993, 1e300, null, true], "s": {"b", "a", 3}, 7: {}, "big": 123456789012345678901234567890}`)
	want := map[string]any{
		"a": []any{int64(1), 1.5, int64(9007199254740993), 1e300, nil, true},
		"s": []any{int64(3), "a", "b"}, "7": map[string]any{}, "big": 1.2345678901234568e29,
	}
	rendertest.Equal(t, want, Plain(v.Value))
	x := map[string]any{"i": int64(1 << 62), "f": 1.5, "whole": 2.0, "s": "", "n": nil, "l": []any{true}}
	want = map[string]any{"i": int64(1 << 62), "f": 1.5, "whole": int64(2), "s": "", "n": nil, "l": []any{true}}
	rendertest.Equal(t, want, Plain(Value(x).Value))
}
