package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// maxAssumed is how many assumptions of a finding are counted.
const maxAssumed = 100

// A tally counts results as the summary shows them.
type tally struct {
	classes                                                   [numClasses]int // results that count
	passed, skipped, suppressed, unreached, unchanged, absent int
	pods                                                      int // of the denied results, those about pods that a workload creates
}

func newTally(results *list, passes *policy.Passes) tally {
	var t tally
	for _, x := range results.all() {
		t.count(x)
	}
	t.passed += passes.Len()
	return t
}

func (t *tally) count(x *policy.Result) {
	c, finding := classOf(x)
	switch {
	case x.Baseline == policy.Absent:
		t.absent++
	case x.Outcome == policy.Pass:
		t.passed++
	case !finding:
		t.skipped++
	case x.Suppression != nil:
		t.suppressed++
	case x.Unreached:
		t.unreached++
	case !open(x):
		t.unchanged++
	default:
		if t.classes[c]++; c == denied && x.Pods {
			t.pods++
		}
	}
}

// String formats the counts as "3 denied (2 of objects that workloads create), 1 warned; 40 passed". The
// number of denied results is always included.
func (t tally) String() string {
	var found []string
	for c, n := range t.classes {
		if n > 0 || class(c) == denied {
			found = append(found, fmt.Sprintf("%d %s", n, classes[c].count))
		}
		if class(c) == denied && t.pods > 0 {
			found[len(found)-1] += fmt.Sprintf(" (%d of objects that workloads create)", t.pods)
		}
	}
	var rest []string
	for _, other := range []struct {
		n    int
		word string
	}{{t.passed, "passed"}, {t.skipped, "skipped"}, {t.suppressed, "suppressed"}, {t.unreached, "in units that nothing deploys"}, {t.unchanged, "unchanged"}, {t.absent, "fixed"}} {
		if other.n > 0 {
			rest = append(rest, fmt.Sprintf("%d %s", other.n, other.word))
		}
	}
	if len(rest) == 0 {
		return strings.Join(found, ", ")
	}
	return strings.Join(found, ", ") + "; " + strings.Join(rest, ", ")
}

// changeCount formats counts as "2 objects created, 1 updated, 1 deleted, 3
// moved".
func changeCount(changes []Change) string {
	return cmp.Or(happeningCount(changes, "object"), "nothing on the cluster")
}

// changeCount counts the changes. If there are none but results are undecided because of the change, it says
// so.
func (r *Report) changeCount() string {
	if len(r.Changes) == 0 && slices.ContainsFunc(r.Results, func(x policy.Result) bool { return open(&x) && x.Outcome == policy.Unknown }) {
		return "nothing, as far as this is decided"
	}
	return changeCount(r.Changes)
}

// happeningCount formats counts as "2 objects created, 1 updated", or without a
// noun as "2 created, 1 updated". It returns "" for no change.
func happeningCount(changes []Change, noun string) string {
	counts := make(map[string]int)
	for i := range changes {
		counts[changes[i].happens()]++
	}
	var words []string
	for _, word := range happenings {
		switch n := counts[word]; {
		case n > 0 && len(words) == 0 && noun != "":
			words = append(words, policy.Plural(n, noun)+" "+word)
		case n > 0:
			words = append(words, fmt.Sprintf("%d %s", n, word))
		}
	}
	return strings.Join(words, ", ")
}

// shortCommit abbreviates a commit's name.
func shortCommit(commit string) string { return commit[:min(len(commit), 12)] }

func (t tally) colour() string {
	for c, n := range t.classes {
		if n > 0 {
			return class(c).colour()
		}
	}
	return green
}

func ofAll(s Summary) string {
	missing := s.Units - s.Rendered - s.Suspended - s.Unreached
	if missing == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d of %d were not rendered)", missing, s.Units)
}

// evaluators returns the numbers of rules and policies, of definitions of custom resources
// and of schemas of built-in kinds that the objects were checked by.
func (r *Report) evaluators() string {
	of := map[string]map[string]bool{policy.EngineSchema: {}, policy.EngineCRD: {}}
	rules, others := 0, make(map[[2]string]bool)
	for _, rule := range r.Rules {
		if names := of[rule.Engine]; names != nil {
			names[rule.Policy] = true
			continue
		}
		rules++
		others[[2]string{rule.Engine, rule.Policy}] = true
	}
	kinds, definitions := len(of[policy.EngineSchema]), len(of[policy.EngineCRD])
	var all []string
	if rules > 0 || kinds+definitions == 0 {
		all = append(all, policy.Plural(rules, "rule")+" of "+policies(len(others)))
	}
	if definitions > 0 {
		all = append(all, policy.Plural(definitions, policy.EngineCRD))
	}
	if kinds == 1 {
		all = append(all, "the schema of 1 kind")
	} else if kinds > 1 {
		all = append(all, fmt.Sprintf("the schemas of %d kinds", kinds))
	}
	if n := len(all); n > 1 {
		all = append(all[:n-2], all[n-2]+" and "+all[n-1])
	}
	return strings.Join(all, ", ")
}

func policies(n int) string {
	if n == 1 {
		return "1 policy"
	}
	return fmt.Sprintf("%d policies", n)
}

// unitsReported returns the units that a result reports as not rendered. It considers only results
// for which keep returns true.
func unitsReported(results *list, keep func(*policy.Result) bool) map[string]bool {
	reported := make(map[string]bool)
	for _, x := range results.all() {
		if x.Engine == policy.EngineRender && x.Undecided() && keep(x) {
			reported[x.Object.Unit] = true
		}
	}
	return reported
}

// unchanged reports whether the base has the same result.
func unchanged(x *policy.Result) bool { return x.Baseline == policy.Unchanged }

// repeatedAssumptions counts the findings of each assumption that several
// findings share, or that belongs to a finding which is shown without its
// assumptions.
func repeatedAssumptions(found []*group, missing []*missingKind) map[string]int {
	counts := make(map[string]int)
	for _, g := range found {
		for _, a := range assumptions(g.results, maxAssumed) {
			counts[a]++
		}
	}
	for a, n := range counts {
		if n == 1 {
			delete(counts, a)
		}
	}
	for _, l := range missing {
		for _, a := range assumptions(l.results, maxAssumed) {
			for _, x := range l.results.all() {
				if slices.Contains(x.Assumed, a) {
					counts[a]++
				}
			}
		}
	}
	return counts
}

// mostRepeated returns the assumptions, those of the most findings first.
func mostRepeated(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
}

func reason(u Unit) string {
	if u.Reason == "" {
		return ""
	}
	return ": " + prose(u.Reason)
}

// subject begins a line about an object or, without one, about a unit.
func subject(k render.Key) string {
	switch {
	case k.Kind != "":
		return full(k) + inUnit(k.Unit) + ": "
	case k.Unit != "":
		return visible(k.Unit, maxMessage) + ": "
	default:
		return ""
	}
}
