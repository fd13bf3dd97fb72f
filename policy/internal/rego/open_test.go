package rego

import (
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
)

// whoInput is an input whose review names nobody, and knows no namespace.
func whoInput() Question {
	input := ast.MustParseTerm(`{"review": {"kind": {"kind": "Pod"}, "name": "a", "userInfo": {}, "namespaceObject": {}}, "parameters": {"userInfo": {"a": 1}}}`)
	return Question{Input: input, Open: []Open{
		{[]string{"review", "userInfo"}, "the user"}, {[]string{"review", "namespaceObject"}, "the namespace"},
	}}
}

func TestUnknownFieldsAreReportedWhenRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"directly", `p if input.review.userInfo.username == "me"`, "the user"},
		{"by another name", `p if { r := input.review; not r.userInfo.username == "me" }`, "the user"},
		{"by a helper", "who(r) := r.userInfo.username\np if not who(input.review)", "the user"},
		{"by a variable", `p if { some k; input.review[k].username }`, "the namespace, the user"},
		{"by walk", `p if { walk(input.review, [path, "me"]) }`, "the namespace, the user"},
		{"by object.get", `p if object.get(input, ["review", "userInfo", "username"], "") == ""`, "the user"},
		{"in a text", `p if contains(sprintf("%v", [input.review]), "me")`, "the namespace, the user"},
		{"in a negation", `p if not input.review.namespaceObject.metadata.labels.a`, "the namespace"},
		{"whole", `p if input.review.userInfo == {}`, "the user"},
		{"as a key", `p if {"a": 1}[input.review]`, "the namespace, the user"},
		{"not reached", "p if { input.review.kind.kind == \"Service\"; input.review.userInfo.username == \"me\" }", ""},
		{"not reached, whatever is looked up first", "p if { input.review.kind.kind == \"Service\"; input.review.userInfo.username == \"me\" }\np if { input.review.name == \"b\"; input.review.userInfo.username == \"you\" }", ""},
		{"handed on and not read", "is_update(r) if r.operation == \"UPDATE\"\np if not is_update(input.review)", ""},
		{"of the same name", `p if input.parameters.userInfo.a == 1`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := query(t, program(t, "package a\n"+tt.text), "data.a.p")
			if got := strings.Join(ask(t, q, whoInput()).Unknown, ", "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestUnknownFieldsChangeNothingElse(t *testing.T) {
	t.Parallel()
	q := query(t, program(t, "package a\nname(r) := r.name\np := [name(input.review), count(input.review), input.parameters, {k | input.review.kind[k]}]"), "data.a.p")
	in := whoInput()
	got := ask(t, q, in)
	in.Open = nil
	if want := ask(t, q, in); got.Value.Compare(want.Value) != 0 || len(got.Unknown) > 0 {
		t.Errorf("got %v (%v), want %v", got.Value, got.Unknown, want.Value)
	}
}

func TestTimeIsUnknownOrFixed(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct{ name, text, unknown, want string }{
		{"now", `p := time.now_ns()`, needsTime, "1767323045000000000"},
		{"token", `p := io.jwt.decode_verify("e30.e30.e30", {"secret": "a"})`, needsTime, ""},
		{"token at a time", `p := io.jwt.decode_verify("e30.e30.e30", {"secret": "a", "time": 1})`, "", ""},
		{"certificates", `p := crypto.x509.parse_and_verify_certificates_with_options("x", {})[0]`, needsTime, "false"},
		{"certificates at a time", `p := crypto.x509.parse_and_verify_certificates_with_options("x", {"CurrentTime": 1})[0]`, "", "false"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := query(t, program(t, "package a\n"+tt.text), "data.a.p")
			if got := strings.Join(ask(t, q, Question{}).Unknown, ", "); got != tt.unknown {
				t.Errorf("without a time %q is unknown, and %q should be", got, tt.unknown)
			}
			a := ask(t, q, Question{Now: at})
			if len(a.Unknown) > 0 || tt.want != "" && a.Value.String() != tt.want {
				t.Errorf("got %v (%v), want %s", a.Value, a.Unknown, tt.want)
			}
		})
	}
}
