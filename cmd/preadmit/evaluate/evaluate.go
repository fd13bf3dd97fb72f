// Package evaluate evaluates the loaded objects: all of them, or the change from a revision or from
// another version of the API server.
//
// Run takes Options and the load.Input of the work tree, and returns an Evaluation with the results
// and engines. NewReport converts it to a report.
//
//   - evaluate.go: one input; clusters.go: each cluster by itself; shard.go: a part of the units
//   - unsupported.go: what passes only because of objects that nothing deploys
//   - base.go, delivered.go, hidden.go, configchange.go: the change from a revision; decision.go: one request of it; rehearse.go: other versions and actions
//   - resultcache.go: what cached results depend on; part.go: requests with cached results, reviews.go: the requests of a change; user.go: the requesting user; suppressions.go: accepted results
//   - policies.go, admitted.go: the reviews of the commands policies and render --admitted
//   - notes.go: the notes of a report
//
// Everything that results depend on must be a field of engineInputs in resultcache.go, unless it is
// an object that an engine looks up in the policy.Cluster, which is recorded.
package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/disk"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/tui"
)

// An Evaluation is the result of a run: of one input, or of a change from a base.
type Evaluation struct {
	Engines *engines.Set
	Was     *load.Input // the base; nil without one
	Results []policy.Result
	shard   *shard              // the shard to evaluate; nil means all
	passes  *policy.Passes      // passes that are not in Results; nil if all are
	held    *policy.CompactList // other results about objects that are not in Results; may be nil
	notes   []string
	base    *report.Base // nil without a base
	against *base        // the base, rendered

	rehearsal *report.Rehearsal // nil when nothing is rehearsed
	changes   []report.Change   // from the base
	proposed  []policy.Result   // of changed policies
}

// Run evaluates everything that is rendered, or the change from --base.
func Run(ctx context.Context, o *Options, in *load.Input, args []string, stdin io.Reader) (*Evaluation, error) {
	j := &Evaluation{notes: in.Notes, passes: o.Passes, held: o.Held, shard: o.Part}
	s, assumed, err := o.EngineOptions(in)
	if err != nil {
		return j, err
	}
	var was *load.Input
	switch {
	case o.Base != "":
		was, err = j.change(ctx, o, in, args, stdin, s)
		j.Was = was
	case o.FromKubeVersion != "":
		err = j.upgrade(ctx, o, in, args, stdin, s)
	default:
		j.shard.divide(in)
		err = j.eachCluster(ctx, s, nil, in, func(j *Evaluation, s engines.Options, on func(*load.Input) *load.Input) error {
			in := on(in)
			if err := j.all(ctx, o, in, s); err != nil {
				return err
			}
			if j.held != nil { // the results are for a report, and nobody asks for explanations
				j.Engines.Release()
			}
			all := func() []policy.Request { return j.shard.requests(s.By(allRequests(in.Head))) }
			unsupported, err := o.unsupported(ctx, in, in, s, j.Engines.MayHaveRead, []*cache.Graph{in.Graph}, all, j.passes, policy.Each(j.Results), j.held.All())
			j.Results = append(j.Results, unsupported...)
			return err
		})
	}
	if err == nil {
		err = j.suppress(o, was, in, in.Tree.HoldsAll(args))
	}
	if err == nil && len(o.Enforce) > 0 {
		err = j.enforced(o)
	}
	if err != nil {
		return j, err
	}
	j.notes = slices.Concat(j.Engines.Notes, j.notes)
	if assumed != "" && slices.ContainsFunc(j.Engines.Rules(), func(r policy.Rule) bool {
		return strings.Contains(r.Expression, "userInfo") || strings.Contains(r.Expression, "authorizer")
	}) {
		j.notes = append(j.notes, assumed)
	}
	if accounts := impersonated(in.Head); len(accounts) > 0 && !s.Authorizes() {
		j.notes = append(j.notes, "not checked: whether the service accounts that apply objects may do so ("+policy.Few(accounts)+"); --authorizer rbac checks it")
	}
	return j, nil
}

