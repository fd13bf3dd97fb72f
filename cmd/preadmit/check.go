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

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
)

type checkOptions struct {
	sources
	policyFlags
	userFlags
	changeFlags
	rehearsalFlags
	coverageFlags
	suppressionFlags
	outputs
	cacheFlags

	configuration *config.File      // of the configuration, once they are read
	head          *cache.Graph      // that rendered the work tree, where it is compared with a base
	prints        *prints           // by policies; nil where nobody reads it
	shard         string            // the flag
	part          *shard            // that it names; nil is the whole run
	passes        *policy.Passes    // where passes are kept apart; nil where each is looked at
	parts         *render.Parts     // that objects share; nil where they do not
	sparse        bool              // objects of --with that are not fetched are left out, see present
	texts         map[string]string // of files, in the place of those on disk
}

func newCheckCommand(code *int) *cobra.Command {
	var o checkOptions
	cmd := &cobra.Command{
		Use:   "check [PATH ...]",
		Short: "Render, evaluate, report: the main job",
		Long: `Render what is at each PATH (default: the current directory), evaluate every
admission policy over the objects, and report each violation at its line.

A PATH is a directory, a manifest, a chart directory or .tgz, a kustomization
directory, or - for YAML on standard input. If there are no
policies (--policy, --pack, or among the rendered objects), the pack
pod-security-baseline is used, and warns.`,
		RunE: runs(code, func(ctx context.Context, args []string, std stdio) (int, error) {
			return runCheck(ctx, &o, args, std.in, std.out, std.err)
		}),
	}
	o.sources.addFlags(cmd.Flags())
	o.policyFlags.addFlags(cmd.Flags())
	o.userFlags.addFlags(cmd.Flags())
	o.changeFlags.addFlags(cmd.Flags())
	o.rehearsalFlags.addFlags(cmd.Flags())
	o.coverageFlags.addFlags(cmd.Flags())
	o.suppressionFlags.addFlags(cmd.Flags())
	o.outputs.addFlags(cmd.Flags())
	o.cacheFlags.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.shard, "shard", "", "evaluate a part of the units, `NUMBER/OF`, such as 3/8: preadmit convert joins the JSON reports of all parts")
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
	if err := o.openShard(); err != nil {
		return 0, err
	}
	if err := o.rehearsalFlags.check(o.base, o.kubeVersion); err != nil {
		return 0, err
	}
	if err := o.prepareCoverage(!slices.ContainsFunc(outs, func(out output) bool { return out.file == "" && out.format != "text" })); err != nil {
		return 0, err
	}
	if o.counted != nil {
		o.noCache = true // cached results take no branches
	}
	if err := o.start(); err != nil {
		return 0, err
	}
	if o.notes = io.Discard; o.verbose {
		o.notes, o.prints = stderr, new(prints)
	}
	ctx, cancel := bounded(ctx, o.timeout, stderr)
	defer cancel()

	if why := tasks.Of(ctx).Fatal(); why != "" {
		r := failedReport(why, "")
		return verdict(r, o, outs, stderr), o.write(stdout, r, outs, writing{failOn: policy.Action(o.failOn)})
	}
	if o.fromKubeVersion == "" && len(o.enforce) == 0 {
		o.passes = new(policy.Passes) // which no comparison has to look at
		o.parts = render.NewParts()
	}
	rendering, rendered := timeToRender(ctx)
	in, err := load(rendering, o, args, stdin)
	rendered()
	if tasks.IsTimeUp(ctx, err) {
		r := o.unrendered(ctx)
		return verdict(r, o, outs, stderr), o.write(stdout, r, outs, writing{failOn: policy.Action(o.failOn)})
	}
	if err != nil {
		return 0, err
	}
	j, err := evaluate(o.watch.Timed(ctx), o, in, args, stdin)
	if err = j.unfinished(ctx, in, err, o.watch.Slowest); err != nil {
		return 0, errors.Join(err, o.reportFailure(stdout, outs, err))
	}
	o.watch.Phase(supervise.Writing)
	r := newReport(in, j)
	if err := o.part.mark(r, o, in, j); err != nil {
		return 0, err
	}
	if err := o.write(stdout, r, outs, writing{verbose: o.verbose, quiet: o.quiet, failOn: policy.Action(o.failOn)}); err != nil {
		return 0, err
	}
	if o.verbose {
		listSkipped(stderr, in)
		o.prints.write(stderr, in.tree)
	}
	o.cacheFlags.save()
	if len(r.Units) == 0 && len(r.Results) == 0 && o.base == "" {
		return 0, &exitError{exitIncomplete, fmt.Errorf("nothing was checked: there is no chart, kustomization or manifest in %s", cmp.Or(strings.Join(args, ", "), "."))}
	}
	return o.writeCoverage(verdict(r, o, outs, stderr), in.tree, stdout, stderr, report.Options{Color: o.colored(stdout), Width: width(stdout)})
}

