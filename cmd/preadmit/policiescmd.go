package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
)

// policiesOptions are the flags of check that are about what is rendered and
// evaluated.
type policiesOptions struct {
	checkOptions
	failOnFinding string
}

func newPoliciesCommand(code *int) *cobra.Command {
	var o policiesOptions
	cmd := &cobra.Command{
		Use:   "policies [PATH ...]",
		Short: "Show what each policy does over this repository, and what is wrong with it",
		Long: `Evaluate the policies over what PATH renders (default: the current directory),
as check does, and count for each rule the objects that it matches: how many are
exempt, pass, fail or can't be decided. WOULD DENY counts the failures that are
only warned about or audited: they would be denied if the policy were enforced.

Then report what is wrong with the policies: rules that match nothing, with the check that the
nearest object fails; that are always exempt; that can never fail or never pass;
policies without binding, bindings without policy or parameter; exceptions and
suppressions that exempt nothing; two rules with the same verdict on all objects;
deprecated fields and versions; costs of half of the API server's limit and more.

Rules that Kyverno generates for controllers count as the rule that they come
from. Schemas and the rules of CustomResourceDefinitions are left out.

  preadmit policies -p policies apps
  preadmit policies --fail-on unused -o sarif=policies.sarif

Exit codes: 0, or 1 by --fail-on; 2 bad command line or configuration; 3 something
could not be rendered, or a policy does not compile.`,
		RunE: runs(code, func(ctx context.Context, args []string, std stdio) (int, error) {
			return runPolicies(ctx, &o, args, std.in, std.out, std.err)
		}, "output", "fail-on"),
	}
	f := cmd.Flags()
	o.addSourceFlags(f)
	o.addUserFlags(f)
	ofCheck := pflag.NewFlagSet("check", pflag.ContinueOnError)
	o.addPolicyFlags(ofCheck)
	o.addSuppressionFlags(ofCheck)
	o.outputs.addFlags(ofCheck)
	f.AddFlagSet(without(ofCheck, "fail-on", "allow-new-suppressions", "output", "summary"))
	f.StringArrayVarP(&o.formats, "output", "o", nil, "`FORMAT[=FILE]` of the report: "+strings.Join(report.PoliciesFormats.Names(), ", ")+" (repeatable; default: text)")
	o.failOnFinding = "never"
	f.Var(choice{&o.failOnFinding, "FINDINGS", failOnFindings}, "fail-on", "exit 1 if there are findings: unused (something has no effect here), any or never")
	return cmd
}

// failOnFindings are the values of --fail-on of policies.
var failOnFindings = []string{"unused", "any", "never"}

func runPolicies(ctx context.Context, o *policiesOptions, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	outs, err := o.parseAmong(report.PoliciesFormats.Names())
	if err != nil {
		return 0, err
	}
	if err := engines.CheckPacks(o.packs); err != nil {
		return 0, err
	}
	ctx, cancel, err := o.begin(ctx, stderr)
	if err != nil {
		return 0, err
	}
	defer cancel()
	rendering, rendered := load.TimeToRender(ctx)
	in, err := load.Load(rendering, &o.Sources, args, stdin)
	rendered()
	if err != nil {
		return 0, timedOut(ctx, err)
	}
	v, err := reviewPolicies(o.Watch.Timed(ctx), &o.evaluateOptions, in, in.Tree.HoldsAll(args, in.Stdin))
	if err != nil {
		return 0, timedOut(ctx, err)
	}
	p := v.report(in)
	if err := o.writeEach(stdout, disk.Shown{Tree: in.Tree.Tree}, outs, writing{verbose: o.Verbose, quiet: o.quiet}, func(w io.Writer, format string, opts report.Options) error {
		return report.PoliciesFormats.Write(w, format, p, opts)
	}); err != nil {
		return 0, err
	}
	return policiesCode(p, v, o, stderr), nil
}

// A policyReview counts the verdicts of policies over an input, and has the findings about
// the policies.
type policyReview struct {
	evaluation
	uses     *policy.Uses
	findings []policy.Result
}

