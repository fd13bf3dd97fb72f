package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/change"
	"github.com/preadmit/preadmit/policy/lint"
	"github.com/preadmit/preadmit/policy/rego"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/kustomize"
	"github.com/preadmit/preadmit/report"
	"github.com/preadmit/preadmit/report/objects"
)

// change evaluates the change from --base and returns the base.
func (e *Evaluation) change(ctx context.Context, o *Options, in *load.Input, args []string, stdin io.Reader, s engines.Options) (*load.Input, error) {
	b, err := o.openBase(ctx, in, args, stdin, slices.Concat(args, o.Policies, o.With))
	if err != nil {
		return nil, err
	}
	b.perhaps, b.fading = change.Count(b.in.Side(), in.Side())
	b.documents = sync.OnceValue(func() *change.Documents {
		return change.NewDocuments(b.in.Side(), in.Side(), change.Files{Same: func(file string) bool {
			return sameContent(b.in, in, file) || change.SameFile(b.in.Tree, in.Tree, file)
		}, Excluded: o.Selection.Excludes, Unreadable: in.Unreadable(b.Repo, b.in.Tree)})
	})
	e.base, e.against = &report.Base{Revision: o.Base, Commit: b.Commit}, b
	e.shard.divide(b.in, in)
	err = e.eachCluster(ctx, s, b.in, in, func(j *Evaluation, s engines.Options, on func(*load.Input) *load.Input) error {
		one := *b
		one.in = on(b.in)
		return j.compare(ctx, o, &one, on(in), s)
	})
	if err == nil {
		configured, notes := b.configurationChange(ctx, o, in, args, stdin)
		e.Results = append(e.Results, e.shard.once(b.documents().Rest(), b.replacedContent(in), b.leftOut(in, args), configured, b.faded(in), change.NewlyAssumed(b.in.Assumed, in.Assumed))...)
		e.notes = append(e.notes, notes...)
	}
	return b.in, err
}

// A base is the rendered revision that the work tree is compared with.
type base struct {
	*load.Revision
	in        *load.Input
	documents func() *change.Documents
	// perhaps has the units that only perhaps are deployed, and why, by identity
	perhaps map[string]string
	fading  []*render.Unit          // that stop counting once the change is merged
	gone    map[*render.Object]bool // that are deleted before the change applies others, see delivered
	later   *load.Input             // the head with its own configuration, if that differs
}

// openBase renders the base with the options of the head. Each of the paths must exist on one side. The
// head is rendered again if the change stops deploying roots of it.
func (o *Options) openBase(ctx context.Context, head *load.Input, args []string, stdin io.Reader, paths []string) (*base, error) {
	r, err := load.OpenBase(head.Tree, o.Base)
	if err != nil {
		return nil, err
	}
	o.RememberObjects(r)
	b, sources := &base{Revision: r}, o.Sources
	sources.ClustersThere = head.ClusterDirs
	if b.in, err = load.From(ctx, &sources, b.Tree, orHere(args), stdin); err != nil {
		return nil, fmt.Errorf("--base: %w", err)
	}
	if err := b.Files.Err(); err != nil {
		return nil, &supervise.Incomplete{Err: fmt.Errorf("--base %s: %w", o.Base, err)}
	}
	if err := b.held(head.Tree, paths); err != nil {
		return nil, err
	}
	return b, b.leaveOut(ctx, o, head, args, stdin)
}

// leaveOut renders the head again if there are roots that the change stops deploying, or directories of
// clusters that only the base tells apart.
func (b *base) leaveOut(ctx context.Context, o *Options, head *load.Input, args []string, stdin io.Reader) error {
	sources := o.Sources
	sources.Dropped, sources.ClustersThere = change.Dropped(b.in.Side(), head.Side()), b.in.ClusterDirs
	if len(sources.Dropped) == 0 && head.Hold(b.in.ClusterDirs) {
		return nil
	}
	again, err := load.From(ctx, &sources, head.Tree, orHere(args), stdin)
	if err == nil {
		*head = *again
	}
	return err
}

// orHere returns the paths of the command line, by default the current directory.
func orHere(args []string) []string {
	if len(args) == 0 {
		return []string{"."}
	}
	return args
}