// reportFailure writes the reports of a run that ended because its input, such as
// the base, can't be read. There is no text report: the error is printed instead.
func (o *checkOptions) reportFailure(stdout io.Writer, outs []output, err error) error {
	if exitCode(err) != exitIncomplete {
		return nil
	}
	outs = slices.DeleteFunc(slices.Clone(outs), func(out output) bool { return out.format == "text" })
	return o.write(stdout, failedReport(plain(err.Error()), ""), outs, writing{failOn: policy.Action(o.failOn)})
}

// An evaluation is the result of a run: of one input, or of a change from a base.
type evaluation struct {
	bench   *bench
	was     *input // the base; nil when there was nothing to compare with
	results []policy.Result
	shard   *shard         // that is evaluated; nil is all
	passes  *policy.Passes // results, too, where they are kept apart; nil where they are not
	notes   []string
	base    *report.Base // nil when there was nothing to compare with

	rehearsal *report.Rehearsal // nil when nothing is rehearsed
	changes   []report.Change   // from the base
	proposed  []policy.Result   // of changed policies
}

// evaluate reviews what is rendered: all of it, or the change from --base.
func evaluate(ctx context.Context, o *checkOptions, in *input, args []string, stdin io.Reader) (*evaluation, error) {
	j := &evaluation{notes: in.notes, passes: o.passes, shard: o.part}
	s, assumed, err := o.benchOptions(in)
	if err != nil {
		return j, err
	}
	var was *input
	switch {
	case o.base != "":
		was, err = j.change(ctx, o, in, args, stdin, s)
		j.was = was
	case o.fromKubeVersion != "":
		err = j.upgrade(ctx, o, in, args, stdin, s)
	default:
		j.shard.divide(in)
		err = j.eachCluster(ctx, s, nil, in, func(j *evaluation, s benchOptions, on func(*input) *input) error {
			return j.all(ctx, o, on(in), s)
		})
	}
	if err == nil {
		err = j.suppress(o, was, in, in.tree.holdsAll(args, in.stdin))
	}
	if err == nil && len(o.enforce) > 0 {
		err = j.enforced(o, in)
	}
	if err != nil {
		return j, err
	}
	j.notes = slices.Concat(j.bench.notes, j.notes)
	if assumed != "" && asksWho(j.bench.rules()) {
		j.notes = append(j.notes, assumed)
	}
	return j, nil
}

// all evaluates every object as if it were created.
func (j *evaluation) all(ctx context.Context, o *checkOptions, in *input, s benchOptions) error {
	if o.memory != nil && !o.progress.early() { // a screen shows results as they come
		return j.reviewCached(ctx, o, in, s)
	}
	var err error
	if j.bench, err = newBench(in, in, s); err != nil {
		return err
	}
	defer j.keepPasses()()
	reqs := j.shard.requests(s.by(allRequests(in.head)))
	// These ask for places, which are forgotten once their unit is evaluated.
	apart := [][]policy.Result{in.found, policy.NotFollowed(render.Objects(in.head), o.gitops != gitopsOff), policy.OnlyInVariants(in.head, lint.IsPart)}
	o.watch.Expect(supervise.EvaluateTask, len(reqs))
	results, err := o.progress.review(ctx, o, in, j, reqs)
	results = policy.WithoutRepeats(results)
	if err != nil {
		j.results = results // those of the objects evaluated so far
		return err
	}
	rest, err := j.bench.rest(ctx)
	j.results = append(results, j.shard.once(append(apart, j.bench.results, rest)...)...)
	return err
}

// keepPasses has the chain keep passes apart, if that is wanted, and forget the places
// of units that are evaluated, which nobody compares. The function that it returns
// adds the passes to those of the evaluation.
func (j *evaluation) keepPasses() (done func()) {
	if j.passes == nil {
		return func() {}
	}
	found := new(policy.Passes) // of its own: a review that does not end in time may still add to it
	j.bench.chain.Passes, j.bench.chain.Forgets = found, true
	return func() { j.passes.Join(found) }
}

// allRequests are the requests that create what units render to, in all variants.
func allRequests(units []*render.Unit) []policy.Request {
	return slices.Concat(policy.Requests(nil, render.Objects(units)), policy.VariantRequests(units))
}

// saysSo tells whether the verdict stands on standard output already.
func saysSo(outs []output) bool { return slices.Contains(outs, output{format: "text"}) }

// countsDocuments reports whether the format says how many documents are not deployed:
// some are lists of findings alone.
func (o output) countsDocuments() bool { return o.format != "concise" && o.format != "gitlab" }

