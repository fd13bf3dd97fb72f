package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
)

// regoSuites runs the unit tests of the Rego modules at or below paths, all of
// them together, as conftest verify does: a suite for each file.
func regoSuites(ctx context.Context, t *tree, o *testOptions) ([]policytest.Suite, error) {
	modules, unread, err := regoModules(t, o.policies, nil)
	if err == nil {
		err = unread
	}
	if err != nil {
		return nil, fmt.Errorf("--policy: %w", err)
	}
	if len(modules) == 0 {
		return nil, fmt.Errorf("--policy %s: no .rego file is there", strings.Join(o.policies, ", "))
	}
	names, err := dataNames(t, o.data, nil)
	if err != nil {
		return nil, err
	}
	data, broken := rego.LoadData(t, names...)
	tests, err := rego.RunTests(ctx, modules, rego.Options{Data: data, Now: (&suppressionFlags{}).midnight(), Coverage: o.counted})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	suites := make(map[string]*policytest.Suite)
	suite := func(file string) *policytest.Suite {
		if suites[file] == nil {
			suites[file] = &policytest.Suite{File: t.Display(file), Kind: "rego", Cases: []policytest.Case{}, Notes: []string{}}
		}
		return suites[file]
	}
	for i := range tests {
		s := suite(tests[i].Origin.File)
		s.Cases = append(s.Cases, regoCase(&tests[i]))
	}
	for _, e := range append(render.Errors(broken), render.Errors(err)...) {
		s := suite(e.Span.File)
		s.Error = strings.TrimPrefix(s.Error+"\n"+moduleError(e), "\n")
	}
	var all []policytest.Suite
	for _, s := range suites {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b policytest.Suite) int { return strings.Compare(a.File, b.File) })
	return all, nil
}

// moduleError is what is wrong with a module, by its line, and what may help.
func moduleError(e *render.Error) string {
	text := strings.TrimPrefix(e.Span.String(), e.Span.File+":") + ": " + e.Err.Error()
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// regoCase is a unit test as a case: it should pass. One that its author put
// off is not held against anybody.
func regoCase(t *rego.Test) policytest.Case {
	c := policytest.Case{
		Policy: t.Package, Rule: t.Name, Want: string(policy.Pass), Got: string(t.Outcome),
		Reason: t.Message, Line: t.Origin.Line, Notes: []string{},
	}
	switch t.Outcome {
	case policy.Skip:
		c.OK, c.Vacuous, c.Got, c.Reason = true, true, c.Want, "put off by its name"
	case policy.Error, policy.Unknown:
		c.Got = ""
	default:
		c.OK = t.Outcome == policy.Pass
	}
	return c
}
