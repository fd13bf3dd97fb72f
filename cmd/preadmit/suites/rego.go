package suites

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
)

// RegoTests are the unit tests of Rego modules, which run together, as conftest verify
// runs them.
type RegoTests struct {
	Modules []rego.Module
	Data    []rego.Document
	Broken  error               // errors about the data
	Now     time.Time           // current time for policies
	Display func(string) string // names files in reports
}

// Mutable returns the tests in the form that mutation runs.
func (r *RegoTests) Mutable() *policytest.ModuleTests {
	m := &policytest.ModuleTests{Run: func(ctx context.Context, file string, text []byte, coverage *policy.Coverage) ([]policytest.Suite, error) {
		changed := *r
		changed.Modules = slices.Clone(r.Modules)
		for i := range changed.Modules {
			if changed.Modules[i].File == file {
				changed.Modules[i].Text = string(text)
			}
		}
		return changed.Run(ctx, coverage)
	}}
	for _, x := range r.Modules {
		m.Files = append(m.Files, x.File)
	}
	return m
}

// Run runs the tests and returns a suite for each file.
func (r *RegoTests) Run(ctx context.Context, coverage *policy.Coverage) ([]policytest.Suite, error) {
	tests, err := rego.RunTests(ctx, r.Modules, rego.Options{Data: r.Data, Now: r.Now, Coverage: coverage})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	suites := make(map[string]*policytest.Suite)
	suite := func(file string) *policytest.Suite {
		if suites[file] == nil {
			suites[file] = &policytest.Suite{File: r.Display(file), Kind: "rego", Cases: []policytest.Case{}, Notes: []string{}}
		}
		return suites[file]
	}
	for i := range tests {
		s := suite(tests[i].Origin.File)
		s.Cases = append(s.Cases, regoCase(&tests[i]))
	}
	for _, e := range append(render.Errors(r.Broken), render.Errors(err)...) {
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

// moduleError describes an error in a module with its line and hint.
func moduleError(e *render.Error) string {
	text := strings.TrimPrefix(e.Span.String(), e.Span.File+":") + ": " + e.Err.Error()
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// regoCase returns the case of a unit test, which should pass. A test that its author
// disabled counts as passed.
func regoCase(t *rego.Test) policytest.Case {
	c := policytest.Case{
		Policy: t.Package, Rule: t.Name, Want: string(policy.Pass), Got: string(t.Outcome),
		Reason: t.Message, Line: t.Origin.Line, Notes: []string{},
	}
	switch t.Outcome {
	case policy.Skip:
		c.OK, c.Vacuous, c.Got, c.Reason = true, true, c.Want, "skipped: its name begins with todo_"
	case policy.Error, policy.Unknown:
		c.Got = ""
	default:
		c.OK = t.Outcome == policy.Pass
	}
	return c
}
