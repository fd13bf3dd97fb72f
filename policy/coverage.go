package policy

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/preadmit/preadmit/render"
)

// A Branch is one way that the evaluation of a rule can take, and how often it
// was taken.
type Branch struct {
	Engine string      `json:"engine"`
	Policy string      `json:"policy"`
	Rule   string      `json:"rule"`
	Part   string      `json:"part"` // of the rule: the text of an expression
	Case   string      `json:"case"` // "true", "false", "empty", "not empty"
	Hits   int64       `json:"hits"`
	Origin render.Span `json:"policyOrigin"` // of the part
}

// A Coverage counts the branches that policies take. Engines declare the
// branches when they compile policies, so that branches which nothing takes are
// counted too. A policy that is compiled several times counts once. A Coverage
// is safe for concurrent use; nil counts nothing.
type Coverage struct {
	mu       sync.Mutex
	branches map[Branch]*atomic.Int64
}

// NewCoverage returns a Coverage without branches.
func NewCoverage() *Coverage { return &Coverage{branches: make(map[Branch]*atomic.Int64)} }

// Declare adds a branch and returns its counter. It ignores b.Hits.
func (c *Coverage) Declare(b Branch) *atomic.Int64 {
	b.Hits = 0
	c.mu.Lock()
	defer c.mu.Unlock()
	hits := c.branches[b]
	if hits == nil {
		hits = new(atomic.Int64)
		c.branches[b] = hits
	}
	return hits
}

// Branches returns the branches with their hits so far, ordered by place.
func (c *Coverage) Branches() []Branch {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Branch, 0, len(c.branches))
	for b, hits := range c.branches {
		b.Hits = hits.Load()
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b Branch) int {
		return cmp.Or(
			strings.Compare(a.Origin.File, b.Origin.File), cmp.Compare(a.Origin.Line, b.Origin.Line), cmp.Compare(a.Origin.Column, b.Origin.Column),
			strings.Compare(a.Engine, b.Engine), strings.Compare(a.Policy, b.Policy), strings.Compare(a.Rule, b.Rule),
			cmp.Compare(len(b.Part), len(a.Part)), strings.Compare(a.Part, b.Part), -strings.Compare(a.Case, b.Case),
		)
	})
	return all
}

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
