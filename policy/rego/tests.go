package rego

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/preadmit/preadmit/policy"
	opa "github.com/preadmit/preadmit/policy/internal/rego"
	"github.com/preadmit/preadmit/render"
)

// A Test is the outcome of a unit test: a rule test_x, as `conftest verify` and
// `opa test` run them.
type Test struct {
	Package, Name string
	Origin        render.Span
	Outcome       policy.Outcome // Pass, Fail, Skip (todo_test_x), Unknown or Error
	Message       string         // why the outcome is neither Pass nor Skip
}

// RunTests runs the unit tests among modules, in the order of their places. Of
// the options only Data, Now, Time, Print and Coverage count. The error joins a
// *[render.Error] for each module that is broken, of tests too, and for data.
func RunTests(ctx context.Context, modules []Module, o Options) ([]Test, error) {
	s := parseSources(modules, true)
	tests := s.tests()
	data, errs := newData(o.Data)
	var done []Test
	if program := s.program(opa.Options{Time: o.Time, Cover: s.cover(o.Coverage)}); program != nil {
		for _, t := range tests {
			if t.source.out() {
				continue
			}
			if err := t.run(ctx, program, data.all, o); err != nil {
				return nil, err
			}
			done = append(done, t.Test)
		}
	}
	return done, errors.Join(append(errs, s.errs...)...)
}

// A unitTest is a test to run.
type unitTest struct {
	Test
	source *source
	ref    ast.Ref
	cases  bool
}

// tests returns the unit tests. If several of a package have the same name, it
// renames all but the first, as OPA does, because they would be one rule.
func (s *sources) tests() []*unitTest {
	var all []*unitTest
	seen := map[string]int{}
	for _, src := range s.all {
		if src.out() {
			continue
		}
		src.module = src.module.Copy()
		for _, r := range src.module.Rules {
			name := ruleName(r)
			if !isTest(name) || len(r.Head.Args) > 0 {
				continue
			}
			t := &unitTest{source: src, cases: r.Head.DocKind() != ast.CompleteDoc || len(r.Head.Reference) > 1}
			t.Package, t.Name, t.Origin = src.pkg, name, locationSpan(r.Location)
			key := src.pkg + " " + name
			if n := seen[key]; n > 0 && !t.cases && !r.Default {
				t.Name = fmt.Sprintf("%s#%02d", name, n)
				r.Head.SetRef(ast.Ref{ast.VarTerm(t.Name)})
				r.Head.Name = ast.Var(t.Name)
			} else if n > 0 {
				continue
			}
			seen[key]++
			t.ref = src.module.Package.Path.Append(ast.StringTerm(t.Name))
			all = append(all, t)
		}
	}
	slices.SortStableFunc(all, func(a, b *unitTest) int { return byPlace(a.Origin, b.Origin) })
	return all
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "test_") || strings.HasPrefix(name, "todo_test_")
}

// run runs a test. The error is for cancellation.
func (u *unitTest) run(ctx context.Context, program *opa.Program, data *opa.Data, o Options) error {
	switch {
	case strings.HasPrefix(u.Name, "todo_"):
		u.Outcome = policy.Skip
		return nil
	case u.cases:
		u.Outcome, u.Message = policy.Unknown, "not run: it has cases, or its value is not true or false"
		return nil
	}
	query, err := program.Prepare(u.ref)
	if err != nil {
		u.Outcome, u.Message = policy.Error, err.Error()
		return nil
	}
	answer, err := query.Ask(ctx, opa.Question{Data: data, Now: o.Now, Print: o.Print})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case err != nil:
		u.Outcome, u.Message = policy.Error, err.Error()
	case len(answer.Unknown) > 0:
		u.Outcome, u.Message = policy.Unknown, "it needs "+strings.Join(answer.Unknown, "; ")
	case answer.Value == nil:
		u.Outcome, u.Message = policy.Fail, "its body does not hold"
	case answer.Value.Compare(ast.Boolean(true)) != 0:
		u.Outcome, u.Message = policy.Fail, "its value is not true"
	default:
		u.Outcome = policy.Pass
	}
	if u.Outcome == policy.Fail && len(answer.Errors) > 0 {
		u.Message += ": " + swallowed(answer.Errors)
	}
	return nil
}
