package rego

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/render/rendertest"
)

// TestCover counts by hand how often each expression held and failed over the inputs.
func TestCover(t *testing.T) {
	module, err := Parse(Source{Name: "a.rego", Text: `package main

default allowed := false

allowed if input.kind == "Pod"

named(x) if x.name != ""

deny contains msg if {
	allowed
	some c in input.containers
	not named(c)
	msg := sprintf("%v", [c.image])
}

deny contains "both" if {
	every c in input.containers {
		c.image == "b"
	}
	input.never
	msg := "a constant can't fail, so it is not counted"
}

test_it if input.kind
`})
	rendertest.OK(t, err)
	type count struct{ held, failed atomic.Int64 }
	counts := make(map[string]*count)
	p, err := Compile(map[string]*ast.Module{"a.rego": module}, Options{Cover: func(e CoveredExpr) (*atomic.Int64, *atomic.Int64) {
		c := new(count)
		counts[fmt.Sprintf("%02d %s %s", e.Location.Row, e.Rule, e.Text)] = c
		return &c.held, &c.failed
	}})
	rendertest.OK(t, err)
	q, err := p.Prepare(ast.MustParseRef("data.main.deny"))
	rendertest.OK(t, err)
	for _, input := range []string{
		`{"kind": "Pod", "containers": [{"name": "a", "image": "a"}, {"name": "", "image": "b"}]}`,
		`{"kind": "Job", "containers": [{"name": "", "image": "b"}]}`,
	} {
		if _, err := q.Ask(context.Background(), Question{Input: ast.MustParseTerm(input)}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for name, c := range counts {
		got = append(got, fmt.Sprintf("%s: %t %t", name, c.held.Load() > 0, c.failed.Load() > 0))
	}
	sort.Strings(got)
	want := []string{
		`05 allowed input.kind == "Pod": true true`,
		`07 named x.name != "": true true`,
		`10 deny allowed: true true`,
		`11 deny some c in input.containers: true false`,
		`12 deny not named(c): true true`,
		`13 deny msg := sprintf("%v", [c.image]): true false`,
		`17 deny every c in input.containers { c.image == "b" }: true true`,
		`18 deny c.image == "b": true true`,
		`20 deny input.never: false true`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("held, failed: -want +got:\n%s", d)
	}
	if strings.Contains(fmt.Sprint(got), "test_it") {
		t.Error("tests are counted")
	}
}
