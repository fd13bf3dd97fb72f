// Package policytest runs tests of policies: suites that say which policy
// should say what of which object.
//
// In go a tree, paths in it and what evaluates policies ([Run], [Engines]);
// out comes a [Report], plain data, which is the JSON of `preadmit test`. Which
// kinds of suites there are is one list, [Formats]; each reads its files and
// compares in the terms of the tool that the suites were written for. Nothing
// is passed over in silence: what can't be read, found or run is an error of
// the suite or of the case, and no such case passes.
package policytest

import (
	"context"

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
	Error string   `json:"error"` // why it was not read, or not whole; a line each
	Cases []Case   `json:"cases"`
	Notes []string `json:"notes"` // what was not looked at, or taken for granted
}

// A Case is one expectation: what a policy, or a rule of it, should say about a
// resource, in the suite's words.
type Case struct {
	Name     string `json:"name,omitempty"` // that the suite gives it
	Policy   string `json:"policy"`
	Rule     string `json:"rule"`     // "" where the suite is about the whole policy
	Resource string `json:"resource"` // namespace/name
	Kind     string `json:"kind"`
	Want     string `json:"want"`
	Got      string `json:"got"` // "" when it could not be run
	OK       bool   `json:"ok"`
	// Vacuous says that no rule was evaluated on the resource, so that what
	// was got says nothing about it.
	Vacuous   bool   `json:"vacuous"`
	Reason    string `json:"reason"` // of what was got, or why it could not be run
	Operation string `json:"operation"`
	Line      int    `json:"line"` // in the suite's file
	// Unmatched says that on a cluster the policy would not see this request,
	// by what it matches. Notes say why.
	Unmatched bool     `json:"unmatched"`
	Notes     []string `json:"notes"` // what the answer rests on
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

// An Evaluator evaluates requests by policies that it compiled, each alone: by
// the policy's expressions, whatever it matches and however it is bound.
type Evaluator interface {
	// Evaluate returns what the rules of the named policy say with the given
	// parameter; nil is none.
	Evaluate(ctx context.Context, req *policy.Request, name string, params *render.Object) ([]policy.Result, error)
}

// A Mutator changes objects by the expressions of one policy that it compiled,
// whatever the policy matches and however it is bound.
type Mutator interface {
	// Mutate returns what the policy does with the given parameter; nil is
	// none.
	Mutate(ctx context.Context, req *policy.Request, params *render.Object) ([]policy.Step, error)
}

// Engines are what policies of suites are evaluated by.
type Engines struct {
	// Kinds knows the built-in kinds and those of the given definitions.
	Kinds func(crds []*render.Object) (policy.Kinds, error)

	// Admission compiles a ValidatingAdmissionPolicy, with the kinds and the
	// Namespaces it is evaluated with. The error joins *render.Error values;
	// what compiles can be evaluated all the same.
	Admission func(p *render.Object, kinds policy.Kinds, cluster *policy.Cluster) (Evaluator, error)

	// Mutation compiles a MutatingAdmissionPolicy, as Admission does the
	// others.
	Mutation func(p *render.Object, kinds policy.Kinds, cluster *policy.Cluster) (Mutator, error)

	// Kyverno compiles a policy of a suite for Kyverno: one of Kyverno's own
	// kinds, or an admission policy, which its command line evaluates too. The
	// error joins *render.Error values; with nil the policy is not valid.
	Kyverno func(p *render.Object, s *KyvernoSetup) (KyvernoPolicy, error)

	// Gator compiles the constraint of a test with its template. The error
	// joins *render.Error values, of which those with RuleConstraintSchema say
	// that the constraint breaks its template's schema; with any of them that
	// is no warning nothing can be evaluated.
	Gator func(s *GatorSetup) (GatorPolicy, error)
}

// Add puts suites behind the others, that something else has run.
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
