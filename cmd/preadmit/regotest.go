package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/policytest"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/render"
)

// regoUnitTests are the unit tests of the Rego modules at or below the paths of
// --policy, all of them together, as conftest verify has them.
type regoUnitTests struct {
	t       *tree
	modules []rego.Module
	data    []rego.Document
	broken  error // of the data
	now     time.Time
}

func newRegoUnitTests(t *tree, o *testOptions) (*regoUnitTests, error) {
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
	r := &regoUnitTests{t: t, modules: modules, now: (&suppressionFlags{}).midnight()}
	r.data, r.broken = rego.LoadData(t, names...)
	return r, nil
}

// mutated are the tests as mutants of their modules need them.
func (r *regoUnitTests) mutated() *policytest.ModuleTests {
	m := &policytest.ModuleTests{Run: func(ctx context.Context, file string, text []byte, coverage *policy.Coverage) ([]policytest.Suite, error) {
		changed := *r
		changed.modules = slices.Clone(r.modules)
		for i := range changed.modules {
			if changed.modules[i].File == file {
				changed.modules[i].Text = string(text)
			}
		}
		return changed.run(ctx, coverage)
	}}
	for _, x := range r.modules {
		m.Files = append(m.Files, x.File)
	}
	return m
}

// run runs the tests: a suite for each file.
func (r *regoUnitTests) run(ctx context.Context, coverage *policy.Coverage) ([]policytest.Suite, error) {
	tests, err := rego.RunTests(ctx, r.modules, rego.Options{Data: r.data, Now: r.now, Coverage: coverage})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	suites := make(map[string]*policytest.Suite)
	suite := func(file string) *policytest.Suite {
		if suites[file] == nil {
			suites[file] = &policytest.Suite{File: r.t.Display(file), Kind: "rego", Cases: []policytest.Case{}, Notes: []string{}}
		}
		return suites[file]
	}
	for i := range tests {
		s := suite(tests[i].Origin.File)
		s.Cases = append(s.Cases, regoCase(&tests[i]))
	}
	for _, e := range append(render.Errors(r.broken), render.Errors(err)...) {
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