// held returns an error for a path that exists on neither side.
func (b *base) held(head *load.Tree, paths []string) error {
	for _, p := range paths {
		name, err := head.NameOf(p, nil)
		if err != nil {
			return err
		}
		_, inHead := fs.Stat(head, name)
		if _, inBase := fs.Stat(b.Tree, name); inHead != nil && inBase != nil {
			return load.NotFound(p, p)
		}
	}
	return nil
}

// compare evaluates the change from the base to the head with the base's
// policies, and marks new results. Unchanged objects are evaluated once.
func (e *Evaluation) compare(ctx context.Context, o *Options, b *base, in *load.Input, s engines.Options) error {
	was, now := b.in.Side(), in.Side()
	half := change.PartlyRendered(was, now)
	q := requestsOf(was, now)
	d, err := delivered(ctx, s.By(q.made), b.in, in, s.KubeVersion)
	if err != nil {
		return err
	}
	reqs := d.made
	b.gone = d.gone
	trusted := b.trusted(in)
	e.notes = append(e.notes, d.notes...)
	var left []string
	e.changes, left = objects.Changes(slices.Concat(reqs, d.lost), objects.Sides{
		Base: was.Units, Head: now.Units, BaseFile: b.in.Tree.Display, HeadFile: in.Tree.Display, Half: half,
		Resumed: change.Resumed(was, now), Uncertain: d.uncertain, Dropped: d.dropped, Ignore: o.Configuration.Diff.Ignore,
	})
	e.notes = append(e.notes, left...)
	same, changed := policy.Divide(reqs)
	notFollowed := policy.NotFollowed(render.Objects(in.Head), o.GitOps != load.GitOpsOff)
	same, changed = e.shard.requests(same), e.shard.requests(changed)
	if o.Combine { // unchanged objects are evaluated together with the changed ones
		same, changed = nil, reqs
	}
	variants, oldVariants := e.shard.requests(s.By(q.variants)), e.shard.requests(s.By(q.old))
	written := slices.Clone(changed) // the old objects of changed will be replaced
	cached := newResultCache(o.Memory, in, trusted, s)
	cached.distrust(was, now, nil)
	held := cmp.Or(e.held, new(policy.CompactList))
	v := cached.reviews(&held.Compact, same, changed, variants, oldVariants)
	others := policy.OtherVersions(reqs) // of all parts, which give the same notes
	proposes := !samePolicies(b.in, in, s.NoTreePolicies)
	start := time.Now()
	if err := e.makeEngines(in, trusted, s, cached, v.left() > 0 || proposes || len(others) > 0 || len(d.unsent) > 0 || len(b.asOthers(s, v.requests())) > 0); err != nil {
		return err
	}
	cached.compiled(e.Engines, time.Since(start))
	v.chain = e.Engines.Chain
	o.Watch.Expect(supervise.EvaluateTask, v.left())
	kept, fresh, err := v.head(ctx)
	if err == nil && e.Engines.Cluster != nil && cached.distrust(was, now, e.Engines.Cluster) {
		v.forget()
		kept, fresh, err = v.head(ctx)
	}
	if err != nil {
		return err
	}
	found := []iter.Seq[*policy.Result]{v.same.held.Each(kept...), policy.Each(fresh)}
	exempted, err := b.exempted(ctx, s, e.Engines, in, v, found)
	if err != nil {
		return err
	}
	impersonated, err := b.impersonated(ctx, s, v, found)
	if err != nil {
		return err
	}
	exempted = append(exempted, impersonated...)
	byChange := len(exempted) // results that count as new even if the base has them, because the change adds the exemption
	ofHead := func() []policy.Request { return slices.Concat(same, written, variants) }
	undeployed, err := o.unsupported(ctx, in, trusted, s, e.Engines.MayHaveRead, cached.graphs, ofHead, v.passes, append(found, policy.Each(exempted))...)
	if err != nil {
		return err
	}
	exempted = append(exempted, undeployed...)
	before, err := e.atBase(b, reqs, v, s)
	if err != nil {
		return err
	}
	old, err := v.base(ctx, before.Chain, kept)
	if err != nil {
		return err
	}
	rest, err := e.Engines.Rest(ctx)
	if err != nil {
		return err
	}
	restOld, err := before.Rest(ctx)
	if err != nil {
		return err
	}
	c := policy.Comparison{Updates: policy.Updates(reqs), Incomparable: half, Stopped: change.Stopped(was, now)}
	foundOld := slices.DeleteFunc(slices.Clone(b.in.Found), func(r policy.Result) bool {
		return r.Rule == render.UnfollowedTool && r.Outcome == policy.Error // what the tool deploys is not compared
	})
	c.Base = slices.Concat(e.shard.once(foundOld, e.Engines.Results, c.InBase(notFollowed), policy.OnlyInVariants(b.in.Head, lint.IsPart)), old, restOld)
	ofBase := func() []policy.Request {
		return slices.Concat(same, policy.Reapplying(written), oldVariants)
	}
	read := func(x *render.Object) bool { return before.MayHaveRead(x) || e.Engines.MayHaveRead(x) } // the latter evaluated the unchanged objects
	undeployed, err = o.unsupported(ctx, b.in, b.in, s, read, cached.graphs, ofBase, v.passes, policy.Each(c.Base), v.same.held.Each(kept...))
	if err != nil {
		return err
	}
	c.Base = append(c.Base, undeployed...)
	policy.Suppress(c.Base, nil, comments(b.in), o.Day())
	again := change.UndecidedAgain(was, now, reqs)
	e.Results = c.Compare(slices.Concat(exempted, e.shard.once(in.Found, e.Engines.Results, notFollowed, policy.OnlyInVariants(in.Head, lint.IsPart)), fresh, rest))
	if !o.OnlyNew {
		c.MarkRefused(e.Results)
	}
	for i := range e.Results {
		r := &e.Results[i]
		if again(r) || i < byChange && r.Baseline == policy.Unchanged {
			r.Baseline = policy.New
		}
		if r.Baseline == policy.New { // what the change adds where it perhaps is deployed is denied
			r.DenyOnClusters()
		}
		if why := b.perhaps[r.Object.Unit]; why != "" && r.Engine != policy.EngineRender {
			r.Assumed = append(slices.Clone(r.Assumed), why)
		}
		b.placeAtBase(r)
	}
	ignored, err := e.reviewUnsent(ctx, e.shard.requests(s.By(d.unsent)), d.conditions)
	if err != nil {
		return err
	}
	for i := range ignored {
		b.placeAtBase(&ignored[i])
	}
	referenced, err := change.StillReferenced(reqs, was, now, kustomize.DefaultFieldSpecs(), b.name)
	if err != nil {
		return err
	}
	e.Results = append(e.Results, e.shard.once(b.documents().NoLongerDeployed(reqs), b.newlyExcluded(o, in), referenced)...)
	e.Results = append(e.Results, ignored...)
	e.notes = slices.Concat(e.notes, b.notes(in), e.Engines.Chain.UnreadOld(others))
	cached.keep(e.Engines, before)
	if proposes {
		if err := e.propose(ctx, s, in, v, found); err != nil {
			return err
		}
	}
	e.addUnchanged(held, kept, v.passes)
	return nil
}

