package policy

import (
	"iter"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// VariantRequests returns the requests that create the objects, and forms of
// objects, that only some installations of units have.
func VariantRequests(units []*render.Unit) []Request {
	var reqs []Request
	for _, u := range units {
		for _, o := range u.Variants {
			reqs = append(reqs, Request{Operation: Create, Object: o})
		}
	}
	return reqs
}

// inVariant sets the variant of the result's object. Failures that depend on an invented result of
// lookup, version of Kubernetes or cluster become undecided.
func (r *Result) inVariant(v render.Variant) {
	if v.IsDefault() || r.Only != "" {
		return
	}
	r.Only = v.String()
	r.Message = r.Only + ": " + r.Message
	if v.Cluster != "" && r.Outcome == Fail {
		r.Assumed = append(slices.Clone(r.Assumed), assumedCluster+v.Cluster)
	}
	if v.Cluster != "" {
		r.Hint = "declare Argo CD's clusters, each with its server, under `clusters` in .preadmit/config.yaml"
	}
	if v.IsInvented() && r.Outcome == Fail {
		r.Outcome = Unknown
	}
}

const assumedCluster = "Argo CD knows a cluster "

// DenyOnClusters makes a failure of a result that is undecided only because a cluster is not known.
func (r *Result) DenyOnClusters() {
	if r.Outcome == Unknown && slices.ContainsFunc(r.Assumed, func(a string) bool { return strings.HasPrefix(a, assumedCluster) }) {
		r.Outcome = Fail
	}
}

// WithoutRepeats drops the results of variants that add nothing to those of the
// default or an earlier variant: passes, and results with the fingerprint, outcome and
// action of a failure among results or defaults.
func WithoutRepeats(results []Result, defaults ...iter.Seq[*Result]) []Result {
	type said struct {
		fingerprint string
		outcome     Outcome
		action      Action
	}
	known := make(map[said]bool)
	of := func(r *Result) said { return said{r.Fingerprint, r.Outcome, r.Action} }
	learn := func(r *Result) {
		if r.Outcome == Fail || r.Undecided() {
			known[of(r)] = true
		}
	}
	any := false
	for i := range results {
		any = any || results[i].Only != ""
	}
	if !any {
		return results
	}
	for _, list := range append(defaults, Each(results)) {
		for r := range list {
			if r.Only == "" {
				learn(r)
			}
		}
	}
	kept := make([]Result, 0, len(results))
	for i := range results {
		r := &results[i]
		if r.Only != "" {
			if r.Outcome == Pass || r.Outcome == Skip || known[of(r)] {
				continue
			}
			learn(r)
		}
		kept = append(kept, *r)
	}
	return kept
}
