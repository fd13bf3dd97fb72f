// Package policytest runs tests of policies: suites that state the expected
// outcome of a policy for a resource.
//
// [Run] takes a tree, paths in it and the [Engines] that evaluate policies. It
// returns a [Report] of plain data, the JSON of `preadmit test`. [Formats]
// lists the kinds of suites. Each reads its files and compares outcomes as the
// tool does for which the suites were written. Files that can't be read or
// found, and policies that can't be run, are errors of the suite or of the
// case, and such a case never passes.
//
// run.go lists the formats; kyverno*.go, gator*.go and kaptest*.go are one each. decode.go
// reads suites, mutate.go runs tests with changed policies.
package policytest

import (
	"context"
	"slices"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// Schema names the version of the JSON.
const Schema = "preadmit.test/v1"

// A Report holds the results of suites.
type Report struct {
	Schema  string  `json:"schema"`
	Suites  []Suite `json:"suites"`
	Summary Summary `json:"summary"`
}

// A Suite is one file of tests.
type Suite struct {
	File  string   `json:"file"`
	Kind  string   `json:"kind"`  // the name of its format
	Error string   `json:"error"` // why it was not read, or only in part; one line for each error
	Cases []Case   `json:"cases"`
	Notes []string `json:"notes"` // parts that were not evaluated, and assumptions
}

// A Case is one expectation: the outcome of a policy or rule for a resource, in
// the suite's terms.
type Case struct {
	Name     string `json:"name,omitempty"` // name in the suite
	Policy   string `json:"policy"`
	Rule     string `json:"rule"`     // "" where the suite is about the whole policy
	Resource string `json:"resource"` // namespace/name
	Kind     string `json:"kind"`
	Want     string `json:"want"`
	Got      string `json:"got"` // "" when it could not be run
	OK       bool   `json:"ok"`
	// Vacuous reports that no rule evaluated the resource, so the outcome shows
	// nothing about it.
	Vacuous   bool   `json:"vacuous"`
	Reason    string `json:"reason"` // reason for Got, or why the case could not be run
	Operation string `json:"operation"`
	Line      int    `json:"line"` // in the suite's file
	// Unmatched reports that in a cluster the policy would not match this
	// request. Notes say why.
	Unmatched bool     `json:"unmatched"`
	Notes     []string `json:"notes"` // assumptions
}

// assume adds assumptions to the notes, each once.
func (c *Case) assume(texts []string) {
	for _, text := range texts {
		if !slices.Contains(c.Notes, text) {
			c.Notes = append(c.Notes, text)
		}
	}
}

// Summary counts. A case is passed, failed, or an error that kept it from
// being run; vacuous ones count among these too. Errors also counts suites
// that were not read whole.
type Summary struct {
	Suites  int `json:"suites"`
	Cases   int `json:"cases"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Vacuous int `json:"vacuous"`
	Errors  int `json:"errors"`
}

// An Evaluator evaluates the expressions of compiled policies one at a time,
// without their match constraints and bindings.
type Evaluator interface {
	// Evaluate returns the results of the named policy with a parameter, which
	// may be nil.
	Evaluate(ctx context.Context, req *policy.Request, name string, params *render.Object) ([]policy.Result, error)
}

// A Mutator changes objects by the expressions of one compiled policy. It ignores
// the policy's match constraints and bindings.
type Mutator interface {
	// Mutate returns the changes of the policy with a parameter, which may be
	// nil.
	Mutate(ctx context.Context, req *policy.Request, params *render.Object) ([]policy.Step, error)
}

// Engines compile and evaluate the policies of suites.
type Engines struct {
	// Kinds returns the built-in kinds and those of the given definitions.
	Kinds func(crds []*render.Object) (policy.Kinds, error)

	// Admission compiles a ValidatingAdmissionPolicy, with the kinds and
	// Namespaces for its evaluation. The error joins *render.Error values. The
	// Evaluator evaluates the expressions that compile.
	Admission func(p *render.Object, kinds policy.Kinds, cluster *policy.Cluster) (Evaluator, error)

	// Mutation compiles a MutatingAdmissionPolicy. Errors are as for Admission.
	Mutation func(p *render.Object, kinds policy.Kinds, cluster *policy.Cluster) (Mutator, error)

	// Kyverno compiles a policy of a suite for Kyverno: one of Kyverno's own
	// kinds, or an admission policy, which its command line evaluates too. The
	// error joins *render.Error values. If the returned policy is nil, the
	// policy is invalid.
	Kyverno func(p *render.Object, s *KyvernoSetup) (KyvernoPolicy, error)

	// Gator compiles the constraint of a test with its template. The error
	// joins *render.Error values; unless all are warnings, nothing can be
	// evaluated. The Rule RuleConstraintSchema means that the constraint breaks
	// its template's schema.
	Gator func(s *GatorSetup) (GatorPolicy, error)
}

// Add appends suites that the caller has run, and updates the summary.
func (r *Report) Add(suites ...Suite) {
	r.Suites = append(r.Suites, suites...)
	r.Summary = count(r.Suites)
}

// count adds up the suites.
func count(suites []Suite) Summary {
	s := Summary{Suites: len(suites)}
	for i := range suites {
		if suites[i].Error != "" {
			s.Errors++
		}
		for j := range suites[i].Cases {
			s.add(&suites[i].Cases[j])
		}
	}
	return s
}

func (s *Summary) add(c *Case) {
	s.Cases++
	switch {
	case c.OK:
		s.Passed++
	case c.Got == "":
		s.Errors++
	default:
		s.Failed++
	}
	if c.Vacuous {
		s.Vacuous++
	}
}