// placeAtBase names the base's commit in the places of a result about an object that the head lacks.
func (b *base) placeAtBase(r *policy.Result) {
	if r.Baseline == policy.Absent || r.Operation == policy.Delete {
		r.Origins = slices.Clone(r.Origins)
		for i := range r.Origins {
			r.Origins[i].File = b.name(r.Origins[i].File)
		}
	}
}

// atBase returns the engines for the base's version of changed objects. Policies must find the base's
// objects when they look up others, so the engines are compiled again if the change touches such objects.
func (e *Evaluation) atBase(b *base, reqs []policy.Request, v *reviews, s engines.Options) (*engines.Set, error) {
	kinds, served := e.Engines.Cluster.Asked()
	if around := v.cache.around; around != nil {
		kinds, served = append(kinds, around.Kinds...), served || around.Served != ""
	}
	otherwise := func(r policy.Request) bool {
		o := r.Subject()
		return (served || schema.IsDefinition(o) || slices.Contains(kinds, o.GroupVersionKind().GroupKind())) && !r.Unchanged()
	}
	if !s.Combine && (v.old.left()+v.oldVariants.left() == 0 || !slices.ContainsFunc(reqs, otherwise)) {
		return e.Engines, nil
	}
	set, err := engines.New(b.in, b.in, s)
	if err == nil {
		set.Chain.Secrets = e.Engines.Chain.Secrets
	}
	return set, err
}

