package main

import (
	"fmt"

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