// all evaluates every object as if it were created, but reuses cached results of units whose inputs have
// not changed: the unit itself, the policies and options, and the other objects that policies looked at.
func (e *Evaluation) all(ctx context.Context, o *Options, in *load.Input, s engines.Options) (err error) {
	memory := o.Memory
	if o.Progress.Early() { // the screen also shows the results so far, which the cache does not give
		memory = nil
	}
	r := newResultCache(memory, in, in, s)
	held := cmp.Or(e.held, new(policy.CompactList))
	reqs := e.shard.requests(s.By(allRequests(in.Head)))
	p := r.part("all", &held.Compact, reqs)
	start := time.Now()
	if err := e.makeEngines(in, in, s, r, p.left() > 0); err != nil {
		return err
	}
	r.compiled(e.Engines, time.Since(start))
	// These need origins, which are dropped once their unit is evaluated.
	apart := [][]policy.Result{in.Found, policy.NotFollowed(render.Objects(in.Head), o.GitOps != load.GitOpsOff), policy.OnlyInVariants(in.Head, lint.IsPart), e.Engines.Results}
	o.Watch.Expect(supervise.EvaluateTask, p.left())
	var results []policy.Result
	switch chain := e.Engines.Chain; {
	case o.Progress.Early():
		results, err = e.reviewEarly(ctx, o, in, reqs)
		results = policy.WithoutRepeats(results)
	case e.passes == nil:
		results, err = p.review(ctx, chain)
		results = policy.WithoutRepeats(results)
	default:
		chain.Forgets = true
		var parts []policy.CompactResults
		parts, err = p.hold(ctx, chain, e.passes)
		if held.Keep(parts...); e.held == nil {
			results = held.Sorted()
		}
	}
	if err != nil {
		e.Results = results // of the objects evaluated so far
		return err
	}
	rest, err := e.Engines.Rest(ctx)
	e.Results = append(results, e.shard.once(append(apart, rest)...)...)
	r.keep(e.Engines)
	return err
}

// allRequests returns the requests that create the units' objects, in all
// variants.
func allRequests(units []*render.Unit) []policy.Request {
	return slices.Concat(policy.Requests(nil, render.Objects(units)), policy.VariantRequests(units))
}

// NewReport returns the report of an evaluation. It converts file names to those of reports.
func NewReport(in *load.Input, j *Evaluation) *report.Report {
	unreached := in.Unreached()
	for i := range j.Results {
		j.Results[i].Unreached = unreached[j.Results[i].Object.Unit]
	}
	for _, results := range [][]policy.Result{j.Results, j.proposed} {
		Relabel(in.Tree, results)
		policy.Sort(results)
	}
	change := func(r *policy.Result) {
		r.Unreached = unreached[r.Object.Unit]
		r.Rename(in.Tree)
	}
	j.passes.Change(change)
	j.passes.Sort()
	j.held.Change(change)
	j.held.Sort()
	rules := j.Engines.Rules()
	for i := range rules {
		rules[i].Origin.File = in.Tree.Display(rules[i].Origin.File)
	}
	r := report.New(report.Tool{Name: "preadmit", Version: supervise.Version()}, in.Head, rules, j.Results)
	r.AddPasses(j.passes)
	r.AddHeld(j.held)
	for i := range r.Units {
		r.Units[i].ID, r.Units[i].Path = in.Tree.Display(r.Units[i].ID), in.Tree.Display(r.Units[i].Path)
		r.Units[i].Owner = in.Tree.Display(r.Units[i].Owner)
		r.Units[i].Reason = in.Tree.DisplayIn(r.Units[i].Reason)
	}
	r.Notes = slices.Concat(r.Notes, withoutSchema(j.Engines.Unknown, render.Objects(in.Head)), notes(render.Objects(in.Head)), assumptions(in), j.notes)
	if j.shard == nil { // parts get these notes when they are joined
		r.Notes = append(r.Notes, BrokenPasses(r)...)
	}
	r.Base, r.Changes, r.Proposed = j.base, j.changes, j.proposed
	r.Rehearsal = j.rehearsal
	r.Tree = disk.Shown{Tree: in.Tree.Tree}
	addDocuments(r, in)
	return r
}