// addUnchanged adds the results of requests that change nothing. The base has them, too.
func (e *Evaluation) addUnchanged(held *policy.CompactList, kept []policy.CompactResults, passes *policy.Passes) {
	unchanged := func(r *policy.Result) { r.Baseline = policy.Unchanged }
	held.Keep(kept...)
	held.Change(unchanged)
	if e.held == nil {
		e.Results = append(e.Results, held.Sorted()...)
	}
	passes.Change(unchanged)
	if e.passes == nil {
		e.Results = passes.AppendTo(e.Results)
	}
	e.passes.Join(passes)
}

// trusted returns the base, whose policies evaluate the head. Objects that the change leaves alone
// get the places of the head, which a reader can open. Other objects get places in the base's
// commit. Objects that are gone are left out, unless policies consist of them or depend on them, and
// so are exemptions that the change is the first to deploy.
func (b *base) trusted(head *load.Input) *load.Input {
	mayExempt, newly := change.MayExempt(b.in.Side()), change.NewlyExempting(b.in.Side(), head.Side())
	in := *b.in.Without(func(o *render.Object) bool {
		return b.gone[o] && !lint.IsCompiled(o) && !mayExempt(o) || newly(o)
	})
	in.Head, in.Given, in.Context = change.Standing(in.Head, head.Head, b.name), change.Standing(b.in.Given, head.Given, b.name), change.Standing(b.in.Context, head.Context, b.name)
	in.Modules, in.Data = b.trustedRego(head)
	return &in
}

// name returns Git's name for a file of the base: commit:path.
func (b *base) name(file string) string {
	if file == "" {
		return ""
	}
	return b.Commit[:12] + ":" + file
}

// exempted returns the failures that pass only because the change adds an exemption. found are the
// results with the head's exemptions.
func (b *base) exempted(ctx context.Context, s engines.Options, with *engines.Set, head *load.Input, v *reviews, found []iter.Seq[*policy.Result]) ([]policy.Result, error) {
	was, now := b.in.Side(), head.Side()
	kinds, _ := with.Cluster.Asked()
	if v.cache.covers(kinds) { // the change exempts nothing, see distrust
		return nil, nil
	}
	changed, is := change.Exempting(was, now, kinds)
	exempted, err := b.reviewExempting(ctx, s, head, v, found, changed, is)
	if err != nil {
		return nil, err
	}
	changed, is = change.LookedUp(was, now, kinds)
	allowed, err := b.reviewExempting(ctx, s, head, v, append(found, policy.Each(exempted)), changed, is)
	for i := range allowed { // they are warnings, because objects that need each other may be added together
		allowed[i].Outcome = policy.Fail
		if allowed[i].Action == policy.Deny {
			allowed[i].Action = policy.Warn
		}
	}
	return append(exempted, allowed...), err
}

// reviewExempting reviews requests with the base's version of the objects for which is returns
// true.
func (b *base) reviewExempting(ctx context.Context, s engines.Options, head *load.Input, v *reviews, found []iter.Seq[*policy.Result], changed []policy.Request, is func(*render.Object) bool) ([]policy.Result, error) {
	if len(changed) == 0 {
		return nil, nil
	}
	reqs, err := v.stored(ctx)
	if reqs = change.Concerned(reqs, changed); err != nil || len(reqs) == 0 {
		return nil, err
	}
	trusted := b.trusted(head)
	trusted.Exempts = is
	set, err := engines.New(head, trusted, s)
	if err != nil {
		return nil, err
	}
	results, err := set.Chain.Review(ctx, reqs)
	if err != nil {
		return nil, err
	}
	return change.Exempted(results, changed, found...), nil
}