// reviewPolicies evaluates everything and inspects each policy. If whole, the paths
// cover the whole tree, so suppressions that accept nothing are findings.
func reviewPolicies(ctx context.Context, o *evaluateOptions, in *load.Input, whole bool) (*policyReview, error) {
	v := &policyReview{evaluation: evaluation{notes: in.Notes}}
	s, _, err := o.benchOptions(in)
	if err != nil {
		return nil, err
	}
	s.Verbose = true // for the costs
	var parts []clusterPart
	err = v.eachCluster(ctx, s, nil, in, func(j *evaluation, s engines.Options, on func(*load.Input) *load.Input) error {
		there := on(in)
		if err := j.all(ctx, o, there, s); err != nil {
			return err
		}
		parts = append(parts, clusterPart{there, j.bench, s.By(allRequests(there.Head))})
		return nil
	})
	if err != nil {
		return nil, err
	}
	o.Watch.Phase("looking at policies")
	policy.Sort(v.results)
	v.uses = policy.NewUses(policyRules(v.bench.Rules()))
	for i := range v.results {
		v.uses.Add(&v.results[i])
	}
	return v, errors.Join(v.unmatched(ctx, parts), v.look(o, in, parts, whole))
}

// A clusterPart holds the objects of one cluster, its engines and the requests.
type clusterPart struct {
	in    *load.Input
	bench *engines.Set
	reqs  []policy.Request
}

// policyRules are the rules that policies have: not those of schemas.
func policyRules(rules []policy.Rule) []policy.Rule {
	return slices.DeleteFunc(rules, func(r policy.Rule) bool {
		return r.Engine == policy.EngineSchema || r.Engine == policy.EngineCRD
	})
}

// unmatched adds a finding for each rule that matches nothing on any cluster.
func (v *policyReview) unmatched(ctx context.Context, parts []clusterPart) error {
	rest := v.uses.Unmatched()
	for _, p := range parts {
		found, err := p.bench.Chain.WhyUnmatched(ctx, p.reqs, rest)
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

// look adds the other findings: what follows from the counts, what engines and the
// API server say about policies as they are written, and what exempts nothing.
func (v *policyReview) look(o *evaluateOptions, in *load.Input, parts []clusterPart, whole bool) error {
	v.findings = append(v.findings, v.uses.Findings()...)
	for _, r := range v.results {
		if r.Engine == policy.EngineCompile {
			v.findings = append(v.findings, r)
		}
	}
	for _, p := range parts {
		v.findings = appendNew(v.findings, p.bench.Inspect())
		there := slices.Concat(render.Objects(p.in.Head), render.Objects(p.in.Given), render.Objects(p.in.Context))
		v.findings = appendNew(v.findings, v.uses.UnusedExceptions(engines.Distinct(there)))
	}
	if !whole {
		return nil
	}
	held, err := readSuppressions(o, in)
	if err != nil {
		return err
	}
	_, unused := policy.Suppress(v.results, held, o.day())
	for _, s := range unused {
		v.findings = append(v.findings, policy.NewFinding(policy.AcceptsNone, s.Rule, s.Origin, "%s accepts nothing: it can go", described(s)))
	}
	return nil
}

func (v *policyReview) report(in *load.Input) *report.Policies {
	uses := v.uses.List()
	for _, u := range uses {
		u.Origin.File = in.Tree.Display(u.Origin.File)
	}
	relabel(in.Tree, v.findings)
	v.findings = policy.WithoutConsequences(v.findings)
	policy.Sort(v.findings)
	run := report.New(report.Tool{Name: "preadmit", Version: version}, in.Head, nil, nil)
	run.Notes = slices.Concat(v.bench.Notes, v.notes)
	run.Tree = disk.Shown{Tree: in.Tree.Tree}
	return report.NewPolicies(run, uses, v.findings)
}

// policiesCode is the exit code.
func policiesCode(p *report.Policies, v *policyReview, o *policiesOptions, stderr io.Writer) int {
	notRendered := 0
	for i := range v.results {
		if r := &v.results[i]; r.Engine == policy.EngineRender && r.Undecided() && !r.Unreached {
			notRendered++
		}
	}
	if notRendered > 0 && !o.quiet {
		fmt.Fprintf(stderr, "preadmit: %d could not be rendered, and policies may match what they hold; see preadmit check\n", notRendered)
	}
	switch s := p.Summary; {
	case o.failOnFinding == "unused" && s.Unused > 0, o.failOnFinding == "any" && s.Findings > 0:
		return exitDenied
	case notRendered+s.Undecided > 0:
		return exitIncomplete
	}
	return exitOK
}
