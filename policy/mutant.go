package policy

import "github.com/preadmit/preadmit/render"

// A Mutant is a policy with one small change, and whether its tests notice.
type Mutant struct {
	Policy  string       `json:"policy"`
	Rule    string       `json:"rule"`
	Mutator string       `json:"mutator"` // the kind of change
	Change  string       `json:"change"`  // in words
	Status  MutantStatus `json:"status"`
	Origin  render.Span  `json:"policyOrigin"` // of what is changed
	Diff    []string     `json:"diff"`         // the changed lines, - before and + after
	Tests   []string     `json:"tests"`        // files of the tests that ran
	Killer  string       `json:"killedBy"`     // the first case that failed: FILE:LINE

	// Vacuous reports that, with the change, no rule runs any more in a case that
	// still passes: test --strict would notice.
	Vacuous bool `json:"vacuous"`
}

// A MutantStatus is the outcome of a mutant: whether tests noticed it.
type MutantStatus string

// The states of a mutant.
const (
	MutantKilled     MutantStatus = "killed"      // a test failed
	MutantTimedOut   MutantStatus = "timed-out"   // the tests reached the limit of time or memory
	MutantSurvived   MutantStatus = "survived"    // all tests passed
	MutantNotCovered MutantStatus = "not-covered" // no test evaluates the changed code
	MutantEquivalent MutantStatus = "equivalent"  // constant folding shows that it changes no verdict
	MutantInvalid    MutantStatus = "invalid"     // it does not compile
	MutantNotTried   MutantStatus = "not-tried"   // the run reached its time limit first
)
