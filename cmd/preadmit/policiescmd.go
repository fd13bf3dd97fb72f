package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
)

// policiesOptions are the flags of check for rendering and evaluation.
type policiesOptions struct {
	checkOptions
	failOnFinding string
}

func newPoliciesCommand(code *int) *cobra.Command {
	var o policiesOptions
	cmd := &cobra.Command{
		Use:   "policies [PATH ...]",
		Short: "Show how often each policy matches, passes and fails here, and problems in the policies",
		Long: `Evaluate the policies as check does, over the objects of each PATH (default: the
current directory), and count for each rule the objects that it matches: how many are
exempt, pass, fail or can't be decided. WOULD DENY counts the failures that are
only warned about or audited: they would be denied if the policy were enforced.

Then report problems in the policies: rules that match nothing, with the check that
the nearest object fails; rules that are always exempt, or can never fail or never
pass; policies without a binding, bindings without a policy or parameter; exceptions
and suppressions that exempt nothing; two rules with the same verdict on all objects;
deprecated fields and versions; costs of at least half of the API server's limit.

Rules that Kyverno generates for controllers count as the rule that they come
from. Schemas and the rules of CustomResourceDefinitions are left out.

  preadmit policies -p policies apps
  preadmit policies --fail-on unused -o sarif=policies.sarif

Exit codes: 0, or 1 by --fail-on; 2 bad command line or configuration; 3 something
could not be rendered, or a policy does not compile.`,
		RunE: runs(code, o.runPolicies, "output", "fail-on"),
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

// failOnFindings lists the values of --fail-on of policies.
var failOnFindings = []string{"unused", "any", "never"}

func (o *policiesOptions) runPolicies(ctx context.Context, args []string, std stdio) (int, error) {
	outs, err := o.parseAmong(report.PoliciesFormats.Names())
	if err != nil {
		return 0, err
	}
	if err := engines.CheckPacks(o.Packs); err != nil {
		return 0, err
	}
	ctx, cancel, err := o.begin(ctx, std.err)
	if err != nil {
		return 0, err
	}
	defer cancel()
	rendering, rendered := load.TimeToRender(ctx)
	in, err := load.Load(rendering, &o.Sources, args, std.in)
	rendered()
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	v, err := evaluate.ReviewPolicies(o.Watch.Timed(ctx), &o.Options, in, in.Tree.HoldsAll(args))
	if err != nil {
		return 0, evaluate.TimedOut(ctx, err)
	}
	p := v.Report(in)
	if err := o.writeEach(std.out, disk.Shown{Tree: in.Tree.Tree}, outs, writing{verbose: o.Verbose, quiet: o.quiet}, func(w io.Writer, format string, opts report.Options) error {
		return report.PoliciesFormats.Write(w, format, p, opts)
	}); err != nil {
		return 0, err
	}
	return policiesCode(p, v, o, std.err), nil
}

// policiesCode returns the exit code.
func policiesCode(p *report.Policies, v *evaluate.PolicyReview, o *policiesOptions, stderr io.Writer) int {
	notRendered := 0
	for i := range v.Results {
		if r := &v.Results[i]; r.Engine == policy.EngineRender && r.Undecided() && !r.Unreached {
			notRendered++
		}
	}
	if notRendered > 0 && !o.quiet {
		fmt.Fprintf(stderr, "preadmit: %d could not be rendered, and policies may match objects in them; see preadmit check\n", notRendered)
	}
	switch s := p.Summary; {
	case o.failOnFinding == "unused" && s.Unused > 0, o.failOnFinding == "any" && s.Findings > 0:
		return exitDenied
	case notRendered+s.Undecided > 0:
		return exitIncomplete
	}
	return exitOK
}

func newPacksCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "packs [NAME [RULE]]",
		Short: "List the embedded policy packs, the rules of one, or describe a rule",
		Args:  wants(0, 2, "at most a pack and a rule", "preadmit packs best-practices"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
				for _, p := range engines.Packs() {
					fmt.Fprintf(tw, "%s\t%s\n", p.Name, p.Doc)
				}
				return tw.Flush()
			}
			if !slices.Contains(engines.PackNames(), args[0]) {
				return fmt.Errorf("there is no pack %q; %s", args[0], render.Instead(args[0], engines.PackNames()))
			}
			rules, err := engines.PackRules(args[0])
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return documentRules(cmd.OutOrStdout(), args[0], args[1], rules)
			}
			tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			for _, r := range rules {
				fmt.Fprintf(tw, "%s/%s\t%s\t%s\t%s\n", r.Policy, r.Name, r.Action, r.Severity, r.Title)
			}
			return tw.Flush()
		},
	}
}

// documentRules writes the documentation of the rules that a name selects: a
// rule, a policy, or both separated by a slash. The pack's name may be left
// out. A policy's text is written once.
func documentRules(w io.Writer, pack, name string, rules []policy.Rule) error {
	said := make(map[string]bool)
	for _, r := range rules {
		names := []string{r.Name, r.Policy, r.Policy + "/" + r.Name}
		if !slices.Contains(names, name) && !slices.Contains(names, pack+"-"+name) || said[r.Policy+r.Title] {
			continue
		}
		said[r.Policy+r.Title] = true
		fmt.Fprintf(w, "# %s\n\n%s/%s, %s, %s\n\n%s\n\n%s\n\n%s\n", r.Title, r.Policy, r.Name, r.Action, r.Severity, r.Description, strings.TrimSpace(r.Help), r.URL)
	}
	if len(said) == 0 {
		return fmt.Errorf("%s has no rule %s; see preadmit packs %s", pack, name, pack)
	}
	return nil
}
