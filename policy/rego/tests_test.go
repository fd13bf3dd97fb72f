package rego

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

func TestRunTests(t *testing.T) {
	t.Parallel()
	g := files(t, `
-- a.rego --
package main
deny contains "no pods" if input.kind == data.kinds.bad
-- a_test.rego --
package main_test
import data.main
test_pod if main.deny["no pods"] with input as {"kind": "Pod"}
test_pod if main.deny["no pods"] with input as {"kind": "Service"}
test_data if count(main.deny) == 0 with input as {"kind": "Pod"} with data.kinds.bad as "Job"
test_false := false
test_number := 1
test_fails if to_number("x") == 1
todo_test_later if false
test_breaks := 1 if true
test_breaks := 2 if true
test_two := x if { x := conflict }
conflict := 1
conflict := 2 if main.deny
test_case[note] if { some note in ["a", "b"] }
-- src.rego --
package k8srequired
violation[{"msg": msg}] { not input.review.object.metadata.labels; msg := "missing" }
-- src_test.rego --
package k8srequired
test_missing { count(violation) == 1 with input as {"review": {"object": {}}} }
-- broken_test.rego --
package broken
test_x if parse_config_file("x")
-- data/kinds.yaml --
kinds: {bad: Pod}
`)
	tests, err := RunTests(t.Context(), g.modules, g.options)
	got := ""
	for _, x := range render.Errors(err) {
		got += fmt.Sprintf("%s %v\n", x, x.Warning)
	}
	for _, x := range tests {
		got += fmt.Sprintf("%s %s.%s %s %s\n", x.Origin, x.Package, x.Name, x.Outcome, x.Message)
	}
	const want = `broken_test.rego:2:11: undefined function parse_config_file false
a_test.rego:3:1 main_test.test_pod pass 
a_test.rego:4:1 main_test.test_pod#01 fail its body does not hold
a_test.rego:5:1 main_test.test_data pass 
a_test.rego:6:1 main_test.test_false fail its value is not true
a_test.rego:7:1 main_test.test_number fail its value is not true
a_test.rego:8:1 main_test.test_fails fail its body does not hold: to_number: strconv.ParseFloat: parsing "x": invalid syntax (a_test.rego:8:15)
a_test.rego:9:1 main_test.todo_test_later skip 
a_test.rego:10:1 main_test.test_breaks fail its value is not true
a_test.rego:11:1 main_test.test_breaks#01 fail its value is not true
a_test.rego:12:1 main_test.test_two error rule data.main_test.conflict produced conflicting values
a_test.rego:15:1 main_test.test_case unknown not run: it has cases, or its value is not true or false
src_test.rego:2:1 k8srequired.test_missing pass 
`
	rendertest.Equal(t, want, got)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := RunTests(ctx, g.modules, g.options); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled, it says %v", err)
	}
}
