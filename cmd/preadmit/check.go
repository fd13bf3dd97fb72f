package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/fixes"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

func newCheckCommand(code *int) *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check [PATH ...]",
		Short: "Render, evaluate policies and report violations (the main command)",
		Long: `Render the sources at each PATH (default: the current directory), evaluate every
admission policy over the objects, and report each violation at its line.

A PATH is a directory, a manifest, a chart directory or .tgz, a kustomization
directory, or - for YAML on standard input. If there are no
policies (--policy, --pack, or among the rendered objects), the pack
pod-security-baseline is used, and its violations are warnings.`,
		RunE: runs(code, o.runCheck),
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// addFlags adds all flags of check.
func (o *checkOptions) addFlags(f *pflag.FlagSet) {
	o.addSourceFlags(f)
	o.addPolicyFlags(f)
	o.addUserFlags(f)
	o.addChangeFlags(f)
	o.addRehearsalFlags(f)
	o.coverageFlags.addFlags(f)
	o.addSuppressionFlags(f)
	o.outputs.addFlags(f)
	o.addCacheFlags(f)
	f.BoolVar(&o.withFixes, "fixes", false, "find the fixes of violations, prove each as preadmit fix does, and put them into the reports; takes several runs")
	f.StringVar(&o.shard, "shard", "", "evaluate a part of the units, `NUMBER/OF`, such as 3/8: preadmit convert joins the JSON reports of all parts")
}

// runCheck renders, evaluates the policies and writes the reports.
func (o *checkOptions) runCheck(ctx context.Context, args []string, std stdio) (int, error) {
	outs, err := o.parse()
	if err != nil {
		return 0, err
	}
	if o.withFixes && slices.Contains(args, "-") {
		return 0, errors.New("--fixes edits files, so check can't read standard input with it: give it the path of a file")
	}
	if err := engines.CheckPacks(o.Packs); err != nil {
		return 0, err
	}
	if err := o.openShard(); err != nil {
		return 0, err
	}
	if err := o.checkRehearsal(); err != nil {
		return 0, err
	}
	if err := o.prepareCoverage(!slices.ContainsFunc(outs, func(out output) bool { return out.file == "" && out.format != "text" })); err != nil {
		return 0, err
	}
	if o.Branches = o.counted; o.counted != nil {
		o.NoCache = true // a cached result does not count the branches that were taken
	}
	if err := o.start(); err != nil {
		return 0, err
	}
	if o.Notes = io.Discard; o.Verbose {
		o.Notes, o.Prints = std.err, new(engines.Prints)
	}
	ctx, cancel := bounded(ctx, o.Timeout, std.err)
	defer cancel()

	if why := tasks.Of(ctx).Fatal(); why != "" {
		r := evaluate.FailedReport(why, "")
		return verdict(r, o, outs, std.err), o.write(std.out, r, outs, writing{failOn: policy.Action(o.failOn)})
	}
	o.Again = o.withFixes
	if o.FromKubeVersion == "" && len(o.Enforce) == 0 && !o.withFixes {
		o.Passes, o.Forgets = new(policy.Passes), true // no comparison needs the passes later
		o.Held = new(policy.CompactList)
		o.Parts = render.NewParts()
	}
	rendering, rendered := load.TimeToRender(ctx)
	in, err := load.Load(rendering, &o.Sources, args, std.in)
	rendered()
	if tasks.IsTimeUp(ctx, err) {
		r := o.Unrendered(ctx)
		return verdict(r, o, outs, std.err), o.write(std.out, r, outs, writing{failOn: policy.Action(o.failOn)})
	}
	if err != nil {
		return 0, err
	}
	j, err := evaluate.Run(o.Watch.Timed(ctx), &o.Options, in, args, std.in)
	if err = j.Unfinished(ctx, in, err, o.Watch.Slowest); err != nil {
		return 0, errors.Join(err, o.reportFailure(std.out, outs, err))
	}
	if o.withFixes {
		o.SaveCache() // now, since the proofs use it
		proof := o.Options
		proof.Branches, proof.Prints, proof.Notes = nil, nil, io.Discard
		if proof.Memory == nil {
			proof.Memory = load.NewMemory()
		}
		f := &fixes.Finder{Options: &proof, Args: args, Input: in, Run: j}
		if err := f.Mark(ctx, fixes.Options{Unsafe: true}); err != nil {
			fmt.Fprintf(std.err, "preadmit: some fixes are not in the reports: %v\n", evaluate.TimedOut(ctx, err))
		}
	}
	o.Watch.Phase(supervise.Writing)
	r := evaluate.NewReport(in, j)
	if err := o.Part.Mark(r, &o.Options, in, j); err != nil {
		return 0, err
	}
	if err := o.write(std.out, r, outs, writing{verbose: o.Verbose, quiet: o.quiet, failOn: policy.Action(o.failOn)}); err != nil {
		return 0, err
	}
	if o.Verbose {
		listSkipped(std.err, in)
		o.Prints.Write(std.err, in.Tree)
	}
	if !o.withFixes {
		o.SaveCache()
	}
	if len(r.Units) == 0 && len(r.Results) == 0 && o.Base == "" {
		return 0, nothing("checked", &o.Options, in, args)
	}
	return o.writeCoverage(verdict(r, o, outs, std.err), in.Tree, std.out, std.err, report.Options{Color: o.colored(std.out), Width: width(std.out)})
}

