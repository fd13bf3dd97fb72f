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
	for _, a := range []struct{ rule, what, set string }{
		{render.AssumedVersion, "the newest Kubernetes version that preadmit knows is assumed", "--kube-version sets it"},
		{render.AssumedRelease, "the names and namespaces of releases are assumed", "--release and --namespace set them"},
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
			notes = append(notes, fmt.Sprintf("%s: with others, templates write more in %s, first at %s; %s", a.what, policy.Plural(n, "place"), first, a.set))
		}
	}
	return notes
}

// rootCharts is a note about charts of the tree that hold objects of Argo CD or
// Flux and that nothing in the tree deploys. They are rendered with their own
// values, and a bootstrap script may use others.
func rootCharts(in *input, found []*render.Unit) []string {
	var charts []string
	for _, u := range found {
		if u.Kind == "helm" && in.deployed.Roots[u] {
			charts = append(charts, in.tree.Display(u.Path))
		}
	}
	if len(charts) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s with Argo CD or Flux objects that nothing found here deploys, rendered with default values: %s. If a person or script deploys with other values, name these under deployments in .preadmit/config.yaml",
		policy.Plural(len(charts), "chart"), policy.Few(charts))}
}