// propose evaluates the head with its own policies, which differ from the base's, and records the
// results that are new or gone.
func (e *Evaluation) propose(ctx context.Context, s engines.Options, in *load.Input, v *reviews, trusted []iter.Seq[*policy.Result]) error {
	reqs, err := v.stored(ctx)
	if err != nil {
		return err
	}
	set, err := engines.New(in, in, s)
	if err != nil {
		return err
	}
	if e.Engines.Implied && !set.Implied {
		e.notes = append(e.notes, "the change brings in the first policy: preadmit's default, the pack "+engines.DefaultPack+", no longer applies once it is merged; to keep it: --pack "+engines.DefaultPack)
	}
	results, err := set.Chain.Review(ctx, slices.Concat(reqs, v.variants.reqs))
	if err != nil {
		return err
	}
	results = policy.WithoutRepeats(results)
	c := policy.Comparison{Base: slices.Clone(e.shard.once(e.Engines.Results))}
	for _, list := range trusted {
		for r := range list {
			c.Base = append(c.Base, *r)
		}
	}
	e.proposed = append(e.proposed, policy.Differing(c.Compare(slices.Concat(e.shard.once(set.Results), results)))...)
	e.notes = append(e.notes, "the change touches policies, or objects that policies may read: the base's policies decide, and results that the changed ones would change are listed apart")
	return nil
}

// samePolicies reports whether both sides have the same policies, bindings, parameters and
// exceptions, except for their lines.
func samePolicies(base, head *load.Input, noTreePolicies bool) bool {
	return change.SamePolicies(policyObjects(base, noTreePolicies), policyObjects(head, noTreePolicies), base.Side(), head.Side()) && sameRego(base, head)
}

// policyObjects returns the policies of a side, with their bindings, parameters
// and exceptions.
func policyObjects(in *load.Input, noTreePolicies bool) []*render.Object {
	all := render.Objects(in.Given)
	if !noTreePolicies {
		all = slices.Concat(all, slices.DeleteFunc(render.Objects(in.Head), func(x *render.Object) bool { return !lint.IsPart(x) }))
	}
	return all
}

// notes returns the notes about the base.
func (b *base) notes(head *load.Input) []string {
	var notes []string
	for _, m := range b.Files.AbsentSubmodules() {
		if entries, err := fs.ReadDir(head.Tree, m); err == nil && len(entries) > 0 {
			notes = append(notes, m+" is a submodule at the base and holds other files now, so all of it counts as new")
		}
	}
	for _, r := range head.Found {
		if r.Rule == render.UnfollowedTool && r.Outcome != policy.Error && len(r.Origins) > 0 {
			notes = append(notes, r.Origins[0].File+": "+r.Message)
		}
	}
	names, reasons := b.in.Unread()
	for i, name := range names {
		notes = append(notes, name+" could not be read at the base, so all its results count: "+reasons[i])
	}
	results := make(map[string]bool) // units that can have results
	for _, u := range head.Head {
		results[u.Identity()] = results[u.Identity()] || len(u.Objects) > 0
	}
	var half []string
	var why error
	for _, u := range b.in.Head {
		i := slices.IndexFunc(render.Errors(u.Err), func(e *render.Error) bool { return !e.Warning })
		if i >= 0 && results[u.Identity()] && !slices.Contains(half, u.Identity()) {
			half, why = append(half, u.Identity()), render.Errors(u.Err)[i]
		}
	}
	switch len(half) {
	case 0:
	case 1:
		notes = append(notes, fmt.Sprintf("%s could only be partly rendered at the base, so all its results that the base does not have count, and its objects may be on the cluster already: %v", half[0], why))
	default:
		notes = append(notes, fmt.Sprintf("%d units could only be partly rendered at the base, so all their results that the base does not have count, and their objects may be on the cluster already: %s", len(half), policy.Few(half)))
	}
	return notes
}

// sameRego reports whether both sides have the same modules and data.
func sameRego(base, head *load.Input) bool {
	return slices.Equal(base.Modules, head.Modules) &&
		slices.EqualFunc(base.Data, head.Data, func(x, y rego.Document) bool {
			return x.File == y.File && x.Text == y.Text && slices.Equal(x.Under, y.Under)
		})
}

// trustedRego returns the modules and data of the base. Those that the change touches get names in
// the base's commit.
func (b *base) trustedRego(head *load.Input) (modules []rego.Module, data []rego.Document) {
	modules, data = slices.Clone(b.in.Modules), slices.Clone(b.in.Data)
	for i, m := range modules {
		if !slices.Contains(head.Modules, m) {
			modules[i].File = b.name(m.File)
		}
	}
	for i, d := range data {
		same := func(x rego.Document) bool { return x.File == d.File && x.Text == d.Text }
		if !slices.ContainsFunc(head.Data, same) {
			data[i].File = b.name(d.File)
		}
	}
	return modules, data
}