// nothing returns the error of a run without units. It is a usage error if the globs of
// --exclude or of the configuration leave out everything.
func nothing(done string, o *evaluate.Options, in *load.Input, args []string) error {
	for _, d := range in.Documents() {
		if o.Selection.Excludes(d.File) {
			return fmt.Errorf("nothing was %s: exclude leaves out every Kubernetes object, the first at %s:%d", done, report.Plain(in.Tree.Display(d.File)), d.Line)
		}
	}
	if o.Selection.Excludes("any name") {
		return fmt.Errorf("nothing was %s: exclude leaves out every path", done)
	}
	return &supervise.Incomplete{Err: fmt.Errorf("nothing was %s: there is no chart, kustomization or manifest in %s", done, cmp.Or(strings.Join(args, ", "), "."))}
}

// reportFailure writes the reports of a run that ended because its input, such as
// the base, can't be read. There is no text report: the error is printed instead.
func (o *checkOptions) reportFailure(stdout io.Writer, outs []output, err error) error {
	if exitCode(err) != exitIncomplete {
		return nil
	}
	outs = slices.DeleteFunc(slices.Clone(outs), func(out output) bool { return out.format == "text" })
	return o.write(stdout, evaluate.FailedReport(report.Plain(err.Error()), ""), outs, writing{failOn: policy.Action(o.failOn)})
}

// countsDocuments reports whether the format counts documents that are not
// deployed. Some formats list only findings.
func (o output) countsDocuments() bool { return o.format != "concise" && o.format != "gitlab" }

// listSkipped prints the files without objects to evaluate.
func listSkipped(w io.Writer, in *load.Input) {
	for _, s := range in.Skipped {
		fmt.Fprintf(w, "skipped: %s: %s\n", report.Plain(in.Tree.Display(s.Path)), report.Plain(s.Reason))
	}
}

// verdict returns the exit code. It prints the reason on standard error unless
// a report on standard output shows it, and always if the code has two reasons.
func verdict(r *report.Report, o *checkOptions, outs []output, stderr io.Writer) int {
	denied := 0
	if o.failOn != "never" {
		denied = r.Denied(policy.Action(o.failOn))
	}
	undecided := r.Incomplete()
	if o.requireComplete {
		undecided = allUndecided(r)
	}
	both := denied > 0 && undecided > 0
	if !o.quiet && denied+undecided > 0 && (both || !slices.Contains(outs, output{format: "text"})) {
		fmt.Fprintf(stderr, "preadmit: %s\n", verdictLine(denied, undecided))
	}
	if text := r.Summary.Undeployed(); text != "" && !o.quiet && !slices.ContainsFunc(outs, output.countsDocuments) {
		fmt.Fprintf(stderr, "preadmit: %s\n", text)
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

// allUndecided counts everything that could not be decided, in results and in
// units.
func allUndecided(r *report.Report) int {
	n := 0
	for x := range r.Others() {
		if x.Undecided() && !x.Unreached && x.Baseline != policy.Absent {
			n++
		}
	}
	return n
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
