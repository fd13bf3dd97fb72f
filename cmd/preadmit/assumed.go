package main

import (
	"fmt"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// assumptions are notes about what charts were rendered with because nobody gave
// it, where their templates write more otherwise.
func assumptions(in *input) []string {
	var notes []string
	for _, a := range []struct{ rule, what, give string }{
		{render.AssumedVersion, "the newest Kubernetes that preadmit knows is assumed", "--kube-version"},
		{render.AssumedRelease, "names and namespaces of releases are assumed", "--release and --namespace"},
	} {
		first, n := "", 0
		for i := range in.assumed {
			if r := &in.assumed[i]; r.Rule == a.rule {
				if n++; n == 1 {
					first = in.tree.Display(r.Origins[0].File) + fmt.Sprintf(":%d", r.Origins[0].Line)
				}
			}
		}
		if n > 0 {
			notes = append(notes, fmt.Sprintf("%s: templates may write more where that is wrong, in %d places, the first at %s; %s says it", a.what, n, first, a.give))
		}
	}
	return notes
}

// newlyAssumed are the results about places of templates that write more where an
// assumption does not hold, and that the change brings in: with them an object
// can leave the rendering and still be deployed.
func newlyAssumed(base, head *input) []policy.Result {
	type place struct{ unit, file, rule, message string }
	at := func(r *policy.Result) place {
		return place{r.Object.Unit, r.Origins[0].File, r.Rule, r.Message}
	}
	was := make(map[place]int)
	for i := range base.assumed {
		was[at(&base.assumed[i])]++
	}
	var results []policy.Result
	for _, r := range head.assumed {
		if was[at(&r)]--; was[at(&r)] < 0 {
			r.Outcome, r.Action, r.Baseline = policy.Unknown, policy.Deny, policy.New
			results = append(results, r.Fingerprinted())
		}
	}
	return results
}