// Relabel converts the file names in results to those of reports.
func Relabel(t *load.Tree, results []policy.Result) {
	for i := range results {
		results[i].Rename(t)
	}
}

func TimedOut(ctx context.Context, err error) error {
	if tasks.IsTimeUp(ctx, err) {
		return &supervise.Incomplete{Err: context.Cause(ctx)}
	}
	return err
}

// Unrendered returns the report of a run whose time ended before everything was
// rendered.
func (o *Options) Unrendered(ctx context.Context) *report.Report {
	return FailedReport(context.Cause(ctx).Error()+": not all was rendered, and nothing evaluated", o.Watch.Slowest())
}

// Unfinished completes an evaluation whose time ended, with a result that says
// so and names the slowest tasks. Other errors are returned.
func (e *Evaluation) Unfinished(ctx context.Context, in *load.Input, err error, slowest func() string) error {
	if !tasks.IsTimeUp(ctx, err) {
		return err
	}
	if e.Engines == nil {
		e.Engines = &engines.Set{}
	}
	e.base, e.changes, e.proposed = nil, nil, nil
	evaluated := make(map[render.Key]bool)
	for i := range e.Results {
		evaluated[e.Results[i].Object] = true
	}
	for r := range e.passes.Objects() {
		evaluated[r.Object] = true
	}
	for r := range e.held.All() {
		evaluated[r.Object] = true
	}
	e.Results = slices.Concat(appendNew(e.shard.once(in.Found, e.Engines.Results), e.Results), policy.Incomplete(fmt.Sprintf(
		"%v: %d of %s evaluated; the rest was not checked", context.Cause(ctx), len(evaluated), policy.Plural(len(render.Objects(in.Head)), "object")), slowest()))
	return nil
}

// FailedReport returns the report of a run that failed. hint may be empty.
func FailedReport(why, hint string) *report.Report {
	return report.New(report.Tool{Name: "preadmit", Version: supervise.Version()}, nil, nil, policy.Incomplete(why, hint))
}

// reviewEarly evaluates a part of the requests at a time, shows the results so far, and returns those of
// all.
func (e *Evaluation) reviewEarly(ctx context.Context, o *Options, in *load.Input, reqs []policy.Request) (all []policy.Result, err error) {
	if e.passes != nil {
		passes := new(policy.Passes) // a separate list, because a review that does not end in time may still add to it
		e.Engines.Chain.Passes, e.Engines.Chain.Forgets = passes, true
		defer func() { e.passes.Join(passes) }()
	}
	size, next := 32, time.Now().Add(partialEvery)
	for done := 0; done < len(reqs); size = min(size*2, 256) {
		part := reqs[done:min(done+size, len(reqs))]
		o.Progress.Tell(tui.Progress{Step: "evaluating", Done: done, Total: len(reqs)})
		results, err := e.Engines.Chain.Review(ctx, part)
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
		if done += len(part); done < len(reqs) && time.Now().After(next) {
			began := time.Now()
			o.Progress.Tell(tui.Progress{Step: "evaluating", Done: done, Total: len(reqs), Report: partial(o, in, e, all)})
			next = time.Now().Add(max(partialEvery, 10*time.Since(began))) // a tenth of the time at most
		}
	}
	return all, nil
}

// partialEvery is how often a screen gets the results so far.
const partialEvery = 400 * time.Millisecond

// partial returns a report of the results so far. It shares nothing that may
// still change.
func partial(o *Options, in *load.Input, j *Evaluation, results []policy.Result) *report.Report {
	some := *j
	some.Results = slices.Concat(in.Found, j.Engines.Results, results)
	for i := range some.Results {
		some.Results[i].Origins = slices.Clone(some.Results[i].Origins)
	}
	if held, err := ReadSuppressions(o, in); err == nil {
		policy.Suppress(some.Results, nil, held, o.Day())
	}
	return NewReport(in, &some)
}
