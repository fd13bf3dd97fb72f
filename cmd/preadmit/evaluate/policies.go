package evaluate

import (
	"context"
	"errors"
	"slices"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
)

// A PolicyReview contains the counts of results for each rule, and the findings about policies.
type PolicyReview struct {
	Evaluation
	uses     *policy.Uses
	findings []policy.Result
}

// ReviewPolicies evaluates everything and inspects each policy. If whole, the paths
// cover the whole tree, so suppressions that accept nothing are findings.
func ReviewPolicies(ctx context.Context, o *Options, in *load.Input, whole bool) (*PolicyReview, error) {
	v := &PolicyReview{Evaluation: Evaluation{notes: in.Notes}}
	s, _, err := o.EngineOptions(in)
	if err != nil {
		return nil, err
	}
	s.Verbose = true // for the costs
	var parts []clusterPart
	err = v.eachCluster(ctx, s, nil, in, func(j *Evaluation, s engines.Options, on func(*load.Input) *load.Input) error {
		there := on(in)
		if err := j.all(ctx, o, there, s); err != nil {
			return err
		}
		if j.Engines.Cluster == nil { // all results were cached, so nothing is compiled
			set, err := engines.New(there, there, s)
			if err != nil {
				return err
			}
			set.Chain.Secrets = SecretsOf(there)
			j.Engines = set
		}
		parts = append(parts, clusterPart{there, j.Engines, s.By(allRequests(there.Head))})
		return nil
	})
	if err != nil {
		return nil, err
	}
	o.Watch.Phase("looking at policies")
	policy.Sort(v.Results)
	v.uses = policy.NewUses(policyRules(v.Engines.Rules()))
	for i := range v.Results {
		v.uses.Add(&v.Results[i])
	}
	return v, errors.Join(v.unmatched(ctx, parts), v.look(o, in, parts, whole))
}

// A clusterPart holds the objects of one cluster, its engines and the requests.
type clusterPart struct {
	in      *load.Input
	engines *engines.Set
	reqs    []policy.Request
}

// policyRules returns the rules of policies, without those of schemas.
func policyRules(rules []policy.Rule) []policy.Rule {
	return slices.DeleteFunc(rules, func(r policy.Rule) bool {
		return r.Engine == policy.EngineSchema || r.Engine == policy.EngineCRD
	})
}

// unmatched adds a finding for each rule that matches nothing on any cluster.
func (v *PolicyReview) unmatched(ctx context.Context, parts []clusterPart) error {
	rest := v.uses.Unmatched()
	for _, p := range parts {
		found, err := p.engines.Chain.WhyUnmatched(ctx, p.reqs, rest)
		if err != nil {
			return err
		}
		rest = slices.DeleteFunc(rest, func(use *policy.Use) bool {
			r, ok := found[use]
			if ok {
				v.findings = append(v.findings, r)
			}
			return ok
		})
	}
	return nil
}

// look adds the other findings: those from the counts, problems in the policies' text, and
// exceptions and suppressions that exempt nothing.
func (v *PolicyReview) look(o *Options, in *load.Input, parts []clusterPart, whole bool) error {
	v.findings = append(v.findings, v.uses.Findings()...)
	for _, r := range v.Results {
		if r.Engine == policy.EngineCompile {
			v.findings = append(v.findings, r)
		}
	}
	for _, p := range parts {
		v.findings = appendNew(v.findings, p.engines.Inspect())
		there := slices.Concat(render.Objects(p.in.Head), render.Objects(p.in.Given), render.Objects(p.in.Context))
		v.findings = appendNew(v.findings, v.uses.UnusedExceptions(engines.Distinct(there)))
	}
	if !whole {
		return nil
	}
	in.Documents() // finds the files with comments
	held, err := ReadSuppressions(o, in)
	if err != nil {
		return err
	}
	_, unused := policy.Suppress(v.Results, nil, held, o.Day())
	for _, s := range unused {
		v.findings = append(v.findings, policy.NewFinding(policy.AcceptsNone, s.Rule, s.Origin, "%s accepts nothing: remove it", described(s)))
	}
	return nil
}

func (v *PolicyReview) Report(in *load.Input) *report.Policies {
	uses := v.uses.List()
	for _, u := range uses {
		u.Origin.File = in.Tree.Display(u.Origin.File)
	}
	Relabel(in.Tree, v.findings)
	v.findings = policy.WithoutConsequences(v.findings)
	policy.Sort(v.findings)
	run := report.New(report.Tool{Name: "preadmit", Version: supervise.Version()}, in.Head, nil, nil)
	run.Notes = slices.Concat(v.Engines.Notes, v.notes)
	run.Tree = disk.Shown{Tree: in.Tree.Tree}
	return report.NewPolicies(run, uses, v.findings)
}