// listSkipped names the files that hold nothing to evaluate.
func listSkipped(w io.Writer, in *input) {
	for _, s := range in.skipped {
		fmt.Fprintf(w, "skipped: %s: %s\n", plain(in.tree.Display(s.Path)), plain(s.Reason))
	}
}

// newReport puts the results together and gives places their names in reports.
func newReport(in *input, j *evaluation) *report.Report {
	unreached := in.unreached()
	for i := range j.results {
		j.results[i].Unreached = unreached[j.results[i].Object.Unit]
	}
	for _, results := range [][]policy.Result{j.results, j.proposed} {
		relabel(in.tree, results)
		policy.Sort(results)
	}
	j.passes.Change(func(r *policy.Result) {
		r.Unreached = unreached[r.Object.Unit]
		r.Rename(in.tree)
	})
	j.passes.Sort()
	rules := j.bench.rules()
	for i := range rules {
		rules[i].Origin.File = in.tree.Display(rules[i].Origin.File)
	}
	r := report.New(report.Tool{Name: "preadmit", Version: version}, in.head, rules, j.results)
	r.AddPasses(j.passes)
	for i := range r.Units {
		r.Units[i].ID, r.Units[i].Path = in.tree.Display(r.Units[i].ID), in.tree.Display(r.Units[i].Path)
		r.Units[i].Owner = in.tree.Display(r.Units[i].Owner)
		r.Units[i].Reason = in.tree.DisplayIn(r.Units[i].Reason)
	}
	r.Notes = slices.Concat(r.Notes, withoutSchema(j.bench.unknown, render.Objects(in.head)), notes(render.Objects(in.head)), assumptions(in), j.notes)
	if j.shard == nil { // of all parts, when they are joined
		r.Notes = append(r.Notes, brokenPasses(j.results, j.passes)...)
	}
	r.Base, r.Changes, r.Proposed = j.base, j.changes, j.proposed
	r.Rehearsal = j.rehearsal
	r.Tree = disk.Shown{Tree: in.tree.Tree}
	addDocuments(r, in)
	return r
}

// relabel names places as reports do.
func relabel(t *tree, results []policy.Result) {
	for i := range results {
		results[i].Rename(t)
	}
}

// verdict is the exit code, and says on standard error what it rests on, where
// that is not to be seen or the code has one of two reasons.
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
	if !o.quiet && denied+undecided > 0 && (both || !saysSo(outs)) {
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

// allUndecided counts what could not be decided, whoever knows it.
func allUndecided(r *report.Report) int {
	n := 0
	for i := range r.Results {
		if x := &r.Results[i]; x.Undecided() && !x.Unreached && x.Baseline != policy.Absent {
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

func timedOut(ctx context.Context, err error) error {
	if tasks.IsTimeUp(ctx, err) {
		return &exitError{exitIncomplete, context.Cause(ctx)}
	}
	return err
}

// unrendered is the report of a run whose time was over before all was rendered.
func (o *checkOptions) unrendered(ctx context.Context) *report.Report {
	return failedReport(context.Cause(ctx).Error()+": not all was rendered, and nothing evaluated", o.watch.Slowest())
}

// unfinished completes an evaluation that the end of the run's time cut short, with a
// result that says so and what was slowest. It returns other errors.
func (j *evaluation) unfinished(ctx context.Context, in *input, err error, slowest func() string) error {
	if !tasks.IsTimeUp(ctx, err) {
		return err
	}
	if j.bench == nil {
		j.bench = &bench{}
	}
	j.base, j.changes, j.proposed = nil, nil, nil
	evaluated := make(map[render.Key]bool)
	for i := range j.results {
		evaluated[j.results[i].Object] = true
	}
	for r := range j.passes.Objects() {
		evaluated[r.Object] = true
	}
	j.results = slices.Concat(j.shard.once(in.found, j.bench.results), j.results, failure(fmt.Sprintf(
		"%v: %d of %s evaluated; the rest was not checked", context.Cause(ctx), len(evaluated), policy.Plural(len(render.Objects(in.head)), "object")), slowest()))
	return nil
}

// failedReport is the report of a run that failed. The hint may be empty.
func failedReport(why, hint string) *report.Report {
	return report.New(report.Tool{Name: "preadmit", Version: version}, nil, nil, failure(why, hint))
}

// failure is the result that says that a run is incomplete, with the next step.
func failure(why, hint string) []policy.Result {
	return []policy.Result{{
		Engine: policy.EngineRender, Rule: policy.RuleIncomplete, Operation: policy.Create, Outcome: policy.Error, Action: policy.Deny,
		Message: "the run is incomplete: " + why, Hint: hint,
	}}
}
