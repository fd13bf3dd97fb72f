package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

type checkOptions struct {
	sources
	judges
	asking
	outputs
}

func newCheckCommand(code *int) *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check [PATH ...]",
		Short: "Render, evaluate, report: the main job",
		Long: `Render what is at each PATH (default: the current directory), evaluate every
admission policy over the objects, and report each violation at its line.

A PATH is a directory, a manifest, a chart directory or .tgz, a kustomization
directory, or - for YAML on standard input. Without --policy, --pack and
policies among the rendered objects, the pack pod-security-baseline judges.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := configure(cmd.Flags(), args); err != nil {
				return err
			}
			c, err := runCheck(cmd.Context(), &o, args, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			*code = c
			return err
		},
	}
	o.sources.addFlags(cmd.Flags())
	o.judges.addFlags(cmd.Flags())
	o.asking.addFlags(cmd.Flags())
	o.outputs.addFlags(cmd.Flags())
	return cmd
}

// runCheck is render → policy → report.
func runCheck(ctx context.Context, o *checkOptions, args []string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	outs, err := o.parse()
	if err != nil {
		return 0, err
	}
	if err := checkPacks(o.packs); err != nil {
		return 0, err
	}
	o.start()
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done after --timeout %s", o.timeout))
	defer cancel()

	in, err := load(ctx, o, args, stdin)
	if err != nil {
		return 0, timedOut(ctx, err)
	}
	user, assumed, err := o.requester(in)
	if err != nil {
		return 0, err
	}
	bench, err := newBench(in, o)
	if err != nil {
		return 0, err
	}
	reqs := policy.Requests(nil, objects(in.head))
	for i := range reqs {
		reqs[i].UserInfo = user
	}
	if assumed != "" && asksWho(bench.rules()) {
		bench.notes = append(bench.notes, assumed)
	}
	results, err := bench.chain.Review(ctx, reqs)
	if err != nil {
		return 0, timedOut(ctx, err)
	}
	results = slices.Concat(in.found, notFollowed(objects(in.head)), bench.results, results)
	r := newReport(in, bench, results)
	if err := o.write(stdout, r, outs, writing{verbose: o.verbose, quiet: o.quiet, failOn: policy.Action(o.failOn)}); err != nil {
		return 0, err
	}
	if o.verbose {
		listSkipped(stderr, in)
	}
	return verdict(r, o, saysSo(outs), stderr), nil
}

// saysSo tells whether the verdict stands on standard output already.
func saysSo(outs []output) bool { return slices.Contains(outs, output{format: "text"}) }

// listSkipped names the files that hold nothing to judge.
func listSkipped(w io.Writer, in *input) {
	for _, s := range in.skipped {
		fmt.Fprintf(w, "skipped: %s: %s\n", plain(in.tree.display(s.Path)), plain(s.Reason))
	}
}

// newReport puts the results together and gives places their names in reports.
func newReport(in *input, b *bench, results []policy.Result) *report.Report {
	units := in.head
	relabel(in.tree, results)
	policy.Sort(results)
	rules := b.rules()
	for i := range rules {
		rules[i].Origin.File = in.tree.display(rules[i].Origin.File)
	}
	r := report.New(report.Tool{Name: "preadmit", Version: version}, units, rules, results)
	for i := range r.Units {
		r.Units[i].Path = in.tree.display(r.Units[i].Path)
		r.Units[i].Reason = in.tree.displayIn(r.Units[i].Reason)
	}
	r.Notes = slices.Concat(r.Notes, b.notes, in.notes)
	r.Tree = shown{in.tree}
	return r
}

// relabel names places as reports do.
func relabel(t *tree, results []policy.Result) {
	for i := range results {
		r := &results[i]
		r.Object.Unit = t.display(r.Object.Unit)
		r.PolicyOrigin.File = t.display(r.PolicyOrigin.File)
		r.Message = t.displayIn(r.Message)
		for j := range r.Origins {
			r.Origins[j].File = t.display(r.Origins[j].File)
		}
	}
}

// verdict is the exit code, and says on standard error what it rests on, where
// that is not to be seen or the code stands for one of two reasons.
func verdict(r *report.Report, o *checkOptions, said bool, stderr io.Writer) int {
	denied := 0
	if o.failOn != "never" {
		denied = r.Denied(policy.Action(o.failOn))
	}
	undecided := r.Incomplete()
	both := denied > 0 && undecided > 0
	if !o.quiet && denied+undecided > 0 && (both || !said) {
		fmt.Fprintf(stderr, "preadmit: %s\n", verdictLine(denied, undecided))
	}
	switch {
	case denied > 0:
		return exitDenied
	case undecided > 0:
		return exitIncomplete
	default:
		return exitOK
	}
}

func verdictLine(denied, undecided int) string {
	switch {
	case undecided == 0:
		return fmt.Sprintf("%d denied", denied)
	case denied == 0:
		return fmt.Sprintf("%d could not be rendered, compiled or decided", undecided)
	default:
		return fmt.Sprintf("%d denied, and %d could not be rendered, compiled or decided", denied, undecided)
	}
}

func timedOut(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &exitError{exitIncomplete, context.Cause(ctx)}
	}
	return err
}

func objects(units []*render.Unit) []*render.Object {
	var all []*render.Object
	for _, u := range units {
		all = append(all, u.Objects...)
	}
	return all
}
